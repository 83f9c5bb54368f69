#include "embed/item_embedding.h"

#include <array>
#include <charconv>

#include "base/json.h"

namespace warren {
namespace {

// With the fewest decimals that give the same float again.
Json short_numbers(const std::vector<float>& vector) {
  Json list = Json::array();
  for (float number : vector) {
    std::array<char, 32> digits{};
    const char* end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    double value = 0;
    std::from_chars(digits.data(), end, value);
    list.push_back(value);
  }
  return list;
}

}  // namespace

bool lacks_embedding(std::string_view item) {
  Result<Json> value = parse_json(item);
  if (!value.ok() || !value->is_object() || value->contains("embedding")) return false;
  return value->contains("text") && (*value)["text"].is_string();
}

Result<std::string> with_embedding(std::string_view item, Embedder& embedder) {
  Json value = WARREN_TRY(parse_json(item));
  const auto text = value["text"].get<std::string>();
  auto vectors = WARREN_TRY(embedder.embed({text}, TextRole::kPassage));
  if (vectors.size() != 1) return Error(Code::kInternal, "the embedder returned another number of vectors than texts");
  Json& metadata = value["metadata"];
  if (metadata.is_null()) metadata = Json::object();
  if (!metadata.is_object()) return Error(Code::kInvalid, "the member 'metadata' is not an object");
  metadata[std::string(kEmbeddingModel)] = embedder.model();
  value["embedding"] = short_numbers(vectors[0]);
  return dump_json(value);
}

}  // namespace warren
