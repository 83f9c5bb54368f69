// The audit trail of an open agent, for doors: reading, checking, switching and anchoring it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "store/audit_check.h"
#include "store/audit_log.h"

namespace warren {

struct AuditFilter {
  std::optional<std::int64_t> since_us;
  std::optional<std::int64_t> until_us;  // not including it
  std::vector<std::string> ops;          // any of them; empty: all
  std::optional<std::string> path;       // this one and what is below
  std::optional<bool> ok;
  std::optional<std::string> door;
};
bool matches(const AuditEvent& event, const AuditFilter& filter);

using TrailReader = std::function<Status(const AuditRow& row)>;
// All rows that match, in order. With `last`, only so many, the newest.
Status read_trail(Agent& agent, const AuditFilter& filter, std::optional<std::size_t> last, const TrailReader& reader);

// For those who follow a trail: the number of its last row, and the rows after one; returns the last that was read.
Result<std::int64_t> last_audit_row(Agent& agent);
Result<std::int64_t> read_trail_after(Agent& agent, std::int64_t seq, const AuditFilter& filter,
                                      const TrailReader& reader);

// Sets the agent's switch, which is an event itself.
Status switch_audit(Agent& agent, AuditLevel level, std::string_view door, Clock& clock);
Status switch_audit(Store& store, const std::string& agent, AuditLevel level, std::string_view door, Clock& clock);

struct TrailVerdict {
  AuditVerdict verdict;
  std::size_t anchors = 0;  // that it was compared with
  bool has_note = false;    // and whether with a note of ours
};
// `anchors` are addresses; see put_anchor.
Result<TrailVerdict> verify_audit(Agent& agent, const std::vector<std::string>& anchors, Clock& clock);
Status accept_audit(Agent& agent);

// Adds the end of the agent's trail to an anchor: a place that whoever writes to the agent file cannot change. The
// address is a path of the host or "file:PATH", "agent:ID" (in /audit/anchors.jsonl of its namespace), or a backend
// ("s3://…", docs/backends.md), in which it is the value "<agent>.audit.jsonl". Returns whether there is one.
Result<bool> put_anchor(Agent& agent, const std::string& address, Clock& clock);

// Takes over a new key (agent/audit_key.h) and records that.
Status record_new_key(Agent& agent, std::string_view door, Clock& clock);

}  // namespace warren
