// Whether a new agent file can be created at a path.
#pragma once

#include <string>

#include "base/result.h"

namespace warren {

// kConflict or kBusy if the log of an earlier file is where the log of a new one at `path` would be: SQLite would apply
// it to the new file.
Status check_vacant(const std::string& path);

}  // namespace warren
