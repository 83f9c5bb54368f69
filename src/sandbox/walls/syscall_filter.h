// Blocks system calls that a command inside must not use.
#pragma once

#include "base/result.h"

namespace warren {

// Applies to this process and everything it starts, in every instruction set of the machine. Refused calls fail with
// EPERM, or with ENOSYS where a library then falls back to an older call. Needs no_new_privs.
Status filter_syscalls();

}  // namespace warren
