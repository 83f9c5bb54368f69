#include "text/diff/unified.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace warren {
namespace {

// "12,3" as in a hunk's header: the first line counted from 1, or for no lines the line before them.
std::string range_text(const LineRange& range) {
  if (range.count == 1) return fmt::format("{}", range.begin + 1);
  return fmt::format("{},{}", range.count == 0 ? range.begin : range.begin + 1, range.count);
}

void add_lines(std::string& out, char sign, std::string_view lines) {
  for (std::size_t at = 0; at < lines.size();) {
    std::size_t end = lines.find('\n', at);
    bool ended = end != lines.npos;
    end = ended ? end + 1 : lines.size();
    out += sign;
    out += lines.substr(at, end - at);
    if (!ended) out += "\n\\ No newline at end of file\n";
    at = end;
  }
}

class Writer {
 public:
  Writer(std::string_view old_text, std::string_view new_text, std::size_t context)
      : old_(old_text), new_(new_text), old_lines_(count_lines(old_text)), context_(context) {}

  // Hunks that share context, or that have no hidden line between them.
  void add_group(std::span<const Hunk> group) {
    const Hunk& first = group.front();
    const Hunk& last = group.back();
    std::size_t lead = std::min(context_, first.before.begin);
    std::size_t trail = std::min(context_, old_lines_ - last.before.end());
    LineRange before{.begin = first.before.begin - lead};
    LineRange after{.begin = first.after.begin - lead};
    before.count = last.before.end() + trail - before.begin;
    after.count = last.after.end() + trail - after.begin;
    fmt::format_to(std::back_inserter(out_), "@@ -{} +{} @@\n", range_text(before), range_text(after));
    old_.take_until(before.begin);
    for (const Hunk& hunk : group) {
      add_lines(out_, ' ', old_.take_until(hunk.before.begin));
      add_lines(out_, '-', old_.take_until(hunk.before.end()));
      new_.take_until(hunk.after.begin);
      add_lines(out_, '+', new_.take_until(hunk.after.end()));
    }
    add_lines(out_, ' ', old_.take_until(before.end()));
  }

  std::string take() { return std::move(out_); }

 private:
  LineCursor old_;
  LineCursor new_;
  std::size_t old_lines_;
  std::size_t context_;
  std::string out_;
};

}  // namespace

std::string unified_hunks(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks,
                          UnifiedOptions options) {
  // No text has more lines than bytes, so this hides nothing, and sums do not overflow.
  std::size_t context = std::min(options.context, old_text.size());
  Writer writer(old_text, new_text, context);
  for (std::size_t begin = 0, end = 0; begin < hunks.size(); begin = end) {
    for (end = begin + 1; end < hunks.size(); ++end) {
      if (hunks[end].before.begin - hunks[end - 1].before.end() > 2 * context) break;
    }
    writer.add_group(std::span(hunks).subspan(begin, end - begin));
  }
  return writer.take();
}

}  // namespace warren
