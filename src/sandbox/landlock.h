// The second wall: even where a mount lets it, nothing is written but in the places meant for it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

// What the kernel's Landlock can do, as its ABI number; 0 without it.
int landlock_abi();

// This process and whatever it starts may write only below `writable`, to devices and its own /proc, and to its
// standard streams; and reach no abstract socket of anyone outside. Needs no_new_privs. Does nothing below ABI 2,
// which could not rename between directories.
Status restrict_writing(const std::vector<std::string>& writable);

}  // namespace warren
