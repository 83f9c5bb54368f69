// The audit trails of an open agent, for doors: reading, checking, switching and anchoring them.
//
// An agent file has one trail. An agent with a base has two files (agent/namespace_store.h), and a trail in each:
// "files" for its files, "namespace" for its namespace.
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

struct AgentTrail {
  std::string name;  // "files" or "namespace"; "" if there is only one
  AuditLog* log = nullptr;
  std::string path;  // of the file
};
// A namespace that does not exist yet has no trail.
Result<std::vector<AgentTrail>> trails_of(Agent& agent);

struct AuditFilter {
  std::optional<std::int64_t> since_us;
  std::optional<std::int64_t> until_us;  // not including it
  std::vector<std::string> ops;          // any of them; empty: all
  std::optional<std::string> path;       // this one and what is below
  std::optional<bool> ok;
  std::optional<std::string> door;
};
bool matches(const AuditEvent& event, const AuditFilter& filter);

struct TrailRow {
  std::string trail;
  AuditRow row;
};
using TrailReader = std::function<Status(const TrailRow& row)>;
// All rows that match, in the order of their times. With `last`, only so many, the newest.
Status read_trails(const std::vector<AgentTrail>& trails, const AuditFilter& filter, std::optional<std::size_t> last,
                   const TrailReader& reader);

// What is new since the last call; the first call begins at the end of the trails.
class TrailFollower {
 public:
  static Result<TrailFollower> begin(std::vector<AgentTrail> trails);
  Status read_new(const AuditFilter& filter, const TrailReader& reader);

 private:
  std::vector<AgentTrail> trails_;
  std::vector<std::int64_t> seen_;
};

// Sets the agent's switch, which is an event itself.
Status switch_audit(Agent& agent, AuditLevel level, std::string_view door, Clock& clock);
Status switch_audit(Store& store, const std::string& agent, AuditLevel level, std::string_view door, Clock& clock);

struct TrailVerdict {
  std::string trail;
  AuditVerdict verdict;
  std::size_t anchors = 0;  // that it was compared with
  bool has_note = false;    // and whether with a note of ours
};
// `anchors` are addresses; see put_anchor.
Result<std::vector<TrailVerdict>> verify_audit(Agent& agent, const std::vector<std::string>& anchors, Clock& clock);
Status accept_audit(Agent& agent);

// Adds the ends of the agent's trails to an anchor: a place that whoever writes to the agent file cannot change. The
// address is a path of the host or "file:PATH", "agent:ID" (in /audit/anchors.jsonl of its namespace), or a backend
// ("s3://…", docs/backends.md), in which it is the value "<agent>.audit.jsonl". Returns how many ends were added.
Result<std::size_t> put_anchor(Agent& agent, const std::string& address, Clock& clock);

// Takes over a new key (agent/audit_key.h) and records that.
Status record_new_key(Agent& agent, std::string_view door, Clock& clock);

}  // namespace warren
