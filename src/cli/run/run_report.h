// Shows a run on standard error, in Warren's words or in those that scripts for AgentFS look for.
#pragma once

#include "cli/context.h"
#include "cli/syntax/help.h"
#include "session/run_session.h"

namespace warren::cli {

enum class ShowWalls { kNo, kYes };

// Runs it, reports its failures and returns the exit status.
Exit run_and_report(Context& context, const RunOptions& options, ShowWalls walls = ShowWalls::kNo);
Exit run_and_report_as_agentfs(Context& context, const RunOptions& options);

}  // namespace warren::cli
