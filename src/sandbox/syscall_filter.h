// The system calls that a command inside has no business with.
#pragma once

#include "base/result.h"

namespace warren {

// For this process and whatever it starts, in every instruction set the machine runs. Refused calls fail with
// EPERM, or ENOSYS where a library then takes an older way. Needs no_new_privs.
Status filter_syscalls();

}  // namespace warren
