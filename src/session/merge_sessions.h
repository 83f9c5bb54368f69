// One session of two: a copy of the first, with the changes of the second merged into it.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "changes/merge/session_merge.h"

namespace warren {

struct MergeSessions {
  std::string first;  // agents with the same base, usually sessions
  std::string second;
  std::optional<std::string> into;  // the new session; default: both names, joined by '-'
  OnMergeConflict on_conflict = OnMergeConflict::kReport;
};

struct MergedSessions {
  std::string id;        // of the new session
  bool is_made = false;  // false with kReport and a conflict: then nothing remains of it
  std::string first;     // the ids of both
  std::string second;
  SessionMerge report;
};

// Neither of both is changed, and they may be in use. The copy has everything of the first: files, memory, keys,
// record, checkpoints. Of the second only the changes to the base, and its commits. kInvalid for different bases or a
// bad id, kExists if the new session exists, kBusy while an apply of one of them is under way or interrupted. After a
// failure no new session remains.
Result<MergedSessions> merge_sessions(const MergeSessions& request, Clock& clock);

}  // namespace warren
