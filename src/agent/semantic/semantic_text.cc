#include "agent/semantic/semantic_text.h"

#include <algorithm>

#include "agent/semantic/semantic_index.h"
#include "base/path.h"
#include "embed/item_embedding.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

// "/mem/semantic/a.json" or "/agent/ID/mem/semantic/a.json".
bool is_semantic_item(std::string_view path) {
  constexpr std::string_view kAgents = "/agent/";
  if (path.starts_with(kAgents)) path.remove_prefix(std::min(path.find('/', kAgents.size()), path.size()));
  return path.ends_with(".json") && path.starts_with(kSemanticMemory) &&
         path.substr(kSemanticMemory.size()).starts_with('/');
}

}  // namespace

bool needs_embedding(std::string_view path, std::string_view value) {
  Result<std::string> normalised = normalise_path(path);
  return normalised.ok() && is_semantic_item(*normalised) && lacks_embedding(value);
}

Result<bool> may_write_item(NamespaceView& view, const std::string& path) {
  bool is_there = WARREN_TRY(exists(view, path));
  return view.may(is_there ? Rights::kOverwrite : Rights::kCreate, path);
}

ItemToStore embed_item(std::string value, const Result<Embedder*>& embedder) {
  if (embedder.ok() && *embedder == nullptr) return {.value = std::move(value)};
  Result<std::string> embedded =
      embedder.ok() ? with_embedding(value, **embedder) : Result<std::string>(embedder.error());
  if (embedded.ok()) return {.value = *std::move(embedded)};
  return {.value = std::move(value), .as_is = true, .why_not = std::move(embedded).take_error()};
}

Result<std::vector<float>> embed_question(Embedder& embedder, const std::string& text, Json& filter) {
  auto vectors = WARREN_TRY(embedder.embed({text}, TextRole::kQuery));
  if (filter.is_null()) filter = Json::object();
  if (filter.is_object()) filter.emplace(std::string(kEmbeddingModel), embedder.model());
  return vectors.at(0);
}

}  // namespace warren
