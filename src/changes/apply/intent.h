// The steps of an apply, stored before the first is performed: enough to finish the apply after a crash, or to undo it.
//
// New content is staged in a directory at the root of the base (or of its own filesystem); replaced nodes are kept
// there until the end. Each is in a numbered slot. First every node that leaves its name moves to a slot, deepest
// first, addressed by its base path; then every node moves to its new name, top down. So chains and cycles of renames
// need no special order. Each step can tell from the files whether it was already done.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/staging_prefix.h"
#include "base/result.h"
#include "changes/changes.h"
#include "os/files/host_tree.h"

namespace warren {

// Stored. Never renumber.
enum class StepKind : std::uint8_t {
  kTakeOut = 1,      // path → slot
  kPutIn = 2,        // slot → path, which does not exist
  kReplace = 3,      // slot → path, whose old node moves to the slot `backup`
  kSetMetadata = 4,  // of path
  kOverwrite = 5,    // content of slot → the node at path, which has other names; the old content is in `backup`
};

struct Step {
  StepKind kind = StepKind::kTakeOut;
  std::string path;
  std::uint64_t slot = 0;
  std::uint64_t backup = 0;
  HostNode old_node;       // at path before the step; none for kPutIn
  HostNode new_node;       // in the slot; for kPutIn and kReplace
  std::uint64_t tree = 0;  // digest of the directory that kTakeOut or kPutIn moves; 0: not a directory, or not checked
  // Fingerprint of what was staged in the slot, to find out whether somebody has changed it since; for kOverwrite only
  // of the content. 0: nothing was staged, or the record is of an older version.
  std::uint64_t content = 0;
  HostMetadata before;  // kSetMetadata, kOverwrite
  HostMetadata after;

  bool operator==(const Step&) const = default;
};

// A change as it was when it was staged, to be removed from the upper layer.
struct AppliedChange {
  TreeChangeKind kind = TreeChangeKind::kModified;
  std::string path;
  std::string base_path;  // its path in the base
  std::uint32_t type = 0;
  Inode upper;  // 0 for a deletion, unless the node has another name since
  std::uint64_t size = 0;
  Timestamp mtime;
  Timestamp ctime;
  // The node as it was staged: what the base has until somebody else changes it. The inode is not compared. Type 0:
  // unknown, because the record is of an older version, or nothing was staged.
  HostNode written;
  bool is_partial = false;  // something was left out, and stays a change of the agent
  bool is_merged = false;   // what was written is not the agent's content
  // The base has work here that the agent has not seen. If it was merged, what the session keeps of the change stays in
  // conflict with that; else it was replaced. Of an undo: so it was with the undone apply. Then `path` is where the
  // undo puts something back, and `base_path` is the path of before the undo.
  bool has_unseen = false;
  // Of an undo: the base has that work again.
  bool brings_unseen = false;
  // What was written has conflict markers. A session in use shows them, too, so an undo gives it this back: the agent's
  // own version, and what a merge of it starts from.
  struct Own {
    std::string content;
    std::optional<std::string> ancestor;
    std::optional<HostMetadata> metadata = {};  // without times; absent in a record of an older version

    bool operator==(const Own&) const = default;
  };
  std::optional<Own> own = {};

  bool operator==(const AppliedChange&) const = default;
};

struct Intent {
  std::string staging;  // name of the staging directory in the base's root
  std::vector<Step> steps;
  // Mount points in the base whose filesystems are written to. Each has a staging directory of the same name; the n-th
  // one, counted from 1, has the slots from n * kSlotsPerTop on.
  std::vector<std::string> tops;
  // Of an undo: what it renames back, from base_path to path, and as added what is in directories that it puts back.
  std::vector<AppliedChange> changes;

  bool operator==(const Intent&) const = default;
};

inline constexpr std::uint64_t kSlotsPerTop = std::uint64_t{1} << 40;

// Into the order in which they must be performed.
void sort_steps(std::vector<Step>& steps);

std::string encode(const Intent& intent);
Result<Intent> decode_intent(std::string_view bytes);  // kCorrupt

}  // namespace warren
