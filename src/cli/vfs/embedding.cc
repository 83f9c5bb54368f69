#include "cli/vfs/embedding.h"

#include <fmt/format.h>

#include "agent/semantic/semantic_text.h"
#include "session/embed_config.h"

namespace warren::cli {

Result<std::unique_ptr<Embedder>> open_user_embedder(Context& context) {
  EmbedderOptions options = WARREN_TRY(embedder_options(context.environment));
  auto embedder = WARREN_TRY(open_embedder(options));
  if (embedder == nullptr) {
    return Error(Code::kUnsupported, "a text needs an embedder, and the configuration says that there is none",
                 "see WARREN_EMBED and embed.toml in docs/context.md, or give the numbers with --embedding");
  }
  return embedder;
}

Result<Embedder*> ToolEmbedder::open() {
  std::lock_guard lock(mutex_);
  if (embedder_) return embedder_.get();
  EmbedderOptions options = WARREN_TRY(embedder_options(context_.environment));
  options.is_cancelled = &is_cancelled_;
  embedder_ = WARREN_TRY(open_embedder(options));
  return embedder_.get();
}

Result<ValueToStore> embedded_item(Context& context, std::string_view path, std::string value,
                                   const std::function<Result<bool>()>& may_write) {
  if (!needs_embedding(path, value)) return ValueToStore{.value = std::move(value)};
  if (Result<bool> may = may_write(); !may.ok() || !*may) return ValueToStore{.value = std::move(value)};
  EmbedderOptions options = WARREN_TRY(embedder_options(context.environment));
  Result<std::unique_ptr<Embedder>> embedder = open_embedder(options);
  ItemToStore item = embed_item(
      std::move(value), embedder.ok() ? Result<Embedder*>(embedder->get()) : Result<Embedder*>(embedder.error()));
  if (item.why_not) {
    const Error& error = *item.why_not;
    context.err.line(
        fmt::format("warren: {} is stored without an embedding, which it gets with the next `query --text`: {}",
                    context.err.name(path), context.err.name(error.message())));
    if (!error.hint().empty()) context.err.line(fmt::format("hint: {}", context.err.name(error.hint())));
  }
  return ValueToStore{.value = std::move(item.value), .as_is = item.as_is};
}

}  // namespace warren::cli
