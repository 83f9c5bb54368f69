// Which changes of directories go with changes that are left out of a list.
#pragma once

#include <functional>
#include <vector>

#include "changes/changes.h"

namespace warren {

// Of each change, whether it is left out: those that `is_out` names, new directories that have nothing else in them,
// and deletions of directories that they are in.
std::vector<bool> find_left_out(const std::vector<TreeChange>& changes,
                                const std::function<bool(const TreeChange&)>& is_out);

// Removes them.
void leave_out(std::vector<TreeChange>& changes, const std::function<bool(const TreeChange&)>& is_out);

// Removes the changes of directories that `may_go` names, except those that another change is in.
void leave_out_empty_dirs(std::vector<TreeChange>& changes, const std::function<bool(const TreeChange&)>& may_go);

}  // namespace warren
