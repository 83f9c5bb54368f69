// Three-way merge by lines: what two sides made of one ancestor, brought together.
//
// Clean and in conflict where `git merge-file` says so: changes of different places are both taken, the same
// change on both sides is taken once, and changes that overlap or touch without being the same conflict.
// For text; whether content is binary (base/binary.h) is for the caller to ask first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/lines.h"

namespace warren {

// Lines of the three texts that cannot be brought together. Lines that both sides have in common are left out
// of `ours` and `theirs`, so several conflicts can be about the same lines of the ancestor.
struct Conflict {
  LineRange ancestor;
  LineRange ours;
  LineRange theirs;

  bool operator==(const Conflict&) const = default;
};

struct Merged {
  std::string text;  // with conflicts: both sides of each between <<<<<<<, ======= and >>>>>>> lines
  std::vector<Conflict> conflicts;

  bool is_clean() const { return conflicts.empty(); }
};

// What stands behind the markers.
struct MergeLabels {
  std::string_view ours = "ours";
  std::string_view theirs = "theirs";
};

// Bounded like diff_lines; a coarser diff can make a conflict of what would have been clean.
Merged merge3(std::string_view ancestor, std::string_view ours, std::string_view theirs, MergeLabels labels = {});

}  // namespace warren
