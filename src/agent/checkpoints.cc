#include "agent/checkpoints.h"

#include <fmt/format.h>

#include "agent/audit_trail.h"
#include "agent/put_back.h"
#include "base/path.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

Error not_in_memory() { return {Code::kUnsupported, "an agent in memory cannot be opened at a checkpoint"}; }

// With the trail ready, if the agent has one: what is done is recorded by History, in its transaction, and what cannot
// be done is recorded here.
template <class Call>
auto keep_record(Agent& agent, std::string_view op, std::vector<std::string> paths, const Call& call)
    -> decltype(call()) {
  Result<AuditLog*> log = agent.operators_audit();
  if (!log.ok()) return std::move(log).take_error();
  if (*log == nullptr) return call();
  Status ready = (*log)->check();
  if (!ready.ok()) return std::move(ready).take_error();
  auto done = call();
  if (done.ok()) return done;
  std::vector<AuditEvent> events = operators_events(agent, op, paths);
  for (AuditEvent& event : events) {
    event.door = kCheckpointDoor;
    event.ok = false;
    event.err = audit_error_name(done.error().code());
  }
  (*log)->append(std::move(events)).ignore("the first error is the one to report");
  return done;
}

}  // namespace

Result<Checkpoint> take_checkpoint(Agent& agent, std::string_view name, std::string_view cause) {
  return keep_record(agent, "checkpoint", {std::string(name)},
                     [&] { return History(agent.store()).take(name, cause); });
}

Result<Checkpoint> take_automatic_checkpoint(Agent& agent, std::string_view name, std::string_view cause) {
  return keep_record(agent, "checkpoint", {std::string(name)},
                     [&] { return History(agent.store()).take_automatic(name, cause); });
}

Result<std::vector<Checkpoint>> list_checkpoints(Agent& agent) { return History(agent.store()).list(); }

Result<Checkpoint> get_checkpoint(Agent& agent, std::string_view which) { return History(agent.store()).get(which); }

Result<CheckpointSize> measure_checkpoint(Agent& agent, std::int64_t id) { return History(agent.store()).measure(id); }

Result<bool> has_changed_since_checkpoint(Agent& agent) { return History(agent.store()).has_changed(); }

Status remove_checkpoint(Agent& agent, std::int64_t id) {
  return keep_record(agent, "checkpoint_remove", {std::to_string(id)},
                     [&] { return History(agent.store()).remove(id); });
}

Result<std::vector<Checkpoint>> prune_checkpoints(Agent& agent, const PruneRule& rule) {
  return keep_record(agent, "checkpoint_remove", {"/"}, [&] { return History(agent.store()).prune(rule); });
}

Result<Checkpoint> restore_checkpoint(Agent& agent, std::int64_t id) {
  return keep_record(agent, "restore", {"/"}, [&] { return History(agent.store()).restore(id); });
}

Result<std::unique_ptr<Agent>> open_checkpoint(Agent& agent, std::int64_t id, Clock& clock) {
  if (agent.path() == ":memory:") return not_in_memory();
  return Agent::open({.id_or_path = agent.path(), .mode = OpenMode::kReadOnly, .checkpoint = id}, clock);
}

Status record_past_reading(Agent& agent, std::string_view path) {
  return agent.store().audit().note_read_of_source("read", path);
}

namespace {

Result<Checkpoint> restore_paths_in(Agent& agent, std::int64_t id, const std::vector<std::string>& paths,
                                    Clock& clock) {
  Checkpoint wanted = WARREN_TRY(get_checkpoint(agent, std::to_string(id)));
  auto past = WARREN_TRY(open_checkpoint(agent, id, clock));
  auto unit = WARREN_TRY(agent.fs().begin(UnitAccess::kWrite));  // the checkpoint before is of this very moment
  std::vector<std::string> normal;
  for (const std::string& path : paths) {
    std::string one = WARREN_TRY(normalise_path(path));
    bool was_there = WARREN_TRY(exists(past->fs(), one));
    bool is_there = WARREN_TRY(exists(agent.fs(), one));
    if (!was_there && !is_there) {
      return Error(Code::kNotFound, fmt::format("there is no {}, neither in checkpoint {} nor now", quote(one), id));
    }
    normal.push_back(std::move(one));
  }
  Checkpoint before =
      WARREN_TRY(History(agent.store()).take(fmt::format("before-restore-of-{}", id), "before restore of paths"));
  WARREN_TRY(put_back(past->fs(), agent.fs(), normal));
  for (const std::string& path : normal) agent.store().audit().note("restore", path, kCheckpointDoor, label_of(wanted));
  WARREN_TRY(unit->commit());
  return before;
}

}  // namespace

Result<Checkpoint> restore_paths(Agent& agent, std::int64_t id, const std::vector<std::string>& paths, Clock& clock) {
  return keep_record(agent, "restore", paths, [&] { return restore_paths_in(agent, id, paths, clock); });
}

Result<PastChanges> list_past_changes(Agent& agent, std::int64_t from, std::optional<std::int64_t> to) {
  return History(agent.store()).changes(from, to);
}

Result<std::vector<Inode>> list_touched_dirs(Agent& agent, const PastChanges& changed) {
  return History(agent.store()).list_touched_dirs(changed);
}

}  // namespace warren
