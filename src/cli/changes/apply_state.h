// The state of changes that are to be applied: whoever agreed to some can have exactly those applied.
#pragma once

#include <string>
#include <vector>

#include "changes/changes.h"
#include "cli/changes/apply_commits.h"
#include "cli/syntax/args.h"

namespace warren::cli {

// A hash of their names and attributes, and of the commit that is brought. Another change, another content: another
// one.
std::string state_of_apply(const std::vector<TreeChange>& changes, const CommitsPlan* commits);

// Whether they are what --if-state wants.
bool is_wanted_state(const Arguments& args, const std::string& state);

Option if_state_option();

}  // namespace warren::cli
