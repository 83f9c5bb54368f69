// Reads the state of a git repository while nothing moves it.
//
// HEAD, the index and the branches are files of their own, and git writes them one after the other: a `git checkout`
// holds `index.lock` while it changes the work tree, then replaces the index, then writes HEAD. Whoever copies them in
// between has the HEAD of one branch and the index of another, and the next commit takes back everything in which they
// differ. See docs/design/changes.md, "The state of git".
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

namespace limits {
inline constexpr int kGitRestTries = 150;
inline constexpr std::chrono::milliseconds kGitRestPause{20};
// An index that is younger may be one whose HEAD is still to be written.
inline constexpr std::chrono::milliseconds kGitIndexAge{50};
// A lock that is older is of a command that waits for its user (`git commit -a`), takes long, or was interrupted. Until
// it ends, HEAD and index stay as they are.
inline constexpr std::chrono::milliseconds kGitLockAge{2000};
}  // namespace limits

struct GitRest {
  Clock& clock;
  std::function<void()> pause;  // between two tries
};

GitRest rest_with_pauses(Clock& clock);  // of kGitRestPause

// Calls `read` until it has returned and HEAD, its branch and the index were the same before and after it, the index is
// not younger than kGitIndexAge, and there is no `index.lock` that is younger than kGitLockAge. `dir` is the git
// directory in `fs`: "/.git". An error of `read` counts only if nothing moved meanwhile. kBusy after kGitRestTries.
Status read_git_at_rest(FileSystem& fs, const std::string& dir, const GitRest& rest,
                        const std::function<Status()>& read);

// Whether a command holds the index, and has done so for longer than kGitLockAge.
bool has_old_git_lock(FileSystem& fs, const std::string& dir, Clock& clock);

}  // namespace warren
