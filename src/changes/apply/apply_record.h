// Our own records of applies, in the user's state directory (~/.agentfs/applies), which no agent can reach.
//
// An agent file is a stranger's input: it is never believed about what may be moved or removed. A record is on disk
// before an apply makes its staging directory, and names the agent file, the base and the staging directory; later it
// also has the intent. It is removed after the staging directory is. Without a record, nothing is recovered or removed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/base_note.h"
#include "base/limits.h"
#include "base/result.h"
#include "changes/apply/intent.h"
#include "changes/apply/left_node.h"
#include "store/store.h"

namespace warren {

// An apply, or the undoing of one (changes/undo/undo.h), which needs nothing from the agent file.
enum class RecordKind { kApply, kUndo };

// How much of what an apply replaces is kept for undoing it, and how long.
struct UndoLimits {
  std::uint64_t bytes_max = limits::kUndoBytes;  // of all kept applies together; 0: nothing is kept
  std::int64_t seconds = limits::kUndoSeconds;

  bool operator==(const UndoLimits&) const = default;
};

// How far the apply came. While it is being performed or rolled back, the staging directory holds the only copies of
// what it replaces. Once a rollback has begun, it is never performed again: a step that was undone cannot be told from
// one that was done.
enum class ApplyState { kStaged, kPerforming, kPerformed, kRolledBack, kRollingBack };

struct ApplyRecord {
  std::string staging;  // name of the staging directory, random; also the name of the record
  std::string base;     // absolute
  HostIdentity base_node;
  std::string agent;  // path of the agent file
  std::uint64_t device = 0;
  std::uint64_t inode = 0;       // of the agent file
  std::string agent_identity;    // store/identity.h; "" in a record of an older version
  std::optional<Intent> intent;  // once everything is staged
  ApplyState state = ApplyState::kStaged;
  // The apply was rolled back, but not these. If any of them is kept aside in the staging directory, only the user
  // removes that.
  std::vector<LeftNode> left;
  RecordKind kind = RecordKind::kApply;
  std::string label;            // the agent as the user named it
  std::int64_t started_us = 0;  // Unix microseconds
  UndoLimits undo;
  std::string undoes;  // kUndo: the name of the kept apply

  bool operator==(const ApplyRecord&) const = default;
};

std::string encode(const ApplyRecord& record);
Result<ApplyRecord> decode_record(std::string_view bytes);  // kCorrupt

// A new one for this agent, not stored yet. kUnsupported for an agent without a file.
Result<ApplyRecord> new_record(Store& store, const std::string& base);
std::string new_staging_name();

Status put_record(const ApplyRecord& record);  // durable; replaces one with the same name
Status remove_record(const ApplyRecord& record);
// Whether the steps may be half done.
inline bool is_under_way(const ApplyRecord& record) {
  return record.state == ApplyState::kPerforming || record.state == ApplyState::kRollingBack;
}
// Whether the staging directory holds something for the user.
bool keeps_nodes(const ApplyRecord& record);
// Whether nothing in the staging directory is needed any more.
inline bool is_over(const ApplyRecord& record) { return !keeps_nodes(record) && !is_under_way(record); }

Result<std::string> path_of_record(const ApplyRecord& record);
// Whether the directory at record.base is the one that the record was made for.
Status check_same_base(const ApplyRecord& record);

// All of them, of every agent; damaged ones are left out.
Result<std::vector<ApplyRecord>> list_all_records();

// Those of this agent file, found by its path or its inode. A damaged record is an error only if it is the one that the
// agent file names.
Result<std::vector<ApplyRecord>> list_records(Store& store);

// For whoever deletes the agent, with its name for messages: kBusy if an apply of it has begun and has not ended. Only
// with the agent can it be finished or undone, and what it has replaced is in the base's staging directory.
Status check_none_unfinished(const std::string& agent_file, const std::string& name);

}  // namespace warren
