// Checkpoints for callers of a namespace: what the tools and vfs_operation do with them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/checkpoints/checkpoints.h"
#include "base/json.h"
#include "base/result.h"
#include "tools/tool.h"

namespace warren {

constexpr std::string_view kCheckpointDir = "/state/checkpoints";
constexpr std::string_view kListCheckpointsHint = "List the checkpoints: history {}";

// The answer, or the error with a hint.
ToolAnswer checkpoint_answer(Result<ToolAnswer> made);

Json checkpoint_schema();

// By id or name; the hint of an error is for models.
Result<Checkpoint> wanted_checkpoint(ToolContext& context, std::string_view which);

// Needs the right to create a file in /state/checkpoints. An agent's own are automatic: the newest hundred are kept.
Result<ToolAnswer> take_named_checkpoint(ToolContext& context, std::string_view name);

// The paths as they were. The caller must have every right to whatever is there now and was there then. Without paths
// everything, also the policy, is restored, so only the operator may do that (kDenied).
Result<ToolAnswer> restore_from_checkpoint(ToolContext& context, std::string_view which,
                                           const std::vector<std::string>& paths);

}  // namespace warren
