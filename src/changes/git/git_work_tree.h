// Writes files of the merged tree to a temporary work tree, where git looks at them.
#pragma once

#include <optional>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/review/patch.h"
#include "os/files/host_tree.h"

namespace warren {

// At `name` ("src/a") below the host directory, with the directories above it. `content` replaces the file's own.
Status write_for_git(const AgentOverlay& overlay, const ChangedFile::Side& file, HostTree& host,
                     const std::string& name, const std::optional<std::string>& content);

}  // namespace warren
