// What no command of a run may see or move: the operator's directory with keys, trust and settings, and the files that
// notes of keys name. Where they really are: links at any level are followed.
#pragma once

#include <string>
#include <vector>

#include "agent/keys/file_key.h"
#include "base/result.h"

namespace warren {

// Absolute paths that exist. A path of a symbolic link means the link itself: whoever can replace it decides which keys
// are used. kTooLarge if the directory has too many entries to look through. O(entries of the directory).
Result<std::vector<std::string>> list_operator_places(const std::vector<KeySource>& keys);

}  // namespace warren
