// The AgentFS commands `run` and `ps`.
#pragma once

#include "cli/syntax/args.h"

namespace warren::cli {

Command make_agentfs_run();
Command make_agentfs_ps();

}  // namespace warren::cli
