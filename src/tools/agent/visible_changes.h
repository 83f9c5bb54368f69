// Which changes a caller may see: what diff shows, and all that apply writes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "changes/changes.h"
#include "tools/tool.h"

namespace warren {

// Paths of changes as they are in the namespace: those of a session are below /project.
struct ShownPaths {
  bool is_project = false;
  std::string at(const std::string& path) const;
};

// Only what the caller may read, under the name it has now and the one it had. A file with several names may be one
// that it must not read: an agent does not see it.
Result<std::vector<TreeChange>> visible_changes(ToolContext& context, ShownPaths paths,
                                                std::vector<TreeChange> changes);

}  // namespace warren
