// Which changes a command is about: the PATH arguments of diff, apply and discard.
#pragma once

#include <string>
#include <vector>

#include "changes/changes.h"

namespace warren {

// A path takes itself and everything below it; a pattern (text/glob.h) what it matches. Without any: all.
ChangeFilter filter_of(const std::vector<std::string>& patterns);

// kNotFound when one of them takes none of the changes: probably a typing error.
Status check_patterns(const std::vector<std::string>& patterns, const std::vector<TreeChange>& changes);

}  // namespace warren
