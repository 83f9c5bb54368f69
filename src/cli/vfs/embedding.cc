#include "cli/vfs/embedding.h"

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

Result<std::string> embedded_item(Context& context, std::string_view path, std::string value) {
  Result<std::string> normalised = normalise_path(path);
  if (!normalised.ok() || !is_semantic_item(*normalised) || !lacks_embedding(value)) return value;
  EmbedderOptions options = WARREN_TRY(embedder_options(context.environment));
  auto embedder = WARREN_TRY(open_embedder(options));
  if (embedder == nullptr) return value;
  return with_embedding(value, *embedder);
}

}  // namespace warren::cli
