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
#include "store/record/audit_check.h"
#include "store/record/audit_log.h"

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
// All rows that match, in order. With `last`, only so many, the newest. Returns the number of the last row of all.
Result<std::int64_t> read_trail(Agent& agent, const AuditFilter& filter, std::optional<std::size_t> last,
                                const TrailReader& reader);

// For those who follow a trail: the number of its last row, and the rows after one; returns the last that was read.
Result<std::int64_t> last_audit_row(Agent& agent);
Result<std::int64_t> read_trail_after(Agent& agent, std::int64_t seq, const AuditFilter& filter,
                                      const TrailReader& reader);

// Sets the agent's switch, which is an event itself.
Status switch_audit(Agent& agent, AuditLevel level, std::string_view door, Clock& clock);
Status switch_audit(Store& store, const std::string& agent, AuditLevel level, std::string_view door, Clock& clock);

struct TrailVerdict {
  AuditVerdict verdict;
  std::size_t anchors = 0;                   // that it was compared with
  std::vector<std::string> damaged_anchors;  // lines that are not anchors: "line 3 of 'FILE'"
  bool has_note = false;                     // and whether with a note of ours
};
struct VerifyOptions {
  std::vector<std::string> anchors;  // addresses; see put_anchor
  std::int64_t from = 1;             // the first row to check
};
// kNotFound if an anchor says nothing about this agent.
Result<TrailVerdict> verify_audit(Agent& agent, const VerifyOptions& options, Clock& clock);
Status accept_audit(Agent& agent);

// Adds the end of the agent's trail to an anchor: a place that whoever writes to the agent file cannot change. The
// address is a path of the host or "file:PATH", "agent:ID" (in /audit/anchors.jsonl of its namespace), or a backend
// ("s3://…", docs/backends.md), in which it is the value "<agent>.audit.jsonl". Returns whether there is one.
Result<bool> put_anchor(Agent& agent, const std::string& address, Clock& clock);

// Whether an anchor of this agent could be put there, as far as that is known without writing: the address is valid, a
// file's directory exists, another agent can be opened.
Status check_anchor(Agent& agent, const std::string& address, Clock& clock);
std::optional<std::string> host_path_of_anchor(const std::string& address);  // nullopt: it is somewhere else

// Events of what the operator does with an agent as a whole, through the command `op`: one for each path.
std::vector<AuditEvent> operators_events(Agent& agent, std::string_view op, const std::vector<std::string>& paths);

// Carries out what the operator does with an agent as a whole, on the record if the agent has a trail.
template <class Call>
auto do_on_record(Agent& agent, AuditEvent event, const Call& call) -> decltype(call()) {
  Result<AuditLog*> log = agent.operators_audit();
  if (!log.ok()) return std::move(log).take_error();
  return *log == nullptr ? call() : (*log)->change(std::move(event), call);
}
// For what replaces or repairs the file: afterwards, if it has a trail then. One event for each path, or pattern.
Status record_afterwards(const std::string& agent_path, std::string_view op, const std::optional<std::string>& to,
                         Clock& clock, const std::vector<std::string>& paths = {"/"});
// Records that the operator has read much of an agent at once, where reads are recorded.
Status record_reading(Agent& agent, std::string_view op, const std::vector<std::string>& paths,
                      std::optional<std::string> to = std::nullopt);

// Takes over a new key (agent/keys/audit_key.h) and records that.
Status record_new_key(Agent& agent, std::string_view door, Clock& clock);

}  // namespace warren
