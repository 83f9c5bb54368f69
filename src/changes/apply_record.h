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

#include "base/result.h"
#include "changes/intent.h"
#include "store/store.h"

namespace warren {

// How far the apply came. While it is being performed, the staging directory holds the only copies of what it replaces.
enum class ApplyState { kStaged, kPerforming, kPerformed, kRolledBack };

struct ApplyRecord {
  std::string staging;  // name of the staging directory, random; also the name of the record
  std::string base;     // absolute
  std::string agent;    // path of the agent file
  std::uint64_t device = 0;
  std::uint64_t inode = 0;       // of the agent file
  std::optional<Intent> intent;  // once everything is staged
  ApplyState state = ApplyState::kStaged;
  // The apply was rolled back, but these could not be restored: the old nodes are in the staging directory, and only
  // the user removes it.
  std::vector<std::string> left;

  bool operator==(const ApplyRecord&) const = default;
};

std::string encode(const ApplyRecord& record);
Result<ApplyRecord> decode_record(std::string_view bytes);  // kCorrupt

// A new one for this agent, not stored yet. kUnsupported for an agent without a file.
Result<ApplyRecord> new_record(Store& store, const std::string& base);

Status put_record(const ApplyRecord& record);  // durable; replaces one with the same name
Status remove_record(const ApplyRecord& record);
// Whether nothing in the staging directory is needed any more.
inline bool is_over(const ApplyRecord& record) {
  return record.left.empty() && record.state != ApplyState::kPerforming;
}

Result<std::string> path_of_record(const ApplyRecord& record);
// Those of this agent file, found by its path or its inode. A damaged record is an error only if it is the one that the
// agent file names.
Result<std::vector<ApplyRecord>> list_records(Store& store);

}  // namespace warren
