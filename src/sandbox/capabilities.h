// What a process inside may still do as root of its namespace.
#pragma once

#include "base/result.h"

namespace warren {

// Of this process and whatever it starts. Root keeps what only concerns files that it could reach anyway
// (chown, reading and writing past permissions, set-id, signals, low ports); anyone else keeps nothing.
Status drop_capabilities();

}  // namespace warren
