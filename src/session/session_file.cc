#include "session/session_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/agent_state.h"
#include "agent/base_note.h"
#include "agent/keys/encrypted_note.h"
#include "agent/record/audit_note.h"
#include "base/path.h"
#include "changes/pinned/linked_worktree.h"
#include "changes/pinned/pinned_git.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "store/overlay/overlay_schema.h"

namespace warren {
namespace {

// Whether a new session gets the state of git as it is now (changes/pinned/pinned_git.h): the base has a directory
// `.git` of the user's, and the plan shows or hides nothing in it.
bool may_pin_git(const Plan& plan) {
  std::string git_dir = plan.base + "/.git";
  Result<std::optional<struct stat>> found = find_host_link(git_dir);
  bool is_own_dir = found.ok() && *found && S_ISDIR((*found)->st_mode) && (*found)->st_uid == ::geteuid();
  return is_own_dir && std::none_of(plan.places.begin(), plan.places.end(),
                                    [&](const Plan::Place& place) { return is_within(place.path, git_dir); });
}

}  // namespace

// Under another name first.
Status make_session_file(const SessionDir& session, const Plan& plan, const std::optional<Encryption>& encryption,
                         Clock& clock) {
  const std::string& base = plan.base;
  std::string draft = session.file() + ".new";
  for (const char* suffix : {"", "-wal", "-shm"}) WARREN_TRY(remove_host_file(draft + suffix));
  StoreOptions how{.mode = OpenMode::kCreate, .durability = Durability::kProcess};
  if (encryption) {
    NewFileKey key = WARREN_TRY(make_file_key(encryption->key, session.file()));
    how.key = key.key;
  }
  {
    auto store = WARREN_TRY(Store::open(draft, how, clock));
    WARREN_TRY(make_overlay(*store, base));
    WARREN_TRY(store->database().empty_log());  // the log keeps the draft's name
  }
  WARREN_TRY(put_base_note(draft, base, NoteFor::kNewAgent));  // it belongs to the file, whatever its name is
  if (std::optional<LinkedWorktree> worktree = find_linked_worktree(base)) {
    auto agent = WARREN_TRY(Agent::open({.id_or_path = draft}, clock));
    constexpr const char* kMake = "make a repository for the git worktree";
    WorktreeRepository repository = WARREN_TRY(read_worktree_repository(base, *worktree).within(kMake));
    WARREN_TRY(write_worktree_repository(agent->fs(), repository).within(kMake));
    WARREN_TRY(empty_log_of(*agent));
  } else if (may_pin_git(plan)) {
    auto agent = WARREN_TRY(Agent::open({.id_or_path = draft, .durability = Durability::kProcess}, clock));
    WARREN_TRY(pin_git(*agent).within("copy the state of git"));
    WARREN_TRY(empty_log_of(*agent));
  }
  if (::rename(draft.c_str(), session.file().c_str()) != 0) {
    return system_error(errno, fmt::format("make {}", quote(session.file())));
  }
  forget_audit_notes(session.file()).ignore("verify then says that another file was here");
  for (const std::string& path : {draft, session.file()}) {
    note_encrypted(path, nullptr).ignore("the next opening says so, and what to do");
  }
  return Ok{};
}

}  // namespace warren
