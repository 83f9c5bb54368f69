// A directory of a drive as a drawing for a model: bounded, and honest about what it leaves out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "drives/items.h"

namespace warren {

inline constexpr std::size_t kDrawnEntriesMax = 1000;

struct TreeOptions {
  std::size_t depth_max = 3;     // levels below the start
  std::size_t entries_max = 20;  // of each directory
  std::size_t lines_max = 1000;  // in all
  std::string after = {};        // begins after the entry of this name at the start; empty: with the first
};

struct TreeText {
  std::string text;             // lines, each with its newline
  bool is_complete = true;      // nothing was left out
  std::size_t directories = 0;  // shown, without the start
  std::size_t files = 0;
  std::vector<Items::Entry> entries;  // of the start, those that are shown
  bool has_more_entries = false;      // of the start, after these
};

// In a unit. kNotFound, also if there is no entry named `after`; kNotDirectory.
Result<TreeText> draw_tree(Items& items, const Ref& top, const TreeOptions& options);

// "Complete: 2 directories and 5 files." or what to call to see more.
std::string tree_hint(const TreeText& tree, const Ref& top, const TreeOptions& options);

}  // namespace warren
