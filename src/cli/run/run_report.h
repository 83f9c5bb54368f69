// Shows a run on standard error, in Warren's wording or in the wording that AgentFS scripts expect.
#pragma once

#include "cli/context.h"
#include "cli/syntax/help.h"
#include "session/run_session.h"

namespace warren::cli {

enum class ShowWalls { kNo, kYes };

// Runs the command, reports failures and returns the exit status.
Exit run_and_report(Context& context, const RunOptions& options, ShowWalls walls = ShowWalls::kNo);
// The same, but reports failures only.
Exit run_quietly(Context& context, const RunOptions& options);
Exit run_and_report_as_agentfs(Context& context, const RunOptions& options);

// Prints a failure before there is a run, as run_and_report does.
void report_failure(Context& context, const Error& error);

}  // namespace warren::cli
