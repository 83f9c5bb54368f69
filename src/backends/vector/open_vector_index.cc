#include "backends/vector/open_vector_index.h"

#include <array>

#include <fmt/format.h>

#include "backends/vector/chroma_vectors.h"
#include "backends/vector/memory_vectors.h"
#include "backends/vector/pinecone_vectors.h"
#include "backends/vector/weaviate_vectors.h"
#include "base/ascii.h"
#include "base/path.h"
#include "clients/url.h"

namespace warren {
namespace {

using IndexResult = Result<std::unique_ptr<VectorIndex>>;

struct VectorScheme {
  std::string_view scheme;
  std::string_view form;  // for people
  IndexResult (*open)(const Url& url, std::optional<std::string> password, std::chrono::milliseconds timeout);
};

constexpr std::array kVectorSchemes = {
    VectorScheme{"chroma", "chroma://HOST[:PORT]/COLLECTION", ChromaVectors::open},
    VectorScheme{"pinecone", "pinecone://:API-KEY@INDEX-HOST/NAMESPACE", PineconeVectors::open},
    VectorScheme{"weaviate", "weaviate://HOST[:PORT]/CLASS", WeaviateVectors::open},
};

const VectorScheme* find_vector_scheme(std::string_view address) {
  std::size_t colon = address.find(':');
  if (colon == std::string_view::npos || !is_service_address(address)) return nullptr;
  std::string scheme = to_lower(address.substr(0, colon));
  for (const VectorScheme& one : kVectorSchemes) {
    if (one.scheme == scheme) return &one;
  }
  return nullptr;
}

}  // namespace

std::string known_vector_schemes() {
  std::string known = "memory:";
  for (const VectorScheme& one : kVectorSchemes) known += fmt::format(", {}", one.form);
  return known;
}

bool is_vector_address(std::string_view address) { return find_vector_scheme(address) != nullptr; }

Result<std::unique_ptr<VectorIndex>> open_vector_index(const std::string& address, const BackendOptions& options) {
  if (address == "memory:") return IndexResult(std::make_unique<MemoryVectors>());
  const VectorScheme* scheme = find_vector_scheme(address);
  if (scheme == nullptr) {
    return Error(Code::kInvalid, "the address is not that of a known vector index",
                 fmt::format("known: {}", known_vector_schemes()));
  }
  Url url = WARREN_TRY(parse_url(address));
  return scheme->open(url, options.password, options.timeout).within([&] {
    return fmt::format("vector index {}", without_secrets(url));
  });
}

}  // namespace warren
