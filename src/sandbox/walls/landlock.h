// The second line of defence: no writes outside the intended places, even if a mount would allow them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

// The ABI version of the kernel's Landlock; 0 without it.
int landlock_abi();

inline constexpr int kAbstractSocketsAbi = 6;  // Linux 6.12
inline constexpr int kNamedSocketsAbi = 9;     // Linux 7.1

// This process and everything it starts may write only below `writable`, to devices and its own /proc, and to its
// standard streams. From the ABIs above on it can also reach no abstract socket outside, and no named one that is
// not below `writable`. Needs no_new_privs. Does nothing below ABI 2, which
// cannot allow renames between directories.
Status restrict_writing(const std::vector<std::string>& writable);

}  // namespace warren
