// Which changes can be written to the base only together with others: a new file with the new directory above it, the
// deletion of a directory with everything below it (Selection::complete_for_apply).
#pragma once

#include <cstddef>
#include <vector>

#include "changes/changes.h"
#include "changes/selection.h"

namespace warren {

// Changes are named by their index. Two can need each other, if they exchange names.
class Needs {
 public:
  explicit Needs(const std::vector<TreeChange>& all);

  const std::vector<std::size_t>& directly(std::size_t change) const { return needed_[change]; }

  struct Dependent {
    std::size_t change;
    std::size_t because;  // the one of `left` that it needs, directly or not
  };
  // What cannot be written if these are left; by path, without these themselves.
  std::vector<Dependent> dependents_of(const std::vector<std::size_t>& left) const;

 private:
  std::vector<std::vector<std::size_t>> needed_;
  std::vector<std::vector<std::size_t>> needed_by_;
};

// Takes out of `chosen` what cannot be written without a change that `wanted` excludes, and renames of which it
// excludes one name. Returns what it took out; such a rename is its own reason.
std::vector<Needs::Dependent> leave_with_excluded(const std::vector<TreeChange>& all, const ChangeFilter& wanted,
                                                  Selection& chosen);

}  // namespace warren
