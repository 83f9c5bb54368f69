// Commits that a rebase left out, as the logs of a repository show.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "changes/git/git.h"
#include "fs/file_system.h"

namespace warren {

// A rebase replaces the commits of a branch. Dropped are those that it has no other commit for (`drop` and `--skip`,
// whatever the reason), unless their content is in the result, or in the repository's HEAD. A commit's successor has
// the same change, or the same author, time and subject; squashed ones are counted. So are commits that the agent made
// during a rebase and that went with `git rebase --abort`. Commits of rebases that are too many or too long to look at
// count as dropped, too.
//
// `fs` has the repository at /.git, `git` runs where its objects are. Returns commits of `alone` only, to which none of
// `references` leads ("^<id>\n" each).
Result<std::set<std::string>> list_dropped(FileSystem& fs, Git& git, const std::string& references,
                                           const std::set<std::string>& alone);

}  // namespace warren
