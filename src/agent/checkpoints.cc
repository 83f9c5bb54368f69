#include "agent/checkpoints.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/put_back.h"
#include "base/path.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

bool has_id(const std::vector<Checkpoint>& all, std::int64_t id) {
  return std::ranges::any_of(all, [&](const Checkpoint& one) { return one.id == id; });
}

// A killed process may have left some in one of the files only.
Status remove_strays(Store& files, Store& names) {
  std::vector<Checkpoint> kept = WARREN_TRY(History(files).list());
  std::vector<Checkpoint> found = WARREN_TRY(History(names).list());
  for (const Checkpoint& one : found) {
    if (!has_id(kept, one.id)) WARREN_TRY(History(names).remove(one.id));
  }
  return Ok{};
}

Result<std::int64_t> next_id(Store& files, Store& names) {
  std::int64_t of_files = WARREN_TRY(History(files).last_id());
  std::int64_t of_names = WARREN_TRY(History(names).last_id());
  return std::max(of_files, of_names) + 1;
}

Error not_in_memory() { return {Code::kUnsupported, "an agent in memory cannot be opened at a checkpoint"}; }

}  // namespace

// Nobody can write to the agent's files until both are committed. The checkpoint exists once the second commit is done.
Result<Checkpoint> take_checkpoint(Agent& agent, std::string_view name, std::string_view cause) {
  Store& files = agent.store();
  Store* names = WARREN_TRY(agent.find_namespace_store());
  if (names == nullptr) return History(files).take(name, cause);
  Transaction change = WARREN_TRY(files.begin_write());
  WARREN_TRY(remove_strays(files, *names));
  std::int64_t id = WARREN_TRY(next_id(files, *names));
  Checkpoint made = WARREN_TRY(History(files).take(name, cause, id));
  WARREN_TRY(History(*names).take(name, cause, made.id));
  WARREN_TRY(change.commit());
  return made;
}

Result<std::vector<Checkpoint>> list_checkpoints(Agent& agent) { return History(agent.store()).list(); }

Result<Checkpoint> get_checkpoint(Agent& agent, std::string_view which) { return History(agent.store()).get(which); }

Result<CheckpointSize> measure_checkpoint(Agent& agent, std::int64_t id) {
  CheckpointSize size = WARREN_TRY(History(agent.store()).measure(id));
  if (agent.is_read_only()) return size;
  Store* names = WARREN_TRY(agent.find_namespace_store());
  if (names == nullptr) return size;
  std::vector<Checkpoint> all = WARREN_TRY(History(*names).list());
  if (!has_id(all, id)) return size;
  CheckpointSize more = WARREN_TRY(History(*names).measure(id));
  return CheckpointSize{.nodes = size.nodes + more.nodes,
                        .names = size.names + more.names,
                        .keys = size.keys + more.keys,
                        .bytes = size.bytes + more.bytes};
}

Status remove_checkpoint(Agent& agent, std::int64_t id) {
  WARREN_TRY(History(agent.store()).remove(id));
  Store* names = WARREN_TRY(agent.find_namespace_store());
  return names == nullptr ? Status(Ok{}) : remove_strays(agent.store(), *names);
}

Result<std::vector<Checkpoint>> prune_checkpoints(Agent& agent, const PruneRule& rule) {
  std::vector<Checkpoint> removed = WARREN_TRY(History(agent.store()).prune(rule));
  Store* names = WARREN_TRY(agent.find_namespace_store());
  if (names != nullptr) WARREN_TRY(remove_strays(agent.store(), *names));
  return removed;
}

Result<Checkpoint> restore_checkpoint(Agent& agent, std::int64_t id) {
  Store& files = agent.store();
  Store* names = WARREN_TRY(agent.find_namespace_store());
  if (names == nullptr) return History(files).restore(id);
  Transaction change = WARREN_TRY(files.begin_write());
  std::int64_t next = WARREN_TRY(next_id(files, *names));
  Checkpoint before = WARREN_TRY(History(files).restore(id, next));
  WARREN_TRY(History(files).set_unfinished_restore(id));
  WARREN_TRY(change.commit());
  WARREN_TRY(finish_restore(files, *names));
  return before;
}

// The namespace may be younger than the checkpoint; then it stays as it is.
Status finish_restore(Store& files, Store& names) {
  std::optional<std::int64_t> id = WARREN_TRY(History(files).find_unfinished_restore());
  if (!id) return Ok{};
  std::vector<Checkpoint> all = WARREN_TRY(History(names).list());
  std::int64_t last = WARREN_TRY(History(files).last_id());
  // Versions count up: the checkpoint before the restore has the id before the restored state's.
  if (has_id(all, *id)) WARREN_TRY(History(names).restore(*id, last - 1));
  return History(files).set_unfinished_restore(std::nullopt);
}

Result<std::unique_ptr<Agent>> open_checkpoint(Agent& agent, std::int64_t id, Clock& clock) {
  if (agent.path() == ":memory:") return not_in_memory();
  return Agent::open({.id_or_path = agent.path(), .mode = OpenMode::kReadOnly, .checkpoint = id}, clock);
}

Result<Checkpoint> restore_paths(Agent& agent, std::int64_t id, const std::vector<std::string>& paths, Clock& clock) {
  auto past = WARREN_TRY(open_checkpoint(agent, id, clock));
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
      WARREN_TRY(take_checkpoint(agent, fmt::format("before-restore-of-{}", id), "before restore of paths"));
  for (const std::string& path : normal) {
    WARREN_TRY(put_back(past->fs(), agent.fs(), path).within(fmt::format("restore {}", quote(path))));
  }
  return before;
}

Result<PastChanges> list_past_changes(Agent& agent, std::int64_t from, std::optional<std::int64_t> to) {
  return History(agent.store()).changes(from, to);
}

Result<std::vector<Inode>> list_touched_dirs(Agent& agent, const PastChanges& changed) {
  return History(agent.store()).list_touched_dirs(changed);
}

}  // namespace warren
