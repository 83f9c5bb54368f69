// Draws a review: the tree of changes on the left, the patch of one of them on the right.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "changes/review/review.h"
#include "cli/changes/review_pane.h"
#include "cli/show/output.h"

namespace warren::cli {

struct ReviewView {
  std::string title;
  std::size_t cursor = 0;     // in the visible rows of the tree
  std::size_t top = 0;        // the first of them on the screen
  std::size_t part = 0;       // the selected part of the patch
  std::size_t patch_top = 0;  // the first row of the patch on the screen
  std::size_t shift = 0;      // columns of the patch that are left of the screen
  bool is_in_patch = false;   // keys are for the patch
  bool shows_help = false;
  std::string remarks;  // about the selected change: "  [set-user-id]"
  std::string message;  // at the bottom, instead of the keys
};

struct FrameLayout {
  std::size_t columns = 0;
  std::size_t rows = 0;
  std::size_t tree_columns = 0;
  std::size_t patch_columns = 0;
  std::size_t body_rows = 0;  // of tree and patch
  PaneLayout pane = PaneLayout::kUnified;
  bool is_too_small = false;
};
FrameLayout layout_of(std::size_t columns, std::size_t rows);

// Exactly `layout.rows` lines. `pane` is null if the selected row has no patch. Everything of strangers is made
// printable. `out` only paints.
std::vector<std::string> review_frame(const Output& out, const Review& review, ReviewPane* pane, const ReviewView& view,
                                      const FrameLayout& layout);

}  // namespace warren::cli
