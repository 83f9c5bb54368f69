// checkpoint push, pull and remote.
#pragma once

#include "cli/commands.h"

namespace warren::cli {

Command make_checkpoint_push();
Command make_checkpoint_pull();
Command make_checkpoint_remote();

}  // namespace warren::cli
