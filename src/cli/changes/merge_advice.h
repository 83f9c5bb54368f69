// How to merge the branch that apply has written: which command works, and what is in its way.
#pragma once

#include <string>

#include "changes/commits/commits.h"
#include "cli/context.h"

namespace warren::cli {

// `commit` is that of the branch.
void print_merge_advice(Output& out, const std::string& branch, const std::string& commit, const MergeOutlook& outlook);

}  // namespace warren::cli
