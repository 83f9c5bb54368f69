// The index of a repository inside a tree, read by our own parser: git never runs in a repository that a stranger
// wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

// The names with unmerged entries, which git could not merge by itself: "src/a". Each once. `id_bytes` is the size of
// an object's id, 20 or 32. kCorrupt if the text is not an index of version 2, 3 or 4. Entries of a shared index
// (core.splitIndex), which is another file, are not found.
Result<std::vector<std::string>> list_unmerged(std::string_view index, std::size_t id_bytes);

}  // namespace warren
