// The capabilities that a process inside keeps.
#pragma once

#include "base/result.h"

namespace warren {

// Applies to this process and everything it starts. Root keeps those that concern only files it could reach anyway
// (chown, overriding file permissions, set-id) and signals and low ports; anyone else keeps none.
Status drop_capabilities();

}  // namespace warren
