#include "cli/changes/review_pane.h"

#include <algorithm>

#include <fmt/format.h>

#include "changes/review/patch.h"
#include "text/lines.h"

namespace warren::cli {
namespace {

constexpr std::size_t kContextLines = 3;

std::string_view without_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  return line;
}

std::string_view next_line(LineCursor& cursor) { return without_end(cursor.take_until(cursor.line() + 1)); }

void add_same(LineCursor& before, std::size_t end, std::size_t part, std::vector<PaneRow>& rows) {
  while (before.line() < end) {
    std::string_view line = next_line(before);
    rows.push_back({.kind = PaneRow::Kind::kSame, .left = line, .right = line, .part = part});
  }
}

void add_changed(PaneLayout layout, const Hunk& hunk, LineCursor& before, LineCursor& after, std::size_t part,
                 std::vector<PaneRow>& rows) {
  if (layout == PaneLayout::kUnified) {
    for (std::size_t i = 0; i < hunk.before.count && rows.size() < limits::kPaneRows; ++i)
      rows.push_back({.kind = PaneRow::Kind::kOld, .left = next_line(before), .part = part});
    for (std::size_t i = 0; i < hunk.after.count && rows.size() < limits::kPaneRows; ++i)
      rows.push_back({.kind = PaneRow::Kind::kNew, .right = next_line(after), .part = part});
    return;
  }
  std::size_t count = std::max(hunk.before.count, hunk.after.count);
  for (std::size_t i = 0; i < count && rows.size() < limits::kPaneRows; ++i) {
    bool has_old = i < hunk.before.count;
    bool has_new = i < hunk.after.count;
    PaneRow row{.kind = has_old && has_new ? PaneRow::Kind::kBoth
                        : has_old          ? PaneRow::Kind::kOld
                                           : PaneRow::Kind::kNew,
                .part = part};
    if (has_old) row.left = next_line(before);
    if (has_new) row.right = next_line(after);
    rows.push_back(row);
  }
}

}  // namespace

ReviewPane ReviewPane::load(const AgentOverlay& overlay, const TreeChange& change, InConflict is_in_conflict) {
  ReviewPane pane;
  pane.text_ = std::make_unique<std::string>();
  Result<LoadedParts> loaded = load_parts(overlay, change);
  if (loaded.ok() && loaded->parts) {
    pane.parts_ = std::make_unique<ChangeParts>(*std::move(loaded->parts));
    return pane;
  }
  if (loaded.ok() && is_in_conflict == InConflict::kYes) {
    *pane.text_ = fmt::format("{}: it is taken as a whole\n", loaded->why_none);
  }
  Status shown = write_patch(
      overlay, {change},
      [&](std::string_view text) -> Status {
        *pane.text_ += text;
        return Ok{};
      },
      BinaryContent::kMentioned);
  if (!shown.ok()) *pane.text_ += fmt::format("cannot be shown: {}\n", shown.error().message());
  else if (pane.text_->empty()) *pane.text_ = "no content to show\n";
  return pane;
}

const std::vector<PaneRow>& ReviewPane::rows(PaneLayout layout) {
  Built& built = layout == PaneLayout::kUnified ? unified_ : side_by_side_;
  if (built.is_built) return built.rows;
  if (parts_) build_parts(layout, built.rows);
  else build_text(built.rows);
  if (built.rows.size() >= limits::kPaneRows) {
    built.rows.resize(limits::kPaneRows);
    built.rows.push_back({.left = "... more is not shown here; `warren diff -p` shows all of it", .right = {}});
  }
  built.is_built = true;
  return built.rows;
}

std::size_t ReviewPane::row_of_part(PaneLayout layout, std::size_t part) {
  const std::vector<PaneRow>& all = rows(layout);
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const PaneRow& row) { return row.kind == PaneRow::Kind::kPart && row.part == part; });
  return found == all.end() ? 0 : static_cast<std::size_t>(found - all.begin());
}

void ReviewPane::build_parts(PaneLayout layout, std::vector<PaneRow>& rows) const {
  LineCursor before(parts_->before);
  LineCursor after(parts_->after);
  const std::vector<FilePart>& list = parts_->list;
  std::size_t lines = count_lines(parts_->before);
  for (std::size_t i = 0; i < list.size() && rows.size() < limits::kPaneRows; ++i) {
    const Hunk& hunk = list[i].hunk;
    std::size_t from = hunk.before.begin - std::min(hunk.before.begin, kContextLines);
    if (from > before.line()) before.take_until(from);
    rows.push_back({.kind = PaneRow::Kind::kPart, .left = {}, .right = {}, .part = i});
    add_same(before, hunk.before.begin, i, rows);
    after.take_until(hunk.after.begin);
    add_changed(layout, hunk, before, after, i, rows);
    std::size_t next = i + 1 < list.size() ? list[i + 1].hunk.before.begin : lines;
    add_same(before, std::min(hunk.before.end() + kContextLines, next), i, rows);
  }
}

void ReviewPane::build_text(std::vector<PaneRow>& rows) const {
  LineCursor cursor(*text_);
  for (std::string_view line = cursor.take_until(1); !line.empty() && rows.size() < limits::kPaneRows;
       line = cursor.take_until(cursor.line() + 1)) {
    rows.push_back({.left = without_end(line), .right = {}});
  }
}

}  // namespace warren::cli
