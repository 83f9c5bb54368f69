#include "text/line_edits.h"

#include <algorithm>
#include <numeric>

#include "text/lines.h"

namespace warren {
namespace {

// The first line that an edit does not touch. An insertion touches none.
std::size_t line_after(const LineEdit& edit) { return edit.end_line == 0 ? edit.start_line : edit.end_line + 1; }

std::optional<LineEditProblem> find_bad_edit(const std::vector<LineEdit>& edits, std::size_t line_count) {
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const LineEdit& edit = edits[i];
    bool is_insertion = edit.end_line == 0;
    bool is_inside = edit.start_line >= 1 && edit.start_line <= line_count + (is_insertion ? 1 : 0) &&
                     (is_insertion || (edit.end_line >= edit.start_line && edit.end_line <= line_count));
    if (!is_inside) return LineEditProblem{.kind = LineEditProblem::Kind::kOutOfRange, .edit = i};
    if (is_insertion && edit.content.empty()) return LineEditProblem{.kind = LineEditProblem::Kind::kEmpty, .edit = i};
  }
  return std::nullopt;
}

// By line; an insertion before a replacement of the same line, insertions in the order given.
std::vector<std::size_t> order_of(const std::vector<LineEdit>& edits) {
  std::vector<std::size_t> order(edits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t left, std::size_t right) {
    const LineEdit& a = edits[left];
    const LineEdit& b = edits[right];
    if (a.start_line != b.start_line) return a.start_line < b.start_line;
    return a.end_line == 0 && b.end_line != 0;
  });
  return order;
}

std::optional<LineEditProblem> find_overlap(const std::vector<LineEdit>& edits, const std::vector<std::size_t>& order) {
  std::size_t covered_to = 1;  // the first line after everything so far
  std::size_t widest = 0;      // the edit that reaches there
  for (std::size_t at : order) {
    if (edits[at].start_line < covered_to) {
      return LineEditProblem{.kind = LineEditProblem::Kind::kOverlap, .edit = at, .other = widest};
    }
    if (line_after(edits[at]) <= covered_to) continue;
    covered_to = line_after(edits[at]);
    widest = at;
  }
  return std::nullopt;
}

std::string_view usual_line_end(std::string_view text) {
  std::size_t plain = 0;
  std::size_t with_return = 0;
  for (std::size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) {
    if (at > 0 && text[at - 1] == '\r') ++with_return;
    else ++plain;
  }
  return with_return > plain ? "\r\n" : "\n";
}

// With the text's line ends, and one at the end.
std::string as_lines(std::string_view content, std::string_view line_end) {
  std::string lines;
  lines.reserve(content.size() + line_end.size());
  while (!content.empty()) {
    std::size_t end = content.find('\n');
    std::string_view line = content.substr(0, end);
    content.remove_prefix(end == content.npos ? content.size() : end + 1);
    if (line.ends_with('\r') && end != std::string_view::npos) line.remove_suffix(1);
    (lines += line) += line_end;
  }
  return lines;
}

void drop_final_newline(std::string& text) {
  if (!text.ends_with('\n')) return;
  text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

}  // namespace

LineEditResult edit_lines(std::string_view text, const std::vector<LineEdit>& edits) {
  LineEditResult result;
  result.problem = find_bad_edit(edits, count_lines(text));
  if (result.problem) return result;
  std::vector<std::size_t> order = order_of(edits);
  result.problem = find_overlap(edits, order);
  if (result.problem) return result;
  std::string_view line_end = usual_line_end(text);
  LineCursor cursor(text);
  auto add = [&](std::string_view lines) {
    if (lines.empty()) return;
    bool is_cut = !result.text.empty() && !result.text.ends_with('\n');  // after a last line without its newline
    if (is_cut) result.text += line_end;
    result.text += lines;
  };
  for (std::size_t at : order) {
    add(cursor.take_until(edits[at].start_line - 1));
    add(as_lines(edits[at].content, line_end));
    cursor.take_until(line_after(edits[at]) - 1);
  }
  add(cursor.take_until(SIZE_MAX));
  if (!text.empty() && !text.ends_with('\n')) drop_final_newline(result.text);
  return result;
}

}  // namespace warren
