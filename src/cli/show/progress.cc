#include "cli/show/progress.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/format_size.h"
#include "cli/syntax/values.h"
#include "os/fd.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

constexpr std::int64_t kIntervalNs = 100'000'000;
constexpr std::string_view kWipe = "\r\x1b[K";

// Writes to the terminal directly: Output would buffer it.
void draw(std::string_view text) { write_all(2, as_bytes(text)).ignore("the progress bar is optional"); }

}  // namespace

ProgressBar::ProgressBar(Context& context, TransferTotals totals) : context_(context), totals_(totals) {}

ProgressBar::~ProgressBar() {
  if (is_drawn_) draw(kWipe);
}

void ProgressBar::show(const TransferReport& done) {
  if (!is_watched(context_)) return;
  std::int64_t now = context_.clock.monotonic_ns();
  if (is_drawn_ && now - drawn_at_ns_ < kIntervalNs) return;
  drawn_at_ns_ = now;
  is_drawn_ = true;
  double part = totals_.bytes == 0 ? 1.0 : static_cast<double>(done.bytes) / static_cast<double>(totals_.bytes);
  part = std::clamp(part, 0.0, 1.0);
  std::string numbers = fmt::format(" {:3.0f}%  {}/{} files  {}/{}", part * 100, done.files, totals_.files,
                                    format_size(done.bytes), format_size(totals_.bytes));
  int room = terminal_columns(2) - static_cast<int>(numbers.size()) - 3;
  if (room < 4) return draw(fmt::format("{}{}", kWipe, numbers));
  auto width = static_cast<std::size_t>(std::min(room, 40));
  auto full = static_cast<std::size_t>(part * static_cast<double>(width));
  draw(fmt::format("{}[{}{}]{}", kWipe, std::string(full, '#'), std::string(width - full, '.'), numbers));
}

}  // namespace warren::cli
