#include "changes/apply/permission.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/base_note.h"
#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "changes/upper/tree_finder.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

// An agent file in a folder of ours that no agent can write to: a session that an older Warren made, whose folder names
// its base, or the layer of the home directory.
Result<bool> is_in_own_folder(const AgentOverlay& overlay) {
  std::string home = WARREN_TRY(agents_home());
  Result<std::string> own = canonical_host_path(home);
  if (!own.ok()) return false;
  std::string file = WARREN_TRY(canonical_host_path(overlay.agent_path));
  std::string folder(directory_of(file));
  if (folder == *own + "/home") return overlay.base_path == std::string(directory_of(*own));
  if (directory_of(folder) != *own + "/run" || file != session_file(folder)) return false;
  SessionDir session = WARREN_TRY(SessionDir::open_existing(std::string(base_name(folder))));
  Result<std::string> base = session.base();
  return base.ok() && *base == overlay.base_path;
}

bool is_in_agent_folder(std::string_view path) {
  std::string folder = "/" + std::string(kAgentsDir);
  for (std::size_t at = path.find(folder); at != path.npos; at = path.find(folder, at + 1)) {
    std::size_t end = at + folder.size();
    if (end == path.size() || path[end] == '/') return true;
  }
  return false;
}

}  // namespace

Result<std::optional<std::string>> find_doubt(const AgentOverlay& overlay) {
  std::optional<std::string> none;
  if (!overlay.note) {
    if (WARREN_TRY(is_in_own_folder(overlay))) return none;
    return std::optional<std::string>("this agent file was not created here by `warren init` or `warren run`");
  }
  if (overlay.note->base != overlay.base_path) {
    return std::optional(
        fmt::format("the agent file now names another base than {}, to which you agreed", quote(overlay.note->base)));
  }
  HostIdentity now = WARREN_TRY(identify_host_node(overlay.base_path));
  if (now.is_same(overlay.note->base_node)) return none;
  return std::optional<std::string>("the base is another directory than the one that the agent was created with");
}

Status agree_to_base(const AgentOverlay& overlay) {
  return put_base_note(overlay.agent_path, overlay.base_path, NoteFor::kOldAgent);
}

Status check_targets(const AgentOverlay& overlay, const std::vector<TreeChange>& changes) {
  std::string base = WARREN_TRY(canonical_host_path(overlay.base_path));
  std::string home = WARREN_TRY(agents_home());
  Result<std::string> found = canonical_host_path(home);
  std::string own = found.ok() ? *found : home;
  for (const TreeChange& change : changes) {
    if (change.touches_hidden) {
      return Error(Code::kConflict,
                   fmt::format("{} would replace or move something in the base that was hidden from the agent",
                               quote(change.path)),
                   "leave it out by naming the others");
    }
    for (const std::string& path : {change.path, change.base_path}) {
      if (path.empty() || path == "/") continue;
      std::string target = base == "/" ? path : base + path;
      bool removes_it = change.kind != TreeChangeKind::kModified && is_at_or_below(own, target);
      if (!is_at_or_below(target, own) && !removes_it) continue;
      return Error(Code::kDenied, fmt::format("{} is in {}, where Warren keeps its own state", quote(path), quote(own)),
                   "leave it out by naming the others");
    }
  }
  return Ok{};
}

std::size_t leave_out_agent_folders(std::vector<TreeChange>& changes, const std::vector<std::string>& patterns) {
  bool is_named = std::any_of(patterns.begin(), patterns.end(),
                              [](const std::string& pattern) { return is_in_agent_folder("/" + pattern); });
  if (is_named) return 0;
  std::vector<std::string> folders;
  for (const TreeChange& change : changes) {
    if (change.kind == TreeChangeKind::kDeleted && is_in_agent_folder(change.path)) folders.push_back(change.path);
  }
  std::size_t had = changes.size();
  std::erase_if(changes, [&](const TreeChange& change) {
    if (is_in_agent_folder(change.path) || is_in_agent_folder(change.base_path)) return true;
    return change.kind == TreeChangeKind::kDeleted &&
           std::any_of(folders.begin(), folders.end(),
                       [&](const std::string& folder) { return is_at_or_below(folder, change.path); });
  });
  return had - changes.size();
}

}  // namespace warren
