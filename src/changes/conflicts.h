// Finds conflicts between an agent's changes and its base, and merges both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"
#include "text/diff/merge3.h"

namespace warren {

// What a three-way merge makes of a file in conflict.
enum class MergeResult : std::uint8_t { kNone, kMarked, kClean };

struct ApplyConflict {
  std::string path;
  std::string why;  // "it was changed in the base"
  // The agent's file is encrypted, so that what it started from was not kept, and it cannot be merged.
  bool is_encrypted = false;
  // A part of the agent's file was only in the base's file, which has changed: there is nothing whole to write.
  bool is_incomplete = false;
  bool is_deletion = false;  // the agent has deleted it
  bool is_replaced = false;  // a deletion only because the agent has something else at this path, or above it
  bool is_new = false;       // and the base's node was made after the agent saw the directory
  bool is_lost = false;      // the base has nothing there any more
  bool is_blocked = false;   // the base has something else in place of a directory above it: apply cannot write there
  bool is_hidden = false;    // the base's node was hidden from the agent: no option of apply writes there
  // By resolve_conflicts only (changes/apply/resolve.h).
  MergeResult merge = MergeResult::kNone;
  std::string_view why_not_merged;  // of kNone, for people: "it is not text"; "" of a deletion

  // False: no option of apply writes the change.
  bool can_be_forced() const { return !is_blocked && !is_hidden && !is_incomplete; }
};

// Compares the base's nodes that are changed with what the agent saw. A node is unchanged if inode, type, size, mtime,
// mode and owner are the same, or its content equals the stored ancestor. Where nothing was recorded (names deleted
// together with a moved directory, files created again under an old name), the base's node must be older than the
// agent's change.
Result<std::vector<ApplyConflict>> find_conflicts(const AgentOverlay& overlay, const std::vector<TreeChange>& changes);

// Whether the base still has what the agent saw of this file.
Result<bool> is_as_agent_saw(const AgentOverlay& overlay, const TreeChange& change);

// The stored content that the agent first saw, if it was kept.
Result<std::optional<std::string>> find_kept(const AgentOverlay& overlay, const TreeChange& change);

// What the agent first saw of the file that it changed: the base's content, or, where the base has changed since, the
// stored ancestor, or the version that git has (changes/pinned/git_ancestor.h). kConflict if there is none of them.
Result<std::string> read_seen(const AgentOverlay& overlay, const TreeChange& change);

// As read_seen, but for a text file in conflict with what the base has changed in the same way since: its difference
// from the agent's version is what the base lacks.
Result<std::string> read_compared(const AgentOverlay& overlay, const TreeChange& change);

// The versions that a merge is made of.
struct MergeVersions {
  std::string ancestor;
  std::string agent;
  std::string base;
};
struct FoundVersions {
  std::optional<MergeVersions> texts;
  std::string_view why_none;  // for people: "it is not text"
  bool is_kept = false;       // the ancestor was kept; else both have added the file, and it is empty
};
Result<FoundVersions> find_versions(const AgentOverlay& overlay, const TreeChange& change);

inline constexpr MergeLabels kMergeLabels{.ours = "agent", .theirs = "base"};  // after the markers

// Merges the agent's and the base's version of a text file. nullopt if it cannot be merged automatically: there is
// neither a stored ancestor nor one in git, it is not text, or both changed the same lines.
Result<std::optional<std::string>> merge_change(const AgentOverlay& overlay, const TreeChange& change);

struct MergedChange {
  std::string text;  // with conflict markers if both changed the same lines
  bool is_clean = true;
};
// nullopt if it is not text, or there is no ancestor. A file that both have added is merged
// with an empty one: what differs is between markers.
Result<std::optional<MergedChange>> merge_change_or_mark(const AgentOverlay& overlay, const TreeChange& change);

}  // namespace warren
