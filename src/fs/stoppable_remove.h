// remove (fs/tree_ops.h) for callers whose user may cancel it.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"
#include "fs/tree_ops.h"

namespace warren {

// Calls `check` before each entry of a tree. Its error ends the removal: what was removed by then stays removed, the
// rest stays, and the error says how many entries are gone.
Status remove_stoppable(FileSystem& fs, std::string_view path, const RemoveOptions& options,
                        const std::function<Status()>& check);

}  // namespace warren
