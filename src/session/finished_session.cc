#include "session/finished_session.h"

#include <algorithm>
#include <memory>

#include "agent/agent.h"
#include "agent/checkpoints.h"
#include "agent/locate.h"
#include "agent/sessions.h"
#include "changes/git_folder.h"
#include "changes/open_overlay.h"
#include "changes/quarantine.h"
#include "fs/tree_ops.h"
#include "os/host_files.h"
#include "session/run_session.h"

namespace warren {
namespace {

// nullopt if the agent is not a session.
Result<std::optional<std::string>> find_session_id(const std::string& id_or_path) {
  std::string file = WARREN_TRY(locate_agent(id_or_path));
  std::string id = agent_id_of(file);
  std::optional<std::string> of_session = WARREN_TRY(find_session_file(id));
  if (!of_session) return std::optional<std::string>();
  std::string one = WARREN_TRY(canonical_host_path(file));
  std::string other = WARREN_TRY(canonical_host_path(*of_session));
  return one == other ? std::optional(std::move(id)) : std::nullopt;
}

Result<bool> has_files_in_namespace(Agent& agent) {
  Result<FileSystem*> tree = agent.namespace_tree();
  if (!tree.ok() && tree.error().code() == Code::kNotFound) return false;
  FileSystem* names = WARREN_TRY(std::move(tree));
  bool has_any = false;
  WARREN_TRY(walk(*names, "/", [&](const WalkEntry& entry) -> Result<WalkNext> {
    has_any = !entry.attributes.is_directory();
    return has_any ? WalkNext::kStop : WalkNext::kContinue;
  }));
  return has_any;
}

// What `apply` leaves out of a .git and does not bring as a branch: objects (of a stash, of tags, of nested
// repositories), hooks and settings. Not what git writes all the time, such as the index, and not the repository of a
// linked worktree.
Result<bool> has_git_work(const AgentOverlay& overlay) {
  std::vector<TreeChange> changes = WARREN_TRY(list_changes(overlay));
  std::vector<TreeChange> left_out = WARREN_TRY(leave_out_git(overlay, changes, {}));
  return std::any_of(left_out.begin(), left_out.end(), [](const TreeChange& change) {
    constexpr std::string_view kObjectsDir = "/.git/objects/";
    std::size_t at = change.path.find(kObjectsDir);
    bool is_object =
        at != change.path.npos && object_file_of(change.path.substr(at + kObjectsDir.size())) != ObjectFile::kNone;
    bool is_settings = change.path.ends_with("/.git/config") && change.before;
    return is_object || is_settings || change.path.find("/.git/hooks/") != change.path.npos;
  });
}

// Something besides the changes to its base that nobody else has.
Result<bool> has_state(const SessionDir& session, Clock& clock) {
  OverlayAgent opened = WARREN_TRY(open_overlay(session.file(), OpenMode::kReadOnly, clock));
  std::unique_ptr<Agent>& agent = opened.agent;
  if (WARREN_TRY(has_git_work(opened.overlay))) return true;
  if (!WARREN_TRY(list_checkpoints(*agent)).empty()) return true;
  if (!WARREN_TRY(agent->kv().list({.limit = 1})).empty()) return true;
  if (!WARREN_TRY(agent->tools().list({.limit = 1})).empty()) return true;
  return has_files_in_namespace(*agent);
}

}  // namespace

Result<std::optional<std::string>> remove_if_finished(const std::string& id_or_path, Clock& clock) {
  std::optional<std::string> none;
  std::optional<std::string> id = WARREN_TRY(find_session_id(id_or_path));
  if (!id) return none;
  SessionDir session = WARREN_TRY(SessionDir::open_existing(*id));
  Fd held = WARREN_TRY(session.lock());  // so that no run begins meanwhile
  if (WARREN_TRY(session.is_running())) return none;
  SessionSummary left = WARREN_TRY(summarise_session(session, clock));
  const ChangeSummary& changes = left.changes;
  bool is_empty = changes.added + changes.modified + changes.deleted + changes.renamed == 0 && !left.has_commits;
  if (!is_empty || WARREN_TRY(has_state(session, clock))) return none;
  WARREN_TRY(session.remove());
  return id;
}

}  // namespace warren
