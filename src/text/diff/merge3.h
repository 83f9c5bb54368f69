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

enum class MergeSide { kOurs, kTheirs, kBoth };

// Lines of the ancestor that one side has changed, or both in different ways, and what the sides have there.
struct MergePart {
  MergeSide side = MergeSide::kBoth;
  LineRange ancestor;
  LineRange ours;
  LineRange theirs;

  bool operator==(const MergePart&) const = default;
};

// In order. Outside of the parts, `ours` and `theirs` have the same lines. Conflicts are those of merge3.
std::vector<MergePart> merge_parts(std::string_view ancestor, std::string_view ours, std::string_view theirs);

// The text with one side of each part, as its `side` says; kBoth writes both between markers. The parts come from
// merge_parts: with their own sides they give the text of merge3, and a caller may set others.
std::string write_merge(std::string_view ancestor, std::string_view ours, std::string_view theirs,
                        const std::vector<MergePart>& parts, MergeLabels labels = {});

// The ancestor with what both sides have changed alike: its difference from `ours` is what `theirs` lacks.
std::string with_shared_changes(std::string_view ancestor, std::string_view ours, const std::vector<MergePart>& parts);

}  // namespace warren
