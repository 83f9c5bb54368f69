#include "cli/context/open_index.h"

#include <fmt/format.h>

#include "os/fd.h"
#include "session/embed_config.h"

namespace warren::cli {
namespace {

// Writes to the terminal directly: Output would buffer it.
void draw_line(std::string_view text) { write_all(2, as_bytes(text)).ignore("the progress line is optional"); }

}  // namespace

Result<OpenIndex> open_index(Context& context, const Arguments& args) {
  OpenIndex open;
  open.agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  ContextOptions options;
  EmbedderOptions wanted = WARREN_TRY(embedder_options(context.environment));
  Result<std::unique_ptr<Embedder>> embedder = open_embedder(wanted);
  if (embedder.ok()) {
    open.embedder = std::move(embedder).take_value();
    if (!open.embedder) options.no_embedder = "no embedder is configured";
  } else {
    options.no_embedder = embedder.error().message();
    if (!embedder.error().hint().empty()) options.no_embedder += fmt::format(" ({})", embedder.error().hint());
  }
  options.embedder = open.embedder.get();
  open.index = WARREN_TRY(ContextIndex::open(*open.agent, std::move(options), context.clock));
  return open;
}

ProgressLine::~ProgressLine() {
  if (is_drawn_) draw_line("\r\x1b[K");
}

void ProgressLine::show(const IndexProgress& progress) {
  constexpr std::int64_t kStepNs = 100'000'000;
  if (!context_.err.is_terminal()) return;
  std::int64_t now = context_.clock.monotonic_ns();
  if (is_drawn_ && now - drawn_at_ns_ < kStepNs) return;
  drawn_at_ns_ = now;
  is_drawn_ = true;
  draw_line(fmt::format("\r\x1b[K{} {} of {}", what_, progress.done, progress.total));
}

}  // namespace warren::cli
