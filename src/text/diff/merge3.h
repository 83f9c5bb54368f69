// Three-way merge by lines: combines two sides' changes to a common ancestor.
//
// Clean or in conflict as `git merge-file` decides: changes in different places are both taken, the same change on both
// sides is taken once, and different changes that overlap or touch conflict. For text only: the caller checks for
// binary content (base/binary.h) first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/lines.h"

namespace warren {

// Lines of the three texts that cannot be combined. Lines that both sides share are left out of `ours` and `theirs`, so
// several conflicts can refer to the same lines of the ancestor.
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

// The labels after the markers.
struct MergeLabels {
  std::string_view ours = "ours";
  std::string_view theirs = "theirs";
};

// Bounded like diff_lines; a coarser diff can turn a clean merge into a conflict.
Merged merge3(std::string_view ancestor, std::string_view ours, std::string_view theirs, MergeLabels labels = {});

}  // namespace warren
