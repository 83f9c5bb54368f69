// How to merge the branch that apply has written: which command works, and what is in its way.
#pragma once

#include <string>

#include "changes/commits/commits.h"
#include "cli/context.h"

namespace warren::cli {

void print_merge_advice(Output& out, const std::string& branch, const MergeOutlook& outlook);

}  // namespace warren::cli
