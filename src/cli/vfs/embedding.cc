#include "cli/vfs/embedding.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/semantic_index.h"
#include "base/path.h"
#include "embed/item_embedding.h"
#include "session/embed_config.h"

namespace warren::cli {
namespace {

// "/mem/semantic/a.json" or "/agent/ID/mem/semantic/a.json".
bool is_semantic_item(std::string_view path) {
  constexpr std::string_view kAgents = "/agent/";
  if (path.starts_with(kAgents)) path.remove_prefix(std::min(path.find('/', kAgents.size()), path.size()));
  return path.ends_with(".json") && path.starts_with(kSemanticMemory) &&
         path.substr(kSemanticMemory.size()).starts_with('/');
}

}  // namespace

Result<std::unique_ptr<Embedder>> open_user_embedder(Context& context) {
  EmbedderOptions options = WARREN_TRY(embedder_options(context.environment));
  auto embedder = WARREN_TRY(open_embedder(options));
  if (embedder == nullptr) {
    return Error(Code::kUnsupported, "a text needs an embedder, and the configuration says that there is none",
                 "see WARREN_EMBED and embed.toml in docs/context.md, or give the numbers with --embedding");
  }
  return embedder;
}

Result<ValueToStore> embedded_item(Context& context, std::string_view path, std::string value,
                                   const std::function<Result<bool>()>& may_write) {
  Result<std::string> normalised = normalise_path(path);
  ValueToStore stored{.value = std::move(value)};
  if (!normalised.ok() || !is_semantic_item(*normalised) || !lacks_embedding(stored.value)) return stored;
  if (Result<bool> may = may_write(); !may.ok() || !*may) return stored;
  EmbedderOptions options = WARREN_TRY(embedder_options(context.environment));
  Result<std::unique_ptr<Embedder>> embedder = open_embedder(options);
  if (embedder.ok() && *embedder == nullptr) return stored;
  Result<std::string> embedded =
      embedder.ok() ? with_embedding(stored.value, **embedder) : Result<std::string>(embedder.error());
  if (embedded.ok()) return ValueToStore{.value = *std::move(embedded)};
  stored.as_is = true;
  const Error& error = embedded.error();
  context.err.line(
      fmt::format("warren: {} is stored without an embedding, which it gets with the next `query --text`: {}",
                  context.err.name(*normalised), context.err.name(error.message())));
  if (!error.hint().empty()) context.err.line(fmt::format("hint: {}", context.err.name(error.hint())));
  return stored;
}

}  // namespace warren::cli
