#include "cli/changes/review_frame.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/changes/changes_output.h"
#include "cli/show/screen.h"

namespace warren::cli {
namespace {

constexpr std::size_t kColumnsMin = 40;
constexpr std::size_t kRowsMin = 8;
constexpr std::size_t kSideBySideColumns = 100;  // of the patch
constexpr std::string_view kKeys = " space take/leave  tab patch  a all  enter apply  ? help  q quit";
constexpr std::string_view kFewKeys = " q quit  ? help  space take  enter apply";  // fits into kColumnsMin
constexpr std::string_view kWholeKeys = " space take/leave file  up/down line  tab tree  enter apply  ? help  q quit";
constexpr std::string_view kPatchKeys = " space take/leave part  up/down part  tab tree  enter apply  ? help  q quit";
constexpr std::string_view kConflictPartKeys =
    " space agent's/base's  b both  up/down part  tab tree  enter apply  ? help";
constexpr std::string_view kConflictKeys = " space take/leave  m merge  b both  tab patch  enter apply  ? help  q quit";

const std::vector<std::string_view>& help_lines() {
  static const std::vector<std::string_view> kLines{
      "Review: take what you want of an agent's changes, then apply it.",
      "",
      "  up, down, j, k     another change; in the patch another part",
      "  page up, down      a page; home and end: the first and the last",
      "  left, right        fold or unfold a directory; right: to the patch",
      "  tab                from the tree to the patch and back",
      "  < and >            move the patch sideways",
      "  space              take or leave the change, the directory, or the part",
      "  a, n               take all changes without conflicts; take none",
      "                     (a conflict that you left is taken as before)",
      "  m                  take a conflict merged with the version in the base",
      "  b                  take both versions of a conflict, between conflict markers",
      "  enter              apply what is taken: asks first",
      "  q, ^C              quit: nothing is written",
      "",
      "  [x] taken   [~] a part of it   [ ] left   [b] both, between conflict markers",
      "  ! in conflict with the base: the base's other changes to the file are kept",
      "",
      "Any key goes back."};
  return kLines;
}

std::string reversed(std::string_view text) { return fmt::format("\x1b[7m{}\x1b[0m", text); }

std::string_view box_of(Taken taken) { return taken == Taken::kYes ? "[x]" : taken == Taken::kPart ? "[~]" : "[ ]"; }

std::string_view box_of(PartChoice choice) {
  return choice == PartChoice::kTaken ? "[x]" : choice == PartChoice::kMarked ? "[b]" : "[ ]";
}

Ink frame_ink_of(char letter) {
  switch (letter) {
    case 'A': return Ink::kGreen;
    case 'D': return Ink::kRed;
    case 'R': return Ink::kCyan;
    default: return Ink::kPlain;
  }
}

std::string tree_cell(const Output& out, const Review& review, std::size_t index, bool is_selected, bool has_focus,
                      std::size_t columns) {
  constexpr std::size_t kDepthShown = 8;
  const Review::Row& row = review.rows()[index];
  const TreeChange* change = review.change_of(index);
  bool is_dir = row.below > 0 || (change != nullptr && change->node().is_directory());
  bool is_conflict = row.change && review.conflict_of(*row.change) != nullptr;
  char letter = change == nullptr ? ' ' : change->letter();
  std::string text(2 * std::min(row.depth, kDepthShown), ' ');
  text += fmt::format("{}{}{} {}{}", box_of(review.taken(index)), is_conflict ? '!' : ' ', letter,
                      path_in_line(row.name), is_dir && row.name != "/" ? "/" : "");
  if (row.is_folded) text += fmt::format(" (+{})", row.below);
  std::string cell = fit(text, columns);
  if (is_selected) return has_focus ? reversed(cell) : out.paint(Ink::kBold, cell);
  return out.paint(is_conflict ? Ink::kYellow : frame_ink_of(letter), cell);
}

Ink ink_of_line(std::string_view line) {
  if (line.starts_with('+')) return Ink::kGreen;
  if (line.starts_with('-')) return Ink::kRed;
  return line.starts_with("@@") ? Ink::kCyan : Ink::kPlain;
}

struct PatchDrawing {
  const Output& out;
  const Review& review;
  const ReviewView& view;
  const FrameLayout& layout;
  std::size_t change;
  const std::vector<FilePart>& parts;
};

std::string part_cell(const PatchDrawing& on, std::size_t part) {
  const Hunk& hunk = on.parts[part].hunk;
  std::string text =
      fmt::format("{} part {} of {}  ", box_of(on.review.choice_of(on.change, part)), part + 1, on.parts.size());
  if (on.parts[part].is_in_conflict) text += "conflict: - base's, + agent's";
  else
    text += fmt::format("@@ -{},{} +{},{} @@", hunk.before.begin + 1, hunk.before.count, hunk.after.begin + 1,
                        hunk.after.count);
  std::string cell = fit(text, on.layout.patch_columns);
  bool is_selected = on.view.part == part;
  if (is_selected && on.view.is_in_patch) return reversed(cell);
  return on.out.paint(is_selected ? Ink::kBold : Ink::kCyan, cell);
}

std::string side_cell(const PatchDrawing& on, const PaneRow& row) {
  std::size_t left = (on.layout.patch_columns - 1) / 2;
  std::size_t right = on.layout.patch_columns - 1 - left;
  bool is_same = row.kind == PaneRow::Kind::kSame;
  bool has_old = row.kind != PaneRow::Kind::kNew;
  bool has_new = row.kind != PaneRow::Kind::kOld;
  std::string old_text = (has_old && !is_same ? "-" : " ") + fit(has_old ? row.left : "", left - 1, on.view.shift);
  std::string new_text = (has_new && !is_same ? "+" : " ") + fit(has_new ? row.right : "", right - 1, on.view.shift);
  return on.out.paint(has_old && !is_same ? Ink::kRed : Ink::kPlain, old_text) + "|" +
         on.out.paint(has_new && !is_same ? Ink::kGreen : Ink::kPlain, new_text);
}

std::string patch_cell(const PatchDrawing& on, const PaneRow& row) {
  std::size_t columns = on.layout.patch_columns;
  switch (row.kind) {
    case PaneRow::Kind::kText: return on.out.paint(ink_of_line(row.left), fit(row.left, columns, on.view.shift));
    case PaneRow::Kind::kPart: return part_cell(on, row.part);
    default: break;
  }
  if (on.layout.pane == PaneLayout::kSideBySide) return side_cell(on, row);
  if (row.kind == PaneRow::Kind::kOld) return on.out.paint(Ink::kRed, "-" + fit(row.left, columns - 1, on.view.shift));
  if (row.kind == PaneRow::Kind::kNew)
    return on.out.paint(Ink::kGreen, "+" + fit(row.right, columns - 1, on.view.shift));
  return " " + fit(row.left, columns - 1, on.view.shift);
}

// Of a change in conflict: why, or once it is taken what that does to the base's version.
std::string_view conflict_text(const Review& review, std::size_t row) {
  std::size_t change = *review.rows()[row].change;
  if (review.taken(row) == Taken::kNo) return *review.conflict_of(change);
  if (!review.is_merged(change)) return "replaces newer work";
  return review.has_markers(change) ? "merged, with conflict markers" : "merged with the base";
}

std::string rows_below(std::size_t count) { return count == 1 ? "1 row below" : fmt::format("{} rows below", count); }

// The first line of the right side: what the change is.
std::string patch_title(const Output& out, const Review& review, const ReviewView& view, std::size_t row,
                        std::size_t columns) {
  const TreeChange* change = review.change_of(row);
  if (change == nullptr) return fit(rows_below(review.rows()[row].below), columns);
  const std::string* conflict = review.conflict_of(*review.rows()[row].change);
  std::string text = fmt::format("{} {}", change->letter(), path_in_line(change->path));
  if (change->kind == TreeChangeKind::kRenamed)
    text = fmt::format("R {} -> {}", path_in_line(change->base_path), path_in_line(change->path));
  text += view.remarks;
  if (conflict == nullptr) return out.paint(view.remarks.empty() ? Ink::kBold : Ink::kYellow, fit(text, columns));
  return out.paint(Ink::kYellow, fit(fmt::format("{}: {}", conflict_text(review, row), text), columns));
}

std::vector<std::string> patch_cells(const Output& out, const Review& review, ReviewPane* pane, const ReviewView& view,
                                     const FrameLayout& layout, std::size_t row) {
  static const std::vector<FilePart> kNoParts;
  std::vector<std::string> cells{patch_title(out, review, view, row, layout.patch_columns)};
  if (pane != nullptr) {
    const std::vector<PaneRow>& rows = pane->rows(layout.pane);
    PatchDrawing on{.out = out,
                    .review = review,
                    .view = view,
                    .layout = layout,
                    .change = *review.rows()[row].change,
                    .parts = pane->parts() == nullptr ? kNoParts : *pane->parts()};
    for (std::size_t i = view.patch_top; i < rows.size() && cells.size() < layout.body_rows; ++i)
      cells.push_back(patch_cell(on, rows[i]));
  }
  cells.resize(layout.body_rows);
  return cells;
}

std::string_view keys_text(const Review& review, const ReviewView& view, std::optional<std::size_t> change,
                           const std::vector<FilePart>* parts, std::size_t columns) {
  bool has_parts = parts != nullptr && !parts->empty();
  bool is_conflict = change && review.conflict_of(*change) != nullptr;
  std::string_view keys = is_conflict ? kConflictKeys : kKeys;
  if (view.is_in_patch && !has_parts) keys = kWholeKeys;
  if (view.is_in_patch && has_parts) keys = (*parts)[view.part].is_in_conflict ? kConflictPartKeys : kPatchKeys;
  return keys.size() <= columns ? keys : kFewKeys;
}

std::vector<std::string> help_frame(const FrameLayout& layout) {
  std::vector<std::string> lines;
  for (std::string_view line : help_lines()) {
    if (lines.size() < layout.rows) lines.push_back(fit(line, layout.columns));
  }
  lines.resize(layout.rows);
  return lines;
}

std::string head_line(const Review& review, const ReviewView& view, const FrameLayout& layout) {
  Review::Counts counts = review.count();
  std::string text = fmt::format(" {}: {} of {} taken", view.title, counts.taken, counts.all);
  if (counts.partly > 0) text += fmt::format(", {} in part", counts.partly);
  return reversed(fit(text, layout.columns));
}

}  // namespace

FrameLayout layout_of(std::size_t columns, std::size_t rows) {
  FrameLayout layout{.columns = columns, .rows = rows};
  layout.is_too_small = columns < kColumnsMin || rows < kRowsMin;
  if (layout.is_too_small) return layout;
  layout.tree_columns = std::clamp<std::size_t>(columns / 3, 18, 48);
  layout.patch_columns = columns - layout.tree_columns - 1;
  layout.body_rows = rows - 2;
  if (layout.patch_columns >= kSideBySideColumns) layout.pane = PaneLayout::kSideBySide;
  return layout;
}

std::vector<std::string> review_frame(const Output& out, const Review& review, ReviewPane* pane, const ReviewView& view,
                                      const FrameLayout& layout) {
  if (layout.is_too_small) {
    std::vector<std::string> lines(std::max<std::size_t>(layout.rows, 1));
    lines[0] = fit(fmt::format("q quits; {} columns, {} rows needed", kColumnsMin, kRowsMin), layout.columns);
    return lines;
  }
  if (view.shows_help) return help_frame(layout);
  std::vector<std::size_t> visible = review.visible();
  std::vector<std::string> patch = patch_cells(out, review, pane, view, layout, visible[view.cursor]);
  std::vector<std::string> lines{head_line(review, view, layout)};
  for (std::size_t i = 0; i < layout.body_rows; ++i) {
    std::size_t at = view.top + i;
    std::string tree = at < visible.size() ? tree_cell(out, review, visible[at], at == view.cursor, !view.is_in_patch,
                                                       layout.tree_columns)
                                           : std::string();
    // The column is set, so that a character of another width than we think cannot shift the patch.
    lines.push_back(fmt::format("\x1b[K{}\x1b[{}G\x1b[K|{}", tree, layout.tree_columns + 1, patch[i]));
  }
  std::string_view keys = keys_text(review, view, review.rows()[visible[view.cursor]].change,
                                    pane == nullptr ? nullptr : pane->parts(), layout.columns);
  lines.push_back(view.message.empty() ? fit(keys, layout.columns) : reversed(fit(view.message, layout.columns)));
  return lines;
}

}  // namespace warren::cli
