// What git would store of files in a work tree.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "changes/git/git.h"
#include "os/files/host_tree.h"

namespace warren {

// The ids that git would give the files of the work tree, by path ("src/a"), with its content filters. What is not
// there, or neither a file nor a link, has none. `git` runs at the top of `tree`.
Result<std::unordered_map<std::string, std::string>> hash_work_tree(Git& git, HostTree& tree,
                                                                    const std::vector<std::string>& paths);

}  // namespace warren
