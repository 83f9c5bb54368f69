// An agent's changes to its base: the list that `diff` shows, `apply` writes and `discard` drops.
//
// It is computed from the rows of the upper layer, so the cost depends on the number of changes and not on the size of
// the base; only the nodes concerned and deleted directories are read from the base. Rules: docs/design/changes.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "fs/types.h"

namespace warren {

// In the order in which changes of one path are listed: a deletion comes before the node that replaces it.
enum class TreeChangeKind : std::uint8_t { kDeleted, kModified, kRenamed, kAdded };

// One node that differs from the base. Nodes below a directory have changes of their own, except that the content of a
// renamed directory moved with it.
struct TreeChange {
  TreeChangeKind kind = TreeChangeKind::kModified;
  std::string path;       // in the merged tree; for a deleted node, where it would be
  std::string base_path;  // its path in the base; "" if it was added
  // The base path that `path` corresponds to, whether or not something is there; "" inside a directory that shows
  // nothing of the base.
  std::string place;
  std::optional<Attributes> before;  // as it is in the base now; nullopt if it was added
  std::optional<Attributes> after;   // nullopt if it was deleted
  bool is_content_changed = false;   // bytes of a file, target of a link, device numbers
  bool is_metadata_changed = false;  // permission bits, owner, extended attributes
  // The base's node as the agent saw it; if that was not recorded, known_at is a time at which the agent saw it.
  std::optional<Attributes> seen;
  Timestamp known_at;
  // The base had nothing there when the agent began to use the name.
  bool is_unseen = false;
  // It has replaced a node of the base's, and the base has nothing there any more.
  bool has_lost_base = false;
  // It is as in the agent's HEAD, and the base has a newer commit (changes/pinned/as_committed.h): git may have set it
  // back.
  bool is_set_back = false;
  // It takes back uncommitted work of the user's. Set by CommitImport::mark_taken_back only.
  bool takes_back_work = false;
  // The agent's commits contain it, or a part of it: `apply` does not write it before they are merged, unless a PATH
  // names it. Set by mark_by_commits only (cli/changes/apply_commits.h).
  bool is_in_commits = false;
  // The version in a commit of the agent's that the base has too: later changes of the agent are changes to that one,
  // whatever it saw before.
  std::optional<std::string> committed;
  // The newest commit that the agent's HEAD and the base's have in common, if the base's has another version of this
  // path than that of the session's start; else "".
  std::string common;
  // In the base this was one of several names of the node. Changes to its other names alter the node's ctime.
  bool is_lost_link = false;
  // It would replace, overwrite or move something in the base that was hidden from the agent: it is never applied.
  bool touches_hidden = false;
  bool has_hidden_names = false;  // other names in the base refer to the same node, and must continue to

  const Attributes& node() const { return after ? *after : *before; }
  char letter() const;       // A M D R
  char type_letter() const;  // f d l, or ? for other types
};

// Selects changes by the path in the merged tree; an empty filter selects all.
using ChangeFilter = std::function<bool(std::string_view path)>;

// What was hidden from the agent (AgentOverlay::hidden) is never part of a change: a deleted directory that contains it
// stays, without everything else in it. Sorted by path; changes of one path are in the order of TreeChangeKind. A
// rename is selected if either of its paths is. kCorrupt for invalid rows.
Result<std::vector<TreeChange>> list_changes(const AgentOverlay& overlay, const ChangeFilter& filter = {});

// The same with what the session has as its own HEAD does (changes/pinned/as_committed.h): for those who drop changes.
Result<std::vector<TreeChange>> list_every_change(const AgentOverlay& overlay);

struct ChangeSummary {
  std::uint64_t added = 0;
  std::uint64_t modified = 0;
  std::uint64_t deleted = 0;
  std::uint64_t renamed = 0;
  std::uint64_t bytes = 0;  // sizes of the files that were added or modified
};
ChangeSummary summarise(const std::vector<TreeChange>& changes);

}  // namespace warren
