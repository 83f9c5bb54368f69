// What happened to an agent, in one list: the journal of changes, the audit trail, tool calls and checkpoints.
//
// The journal knows what was changed, when and through which door, by any program of ours; it keeps the newest
// limits::kJournalRows changes. The audit trail says more, and can be verified: changes that are in it are taken from
// there alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "fs/types.h"
#include "store/history/history.h"

namespace warren {

enum class LogSource { kJournal, kAudit, kToolCall, kCheckpoint };
std::string_view name_of(LogSource source);  // "journal", "audit", "tool call", "checkpoint"

// "operator (fs)": as the audit trail and the journal have it.
std::string who_text(std::string_view space, std::string_view door);

struct LogEvent {
  std::int64_t at_us = 0;
  LogSource source = LogSource::kJournal;
  std::string who;                // "operator (fs)", "agent (run)"; "": not recorded
  std::string verb;               // "wrote", "removed", "could not write"; from a fixed list, or an operation's name
  std::string subject;            // a path, a key, a tool, a checkpoint: bytes; may be empty
  std::optional<std::string> to;  // the second path of a rename, link or copy
  std::string detail;             // "permission_denied", "3 ms"; may be empty
  bool ok = true;
  std::optional<std::uint64_t> size_bytes = {};
  std::optional<Checkpoint> checkpoint = {};
  std::optional<Attributes> node = {};  // of a path in a checkpoint
};

struct LogFilter {
  std::optional<std::string> path;  // normalised; this one and what is below
  std::optional<std::int64_t> since_us;
  std::optional<std::size_t> limit;  // the newest so many; nullopt: all
  bool has_reads = false;            // also what was only read, where that is recorded
};

// Newest first. With a path, a checkpoint is an event if the path was not in it what it was in the one before, and the
// last event says what it is now if no checkpoint has it so. Opens every checkpoint then.
Result<std::vector<LogEvent>> read_log(Agent& agent, const LogFilter& filter, Clock& clock);

}  // namespace warren
