// What an agent has changed over its base: the list that `diff` shows, `apply` writes and `discard` drops.
//
// It is worked out from the rows of the upper layer, so it costs what was changed and not what the base
// holds; of the base only the nodes concerned are looked at, and directories that are gone. Rules:
// docs/design/changes.md.
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

// In the order in which changes of one path are listed: what was there goes before something else comes.
enum class TreeChangeKind : std::uint8_t { kDeleted, kModified, kRenamed, kAdded };

// One node that is not what the base has. What happened below a directory are changes of their own, but for
// a renamed directory, whose content moved along.
struct TreeChange {
  TreeChangeKind kind = TreeChangeKind::kModified;
  std::string path;       // in the merged tree; of what is gone, where it would be
  std::string base_path;  // where the base has it; "" if it was added
  // The base's name that `path` stands for, whether or not there is something; "" inside a directory that
  // shows nothing of the base.
  std::string place;
  std::optional<Attributes> before;  // as it is in the base now; nullopt if it was added
  std::optional<Attributes> after;   // nullopt if it was deleted
  bool is_content_changed = false;   // bytes of a file, target of a link, numbers of a device
  bool is_metadata_changed = false;  // permission bits, owner, extended attributes
  // The base's node as the agent knew it, and when nothing says so, a time at which it knew it.
  std::optional<Attributes> seen;
  Timestamp known_at;
  // One of several names that the base's node had, which this one no longer means: what happens to the others moves the
  // node's ctime.
  bool is_lost_link = false;
  bool has_hidden_names = false;  // other names in the base mean the same node, and must go on doing so

  const Attributes& node() const { return after ? *after : *before; }
  char letter() const;       // A M D R
  char type_letter() const;  // f d l, or ? for what is none of these
};

// Which changes are wanted, by the path in the merged tree; empty: all.
using ChangeFilter = std::function<bool(std::string_view path)>;

// By path; of one path in the order of TreeChangeKind. A rename is wanted if either of its paths is.
// kCorrupt for rows that make no sense.
Result<std::vector<TreeChange>> list_changes(const AgentOverlay& overlay, const ChangeFilter& filter = {});

struct ChangeSummary {
  std::uint64_t added = 0;
  std::uint64_t modified = 0;
  std::uint64_t deleted = 0;
  std::uint64_t renamed = 0;
  std::uint64_t bytes = 0;  // sizes of the files that were added or modified
};
ChangeSummary summarise(const std::vector<TreeChange>& changes);

}  // namespace warren
