// What the program of a backend writes for people.
#pragma once

#include "os/fd.h"

namespace warren {

// Writes what is in the pipe, which does not block, to our own standard error, wherever that is by now; closes it at
// its end. Messages that nobody reads are dropped: a full or broken pipe must not stop us.
//
// Had the program our standard error itself, it would keep that of whoever started a mount open for as long as the
// mount lasts, and a caller who reads it to its end would wait.
void pass_messages(Fd& from);

}  // namespace warren
