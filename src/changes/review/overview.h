// The list of changes for people: what belongs together is one line.
//
// A directory that is wholly new or gone, with more than a few nodes in it, is folded into one line; so is what git
// ignores. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "changes/changes.h"
#include "changes/commits/ignored.h"

namespace warren {

inline constexpr std::size_t kFoldedNodes = 10;  // more than this below a directory are folded

struct OverviewLine {
  const TreeChange* change = nullptr;  // of a folded line: its first change
  std::string folded;                  // the directory that stands for its changes; "" for a single change
  char letter = 'M';
  std::uint64_t changes = 0;  // of a folded line, like the following; without directories
  std::uint64_t bytes = 0;
  bool is_ignored = false;  // by git
};

struct OverviewOptions {
  // Never folded, by index in the changes: what a reader must not overlook.
  std::vector<bool> notable;
  // Directories at or above these paths are not folded: the user has named what is in them.
  std::vector<std::string> named;
  IgnoredPaths ignored;
};

// The changes must outlive the lines. Sorted as the changes are; O(changes × depth).
std::vector<OverviewLine> make_overview(const std::vector<TreeChange>& changes, const OverviewOptions& options);

}  // namespace warren
