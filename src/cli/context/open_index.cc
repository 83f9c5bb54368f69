#include "cli/context/open_index.h"

#include <fmt/format.h>

#include "os/fd.h"
#include "session/embed_config.h"

namespace warren::cli {
namespace {

// Writes to the terminal directly: Output would buffer it.
void draw_line(std::string_view text) { write_all(2, as_bytes(text)).ignore("the progress line is optional"); }

// Of an address that has a user name or password, without both.
std::string without_password(std::string_view url) {
  std::size_t host = url.find("://");
  if (host == url.npos) return std::string(url);
  host += 3;
  std::size_t at = url.substr(0, url.find('/', host)).rfind('@');
  return std::string(url.substr(0, host)) + std::string(url.substr(at == url.npos ? host : at + 1));
}

}  // namespace

Result<ContextOptions> IndexEmbedders::open(Context& context) {
  ContextOptions options;
  wanted_ = WARREN_TRY(embedder_options(context.environment));
  wanted_.is_cancelled = &is_cancelled_;
  Result<std::unique_ptr<Embedder>> opened = open_embedder(wanted_);
  if (opened.ok()) {
    current_ = std::move(opened).take_value();
    if (!current_) options.no_embedder = "no embedder is configured";
  } else {
    options.no_embedder = opened.error().message();
    if (!opened.error().hint().empty()) options.no_embedder += fmt::format(" ({})", opened.error().hint());
  }
  options.embedder = current_.get();
  options.other_embedder = [this](const std::string& model) { return find_former(model); };
  return options;
}

std::string IndexEmbedders::describe_configured() const {
  if (wanted_.kind == "none") return {};
  if (wanted_.kind == "http") return fmt::format("http:{} at {}", wanted_.model, without_password(wanted_.url));
  return wanted_.folder.empty() ? "the default model" : wanted_.folder;
}

Embedder* IndexEmbedders::find_former(const std::string& model) {
  auto [found, is_new] = former_.try_emplace(model);
  if (is_new) found->second = open_former_embedder(wanted_, model);
  return found->second.get();
}

Result<OpenIndex> open_index(Context& context, const Arguments& args) {
  OpenIndex open;
  open.agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  open.embedders = std::make_unique<IndexEmbedders>();
  ContextOptions options = WARREN_TRY(open.embedders->open(context));
  open.index = WARREN_TRY(ContextIndex::open(*open.agent, std::move(options), context.clock));
  return open;
}

Result<ContextIndex*> ToolIndex::open() {
  std::lock_guard lock(mutex_);
  if (index_) return index_.get();
  ContextOptions options = WARREN_TRY(embedders_.open(context_));
  if (embedding_ == Embedding::kInBackground) options.on_waiting = [this] { start_embedding(); };
  index_ = WARREN_TRY(ContextIndex::open(agent_, std::move(options), context_.clock));
  return index_.get();
}

ToolIndex::~ToolIndex() {
  cancel_embedding();
  worker_.stop();
}

void ToolIndex::start_embedding() {
  if (is_embedding_.exchange(true)) return;
  Status submitted = worker_.submit([this] {
    embed_waiting();
    is_embedding_ = false;
  });
  if (!submitted.ok()) is_embedding_ = false;  // no thread: the next search tries again
}

void ToolIndex::embed_waiting() {
  constexpr std::chrono::milliseconds kNoLimit = std::chrono::hours(24 * 365);
  index_->embed_some(kNoLimit, {}, [this] { return worker_.is_stopping().load(); })
      .ignore("the next search says why, and starts it again");
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
