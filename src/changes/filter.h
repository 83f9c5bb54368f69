// The PATH arguments of diff, apply and discard.
#pragma once

#include <string>
#include <vector>

#include "changes/changes.h"

namespace warren {

// A path selects itself and everything below it, a pattern (text/glob.h) what it matches; an empty list selects all.
ChangeFilter filter_of(const std::vector<std::string>& patterns);

// kNotFound if a pattern matches none of the changes: it is probably misspelled.
Status check_patterns(const std::vector<std::string>& patterns, const std::vector<TreeChange>& changes);

}  // namespace warren
