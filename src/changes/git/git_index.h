// The index of a repository inside a tree, read by our own parser: git never runs in a repository that a stranger
// wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

namespace limits {
inline constexpr std::size_t kUnmergedNames = 10'000;  // of which the names are kept
}  // namespace limits

// Files with unmerged entries, which git could not merge by itself.
struct Unmerged {
  std::vector<std::string> names;  // "src/a", each once; not more than limits::kUnmergedNames
  std::size_t count = 0;           // of all of them
};

// `id_bytes` is the size of an object's id, 20 or 32. kCorrupt if the text is not an index of version 2, 3 or 4, or has
// names that are longer than a path may be. Entries of a shared index (core.splitIndex), which is another file, are not
// found.
Result<Unmerged> find_unmerged(std::string_view index, std::size_t id_bytes);

}  // namespace warren
