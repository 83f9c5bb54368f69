#include "agent/checkpoints/checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/checkpoints/mounted_state.h"
#include "agent/checkpoints/put_back.h"
#include "agent/record/audit_trail.h"
#include "base/below.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "store/ciphers/encrypt_files.h"
#include "store/files/sqlite_fs.h"
#include "store/tables/item_rows.h"

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

using Covered = std::vector<CoveredMount>;

// Copies the mounts, then calls `take(covered)`: again, if another process has copied them meanwhile.
template <class Take>
Result<Checkpoint> take_with_mounts(MountedState* mounted, MountedState::Unreachable unreachable,
                                    std::vector<std::string>* problems, const Take& take) {
  constexpr int kAttempts = 5;
  if (mounted == nullptr) return take(Covered());
  for (int attempt = 1;; ++attempt) {
    MountedState::Copied copied = WARREN_TRY(mounted->copy_in(unreachable));
    Result<Checkpoint> made = take(copied.covered);
    bool is_disturbed = !made.ok() && made.error().code() == Code::kConflict;
    if (is_disturbed && attempt < kAttempts) continue;
    if (problems != nullptr) *problems = std::move(copied.problems);
    return made;
  }
}

// A name means the newest checkpoint that has it: one of the agent must not stand for one of somebody else.
Status check_not_shadowing(Agent& agent, std::string_view name, std::string_view cause) {
  std::vector<Checkpoint> all = WARREN_TRY(History(agent.store()).list());
  for (const Checkpoint& one : all) {
    if (one.name != name || one.cause == cause) continue;
    return Error(
        Code::kExists,
        fmt::format("checkpoint {} has the name {} already, and the agent did not take it", one.id, quote(name)),
        "choose another name");
  }
  return Ok{};
}

}  // namespace

Result<Checkpoint> take_checkpoint(Agent& agent, std::string_view name, std::string_view cause, MountedState* mounted) {
  return keep_record(agent, "checkpoint", {std::string(name)}, [&] {
    return take_with_mounts(mounted, MountedState::Unreachable::kFail, nullptr,
                            [&](const Covered& covered) { return History(agent.store()).take(name, cause, covered); });
  });
}

Result<Checkpoint> take_automatic_checkpoint(Agent& agent, const AutomaticCheckpoint& what) {
  return keep_record(agent, "checkpoint", {std::string(what.name)}, [&] {
    return take_with_mounts(
        what.mounted, MountedState::Unreachable::kLeaveOut, what.problems,
        [&](const Covered& covered) { return History(agent.store()).take_automatic(what.name, what.cause, covered); });
  });
}

Result<Checkpoint> take_agents_checkpoint(Agent& agent, std::string_view name, std::string_view cause,
                                          MountedState& mounted) {
  WARREN_TRY(check_not_shadowing(agent, name, cause));
  return take_with_mounts(&mounted, MountedState::Unreachable::kFail, nullptr, [&](const Covered& covered) {
    return History(agent.store()).take_automatic(name, cause, covered);
  });
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

namespace {

Status check_all_encrypted(const RecodedFiles& done) {
  if (done.failed == 0) return Ok{};
  return Error(Code::kDenied,
               fmt::format("{} not encrypted as the patterns say: {}",
                           done.failed == 1 ? std::string("1 file is") : fmt::format("{} files are", done.failed),
                           fmt::join(done.problems, "; ")),
               "note where the key is, then `warren encrypt ID PATTERN` does that; `warren key ID` lists patterns and "
               "keys");
}

}  // namespace

Status encrypt_restored(Agent& agent) {
  RecodedFiles done;
  WARREN_TRY(encrypt_by_patterns(agent.store(), done));
  return check_all_encrypted(done);
}

Result<Checkpoint> restore_checkpoint(Agent& agent, std::int64_t id, MountedState* mounted) {
  RecodedFiles encrypted;
  Checkpoint before = WARREN_TRY(keep_record(agent, "restore", {"/"}, [&]() -> Result<Checkpoint> {
    Checkpoint taken =
        WARREN_TRY(take_with_mounts(mounted, MountedState::Unreachable::kFail, nullptr, [&](const Covered& covered) {
          encrypted = {};
          return History(agent.store()).restore(id, covered, &encrypted);
        }));
    if (mounted != nullptr) WARREN_TRY(mounted->copy_out(id));
    return taken;
  }));
  WARREN_TRY(check_all_encrypted(encrypted).within(
      fmt::format("everything was restored (what it was before is checkpoint {})", before.id)));
  return before;
}

Result<std::vector<std::string>> list_covered_mounts(Agent& agent, std::int64_t id) {
  return History(agent.store()).list_covered(id);
}

Result<std::unique_ptr<Agent>> open_checkpoint(Agent& agent, std::int64_t id, Clock& clock) {
  if (agent.path() == ":memory:") return not_in_memory();
  return Agent::open({.id_or_path = agent.path(), .mode = OpenMode::kReadOnly, .checkpoint = id}, clock);
}

Status record_past_reading(Agent& agent, std::string_view path) {
  return agent.store().audit().note_read_of_source("read", path);
}

namespace {

constexpr std::string_view kItemsPath = "/context";

struct PathsToRestore {
  std::vector<std::string> own;
  std::vector<std::string> mounted;
};

// The item of a file is the one that it was then, unless that is elsewhere now.
Status put_item_back(ItemRows& then, ItemRows& now, Agent& agent, const WalkEntry& entry) {
  std::optional<ItemRow> row = WARREN_TRY(then.find(entry.attributes.inode));
  if (!row) return Ok{};
  Attributes file = WARREN_TRY(lstat(agent.fs(), entry.path));
  std::optional<ItemRow> known = WARREN_TRY(now.find_by_id(row->id));
  if (known && known->node == file.inode) return Ok{};
  if (known) {
    Result<Attributes> other = agent.fs().get_attributes(known->node);
    if (other.ok() && other->nlink > 0) return Ok{};
    WARREN_TRY(now.remove(known->node));
  }
  row->node = file.inode;
  row->path = entry.path;
  return now.put(*row);
}

Status put_items_back(Agent& past, Agent& agent, const std::vector<std::string>& paths) {
  if (agent.base()) return Ok{};  // items are in the namespace, and these paths in the project
  ItemRows then(past.store());
  ItemRows now(agent.store());
  for (const std::string& path : paths) {
    if (!is_at_or_below(path, kItemsPath) && !is_at_or_below(kItemsPath, path)) continue;
    std::string top = is_at_or_below(path, kItemsPath) ? path : std::string(kItemsPath);
    if (!WARREN_TRY(exists(past.fs(), top))) continue;
    auto visit = [&](const WalkEntry& entry) -> Result<WalkNext> {
      if (entry.attributes.is_file()) WARREN_TRY(put_item_back(then, now, agent, entry));
      return WalkNext::kContinue;
    };
    WARREN_TRY(walk(past.fs(), top, visit, {.follow = Follow::kNo}));
  }
  return Ok{};
}

// Nullopt if it was not encrypted, or was only in the base. A key that was replaced since is the new one.
Result<std::optional<std::int64_t>> find_key_then(Agent& past, const std::string& path, const ContentKeys& keys) {
  Result<Attributes> file = lstat(past.store().fs(), path);
  bool is_elsewhere =
      !file.ok() && (file.error().code() == Code::kNotFound || file.error().code() == Code::kNotDirectory);
  if (is_elsewhere) return std::optional<std::int64_t>();
  if (!file.ok()) return std::move(file).take_error();
  std::optional<std::int64_t> key = WARREN_TRY(past.store().fs().find_content_key(file->inode));
  if (!key) return key;
  const ContentKeyRow* row = keys.find_row(*key);
  if (row == nullptr) return Error(Code::kCorrupt, fmt::format("it was encrypted with key {}, which is gone", *key));
  return std::optional(row->replaced_by.value_or(row->id));
}

// A file that comes back, while it is empty: with the key of the pattern that matches its path; elsewhere, what was
// encrypted then is encrypted now.
Status give_key_back(Agent& past, Agent& agent, const std::string& path) {
  const ContentKeys* keys = agent.store().content_keys();
  if (keys == nullptr) return Ok{};
  std::optional<std::int64_t> wanted = keys->find_for(path);
  if (!wanted) wanted = WARREN_TRY(find_key_then(past, path, *keys));
  if (!wanted) return Ok{};
  Attributes file = WARREN_TRY(lstat(agent.store().fs(), path));
  std::optional<std::int64_t> has = WARREN_TRY(agent.store().fs().find_content_key(file.inode));
  return has == wanted ? Status(Ok{}) : agent.store().fs().recode(file.inode, wanted);
}

// Also for a symbolic link whose target is missing.
Result<bool> has_node(FileSystem& fs, const std::string& path) {
  Result<Attributes> found = lstat(fs, path);
  if (found.ok()) return true;
  if (found.error().code() == Code::kNotFound || found.error().code() == Code::kNotDirectory) return false;
  return std::move(found).take_error();
}

// Those of the agent's own tree, after a checkpoint that covers these mounts.
Result<Checkpoint> restore_own_paths(Agent& agent, std::int64_t id, const PathsToRestore& paths, Clock& clock,
                                     const Covered& covered, const RestoredPaths& restored) {
  Checkpoint wanted = WARREN_TRY(get_checkpoint(agent, std::to_string(id)));
  auto past = WARREN_TRY(open_checkpoint(agent, id, clock));
  auto unit = WARREN_TRY(agent.fs().begin(UnitAccess::kWrite));  // the checkpoint before is of this very moment
  for (const std::string& path : paths.own) {
    bool was_there = WARREN_TRY(has_node(past->fs(), path));
    bool is_there = WARREN_TRY(has_node(agent.fs(), path));
    if (!was_there && !is_there) {
      return Error(Code::kNotFound, fmt::format("there is no {}, neither in checkpoint {} nor now", quote(path), id));
    }
  }
  Checkpoint before =
      WARREN_TRY(History(agent.store())
                     .take_automatic(fmt::format("before-restore-of-{}", id), "before restore of paths", covered));
  WARREN_TRY(put_back(past->fs(), agent.fs(), paths.own,
                      [&](const std::string& path) { return give_key_back(*past, agent, path); }));
  WARREN_TRY(put_items_back(*past, agent, paths.own));
  if (restored) WARREN_TRY(restored(*past, paths.own));
  for (const auto* some : {&paths.own, &paths.mounted}) {
    for (const std::string& path : *some)
      agent.store().audit().note("restore", path, kCheckpointDoor, label_of(wanted));
  }
  WARREN_TRY(unit->commit());
  return before;
}

Result<Checkpoint> restore_paths_in(Agent& agent, std::int64_t id, const std::vector<std::string>& paths, Clock& clock,
                                    MountedState* mounted, const RestoredPaths& restored) {
  PathsToRestore all;
  for (const std::string& path : paths) {
    std::string one = WARREN_TRY(normalise_path(path));
    bool is_mounted = mounted != nullptr && mounted->has_path(one);
    (is_mounted ? all.mounted : all.own).push_back(std::move(one));
  }
  std::vector<std::string> covered_then;
  if (!all.mounted.empty()) covered_then = WARREN_TRY(list_covered_mounts(agent, id));
  for (const std::string& path : all.mounted) WARREN_TRY(mounted->check_covered(id, covered_then, path));
  Checkpoint before = WARREN_TRY(take_with_mounts(
      all.mounted.empty() ? nullptr : mounted, MountedState::Unreachable::kFail, nullptr,
      [&](const Covered& covered) { return restore_own_paths(agent, id, all, clock, covered, restored); }));
  for (const std::string& path : all.mounted) WARREN_TRY(mounted->copy_out_path(id, path));
  return before;
}

}  // namespace

Result<Checkpoint> restore_paths(Agent& agent, std::int64_t id, const std::vector<std::string>& paths, Clock& clock,
                                 MountedState* mounted, const RestoredPaths& restored) {
  return keep_record(agent, "restore", paths,
                     [&] { return restore_paths_in(agent, id, paths, clock, mounted, restored); });
}

Result<PastChanges> list_past_changes(Agent& agent, std::int64_t from, std::optional<std::int64_t> to) {
  return History(agent.store()).changes(from, to);
}

Result<std::vector<Inode>> list_touched_dirs(Agent& agent, const PastChanges& changed) {
  return History(agent.store()).list_touched_dirs(changed);
}

}  // namespace warren
