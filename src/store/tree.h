// The trees of an agent file: its files and, of an agent with a base, its namespace (docs/format.md, WR-35).
#pragma once

#include <cstddef>

namespace warren {

enum class Tree : std::size_t { kFiles, kNamespace };
inline constexpr std::size_t kTrees = 2;

}  // namespace warren
