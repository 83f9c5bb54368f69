#include "changes/apply/apply.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include <unistd.h>

#include <fmt/format.h>

#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "changes/apply/apply_record.h"
#include "changes/apply/intent.h"
#include "changes/apply/perform.h"
#include "changes/apply/permission.h"
#include "changes/apply/roll_back.h"
#include "changes/apply/staging.h"
#include "changes/compare.h"
#include "changes/conflicts.h"
#include "changes/undo/keep_parts.h"
#include "changes/undo/undo.h"
#include "changes/upper/drop_applied.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "store/overlay/apply_log.h"

namespace warren {
namespace {

// The end of an apply that was finished, completely rolled back, or never performed. What a finished one replaced is
// kept for undo; then nothing in the staging directory is needed. The record goes last; if something fails, it stays,
// and the next apply tries again. Returns why the apply cannot be undone, if it cannot.
Result<std::optional<std::string>> clean_up(Agent& agent, HostTree& base, const ApplyRecord& record) {
  std::optional<std::string> note;
  if (record.state == ApplyState::kPerformed) note = keep_for_undo(base, record, agent.store().clock().now().seconds);
  else forget_prepared(record);
  WARREN_TRY(Staging::remove(base, record).within("clean up after the apply"));
  WARREN_TRY(remove_record(record));
  return note;
}

// Rolls back what was performed. From now on, whatever could not be restored is kept.
Result<std::vector<LeftNode>> give_up(Agent& agent, HostTree& base, ApplyRecord& record) {
  WARREN_TRY(roll_back(base, record));
  forget_prepared(record);
  WARREN_TRY(remove_apply_intent(agent.store()));
  if (!keeps_nodes(record)) clean_up(agent, base, record).ignore("the next apply removes it");
  return record.left;
}

// After a failure during perform(): restores the base and returns the error.
Error undo_apply(Agent& agent, HostTree& base, ApplyRecord& record, const ApplyOptions& options, Error why) {
  Result<std::vector<LeftNode>> left = give_up(agent, base, record);
  if (!left.ok()) {
    return std::move(why).with_hint(
        fmt::format("undoing the apply failed too ({}); `warren apply --recover` tries again", left.error().message()));
  }
  if (left->empty()) return std::move(why).within(options.unwritten);
  return std::move(why).with_hint(fmt::format("the apply was undone, except {}", describe(*left)));
}

std::vector<std::string> paths_of(const std::vector<TreeChange>& changes) {
  std::vector<std::string> paths;
  for (const TreeChange& change : changes) paths.push_back(change.path);
  return paths;
}

// The audit trail has the paths from the moment on at which the base may change.
Status put_intent_on_record(Agent& agent, const std::vector<TreeChange>& changes, const ApplyRecord& record) {
  AuditLog* log = WARREN_TRY(agent.operators_audit());
  if (log == nullptr) return put_apply_intent(agent.store(), as_bytes(record.staging));
  std::vector<AuditEvent> events = operators_events(agent, "apply", paths_of(changes));
  for (AuditEvent& event : events) event.to = record.base + event.path;
  AuditLog::Scope scope(*log, std::move(events));
  return put_apply_intent(agent.store(), as_bytes(record.staging));
}

// An apply that was taken back, though the trail says that it began.
void note_failure(Agent& agent, const Error& why) {
  Result<AuditLog*> log = agent.operators_audit();
  if (!log.ok() || *log == nullptr) return;
  std::vector<AuditEvent> events = operators_events(agent, "apply", {"/"});
  events.front().ok = false;
  events.front().err = audit_error_name(why.code());
  (*log)->append(std::move(events)).ignore("the apply has failed already");
}

// What replaces work that the agent has not seen, because the user wants that, is in conflict again after an undo.
void mark_unseen(const std::vector<ApplyConflict>& conflicts, Intent& intent) {
  std::unordered_set<std::string_view> paths;
  std::unordered_set<std::string_view> deleted;  // something else may have the path of a deletion
  for (const ApplyConflict& conflict : conflicts) (conflict.is_deletion ? deleted : paths).insert(conflict.path);
  for (AppliedChange& change : intent.changes) {
    const auto& found = change.kind == TreeChangeKind::kDeleted ? deleted : paths;
    if (!change.is_merged && found.contains(change.path)) change.has_unseen = true;
  }
}

// No option of apply replaces what is there: it may lead out of the base.
Status check_not_blocked(const std::vector<ApplyConflict>& conflicts) {
  auto found = std::ranges::find_if(conflicts, &ApplyConflict::is_blocked);
  if (found == conflicts.end()) return Ok{};
  return Error(Code::kConflict, fmt::format("{}: {}", quote(found->path), found->why),
               "move that away, and apply again; or leave the change out by naming the others");
}

// What the agent had before a file was written with conflict markers.
Status keep_own(const AgentOverlay& overlay, const MergedContents& contents, Intent& intent) {
  for (AppliedChange& change : intent.changes) {
    auto content = contents.find(change.path);
    bool is_marked = content != contents.end() && content->second.has_markers && !change.is_partial;
    if (!is_marked) continue;
    FileSystem& upper = overlay.upper.fs();
    Attributes node = WARREN_TRY(upper.get_attributes(change.upper));
    change.own.emplace();
    change.own->content = WARREN_TRY(read_file(overlay.merged, change.path));
    change.own->ancestor = WARREN_TRY(overlay.upper.find_ancestor(change.upper));
    HostMetadata& metadata = change.own->metadata.emplace();
    metadata.mode = node.mode & 07777U;
    metadata.uid = node.owner.uid;
    metadata.gid = node.owner.gid;
    metadata.xattrs = WARREN_TRY(read_xattrs(upper, change.upper));
  }
  return Ok{};
}

// Stages everything and records the steps; nothing in the base has moved yet. Returns what was left out of `changes`:
// if that is all, nothing is recorded.
Result<std::vector<std::string>> prepare_apply(Agent& agent, HostTree& base, Stager& stager,
                                               std::vector<TreeChange>& changes, const ApplyOptions& options,
                                               ApplyRecord& record) {
  std::vector<ApplyConflict> conflicts;
  if (options.may_have_conflicts) conflicts = WARREN_TRY(find_conflicts(*agent.overlay(), changes));
  WARREN_TRY(check_not_blocked(conflicts));
  Staging staging = WARREN_TRY(Staging::make(base, record));
  std::vector<std::string> left_out;
  {
    auto view = WARREN_TRY(agent.overlay()->upper.begin(UnitAccess::kRead));  // one for all files
    left_out = WARREN_TRY(leave_out_vanished(*agent.overlay(), options.named, changes));
    if (changes.empty()) return left_out;
    record.intent = WARREN_TRY(Planner(base, stager, staging).plan(changes, options.contents));
    mark_unseen(conflicts, *record.intent);
    WARREN_TRY(keep_own(*agent.overlay(), options.contents, *record.intent));
  }
  WARREN_TRY(prepare_to_keep(base, record));
  WARREN_TRY(keep_parts_of_others(record, agent.store().clock()));
  WARREN_TRY(put_record(record));
  WARREN_TRY(put_intent_on_record(agent, changes, record));
  record.state = ApplyState::kPerforming;
  WARREN_TRY(put_record(record));
  return left_out;
}

Result<Recovery> recover_record(Agent& agent, const AgentOverlay& overlay, HostTree& base, ApplyRecord& record) {
  Recovery recovery;
  recovery.staging = record.staging;
  if (record.state == ApplyState::kRolledBack) {
    WARREN_TRY(remove_apply_intent(agent.store()));
    recovery.reason = "it had been undone already";
    recovery.left = record.left;
    if (!keeps_nodes(record)) WARREN_TRY(clean_up(agent, base, record));
    return recovery;
  }
  WARREN_TRY(Staging::check_mounted(base, record));
  Status done = Ok{};
  if (record.state == ApplyState::kRollingBack) {
    done = Error(Code::kConflict, "undoing it had begun");
  } else if (record.state != ApplyState::kPerformed) {
    record.state = ApplyState::kPerforming;
    WARREN_TRY(put_record(record));
    done = perform(base, record, Attempt::kAfterCrash);
  }
  if (done.ok()) {
    recovery.is_finished = true;
    recovery.changed_since = WARREN_TRY(drop_applied(agent, overlay, *record.intent));
    clean_up(agent, base, record).ignore("the next apply removes it");
  } else {
    recovery.reason = done.error().message();
    recovery.left = WARREN_TRY(give_up(agent, base, record));
  }
  return recovery;
}

}  // namespace

Result<std::vector<std::string>> leave_out_vanished(const AgentOverlay& overlay,
                                                    const std::unordered_set<std::string>& named,
                                                    std::vector<TreeChange>& changes) {
  TreeFinder upper(overlay.upper.fs());
  std::vector<std::string> left_out;
  std::vector<TreeChange> kept;
  for (TreeChange& change : changes) {
    bool is_same = true;
    if (change.kind == TreeChangeKind::kAdded) {
      std::optional<Attributes> now = WARREN_TRY(upper.find(change.path));
      is_same = now && (now->inode == change.after->inode || (now->is_directory() && change.after->is_directory()));
    }
    if (is_same) {
      kept.push_back(std::move(change));
    } else if (named.contains(change.path)) {
      return just_deleted_by_agent(change.path);
    } else {
      left_out.push_back(std::move(change.path));
    }
  }
  changes = std::move(kept);
  return left_out;
}

namespace {

// Everything up to the first step. Nothing is to be performed if no changes are left.
Result<std::vector<std::string>> begin_apply(Agent& agent, const AgentOverlay& overlay, HostTree& base, Stager& stager,
                                             std::vector<TreeChange>& changes, const ApplyOptions& options,
                                             ApplyRecord& record) {
  WARREN_TRY(base.lock());
  if (WARREN_TRY(is_interrupted(agent)))
    return Error(Code::kBusy, "an apply of this agent was interrupted", "`warren apply --recover` finishes it");
  WARREN_TRY(check_targets(overlay, changes));
  record = WARREN_TRY(new_record(agent.store(), overlay.base_path));
  record.undo = options.undo;
  record.label = options.label;
  WARREN_TRY(put_record(record));
  // From here on the base may get what the agent has now: programs that use it hide what they remove (OverlayFs).
  Status marked = put_apply_mark(agent.store());
  if (!marked.ok()) {
    remove_record(record).ignore("the next apply removes it");
    return std::move(marked).take_error();
  }
  Result<std::vector<std::string>> prepared = prepare_apply(agent, base, stager, changes, options, record);
  if (!prepared.ok() || changes.empty()) {
    remove_apply_intent(agent.store()).ignore("the next apply removes it");
    clean_up(agent, base, record).ignore("the next apply removes it");
  }
  return prepared;
}

}  // namespace

Result<ApplyReport> apply_changes(Agent& agent, std::vector<TreeChange>& changes, const ApplyOptions& options) {
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay) return Error(Code::kInvalid, "the agent has no base");
  auto base = WARREN_TRY(HostTree::open(overlay->base_path).within(options.unwritten));
  Stager stager(*overlay, *base, options.privileged);
  ApplyRecord record;
  ApplyReport report;
  report.left_out =
      WARREN_TRY(begin_apply(agent, *overlay, *base, stager, changes, options, record).within(options.unwritten));
  if (changes.empty()) return report;
  Status done = perform(*base, record, Attempt::kFirst);
  if (!done.ok()) {
    note_failure(agent, done.error());
    return undo_apply(agent, *base, record, options, std::move(done).take_error());
  }
  stager.forget_nodes();
  report.changed_since = WARREN_TRY(drop_applied(agent, *overlay, *record.intent));
  report.notes = stager.notes();
  Result<std::optional<std::string>> cleaned = clean_up(agent, *base, record);
  if (!cleaned.ok()) report.notes.push_back(cleaned.error().message());
  else if (*cleaned) report.notes.push_back(**cleaned);
  report.can_be_undone = cleaned.ok() && !*cleaned && options.undo.bytes_max > 0 && options.undo.seconds > 0;
  return report;
}

Status check_not_refused(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                         const ApplyOptions& options) {
  WARREN_TRY(check_targets(overlay, changes));
  if (!options.may_have_conflicts) return Ok{};
  std::vector<ApplyConflict> conflicts = WARREN_TRY(find_conflicts(overlay, changes));
  return check_not_blocked(conflicts);
}

Status rehearse_apply(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                      const ApplyOptions& options) {
  WARREN_TRY(check_not_refused(overlay, changes, options));
  auto base = WARREN_TRY(HostTree::open(overlay.base_path));
  Staging staging = WARREN_TRY(Staging::dry_run(*base));
  Stager stager(overlay, *base, options.privileged);
  return Planner(*base, stager, staging).rehearse(changes, options.contents);
}

Result<bool> is_interrupted(Agent& agent) {
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay) return false;
  if (WARREN_TRY(is_undo_interrupted(overlay->base_path))) return true;
  std::optional<std::string> name = WARREN_TRY(find_apply_intent(agent.store()));
  if (!name) return false;
  std::vector<ApplyRecord> records = WARREN_TRY(list_records(agent.store()));
  return std::any_of(records.begin(), records.end(),
                     [&](const ApplyRecord& record) { return record.staging == *name && record.intent; });
}

Result<bool> remove_dead_mark(Agent& agent) {
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay || agent.store().is_read_only()) return false;
  std::optional<std::string> name = WARREN_TRY(find_apply_intent(agent.store()));
  if (!name || !name->empty()) return false;
  auto base = WARREN_TRY(HostTree::open(overlay->base_path));
  WARREN_TRY(base->lock());
  if (WARREN_TRY(is_undo_interrupted(overlay->base_path))) return false;
  WARREN_TRY(remove_apply_mark(agent.store()));  // not an intent of an apply that came and was killed since
  return true;
}

Result<std::optional<Recovery>> recover_apply(Agent& agent) {
  std::optional<Recovery> recovery;
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay) return recovery;
  if (WARREN_TRY(list_records(agent.store())).empty() && !WARREN_TRY(find_apply_intent(agent.store()))) return recovery;
  // What is read before the lock may be about an apply that is running.
  auto base = WARREN_TRY(HostTree::open(overlay->base_path));
  WARREN_TRY(base->lock());
  std::vector<ApplyRecord> records = WARREN_TRY(list_records(agent.store()));
  std::optional<std::string> name = WARREN_TRY(find_apply_intent(agent.store()));
  for (ApplyRecord& record : records) {
    if (keeps_nodes(record) && name != record.staging) continue;
    std::string path = WARREN_TRY(path_of_record(record));
    if (record.base != overlay->base_path) {
      return Error(Code::kConflict,
                   fmt::format("an apply of {} to {} was interrupted, but the agent file now names the base {}",
                               quote(record.agent), quote(record.base), quote(overlay->base_path)),
                   fmt::format("if that was another agent, look at {} there, then remove {}", quote(record.staging),
                               quote(path)));
    }
    WARREN_TRY(check_same_base(record));
    bool is_this = record.intent && name == record.staging;
    if (is_this) {
      recovery = WARREN_TRY(recover_record(agent, *overlay, *base, record));
    } else if (is_over(record)) {
      WARREN_TRY(clean_up(agent, *base, record));
    } else {
      return Error(Code::kConflict,
                   fmt::format("an apply to {} was interrupted, and this agent file does not know of it: it was "
                               "replaced, or is another agent",
                               quote(record.base)),
                   fmt::format("what the apply replaced is in {} in the base; when you have restored what you need, "
                               "remove that directory and {}",
                               quote(record.staging), quote(path)));
    }
  }
  // An intent that no record of ours confirms: of another machine, or forged. It is only dropped.
  if (name && !recovery) WARREN_TRY(remove_apply_intent(agent.store()));
  return recovery;
}

namespace {

// Before anything is removed for them. Without its key, for example, an encrypted file cannot be read.
Status check_readable(const AgentOverlay& overlay, const std::vector<TreeChange>& changes) {
  for (const TreeChange& change : changes) {
    if (!change.after || !change.after->is_file() || change.after->size == 0) continue;
    Attributes node = WARREN_TRY(resolve(overlay.merged, change.path, Follow::kNo));
    std::byte first{};
    Result<std::size_t> read = overlay.merged.read(node.inode, 0, {&first, 1});
    if (read.ok()) continue;
    bool is_lost = read.error().code() == Code::kIo;
    Error why = std::move(read).take_error().within(fmt::format("nothing was written: read {}", quote(change.path)));
    return is_lost ? std::move(why).with_hint("`--exclude` leaves it out, and writes the rest") : why;
  }
  return Ok{};
}

Status write_change_to(HostTree& target, Stager& stager, const TreeChange& change) {
  if (!change.after || change.path == "/") return Ok{};
  std::string above(split_parent(change.path).parent);
  for (std::size_t end = above.find('/', 1); above != "/"; end = above.find('/', end + 1)) {
    std::string part = above.substr(0, end);
    std::optional<struct stat> there = WARREN_TRY(target.find(part));
    if (!there) WARREN_TRY(target.make_dir(part, 0755));
    if (end == above.npos) break;
  }
  std::optional<struct stat> there = WARREN_TRY(target.find(change.path));
  bool is_dir = change.after->is_directory();
  bool merges = is_dir && there && S_ISDIR(there->st_mode);
  if (there && !merges) WARREN_TRY(target.remove_tree(change.path));
  if (is_dir && change.kind == TreeChangeKind::kRenamed) {
    WARREN_TRY(target.remove_tree(change.path));
    WARREN_TRY(stager.write_tree(change.path, change.path));
  } else if (merges) {
    HostMetadata metadata = WARREN_TRY(stager.metadata_of(change));
    WARREN_TRY(target.set_metadata(change.path, metadata));
  } else {
    WARREN_TRY(stager.write(change, change.path));
  }
  return Ok{};
}

}  // namespace

Result<std::vector<std::string>> write_changes_to(const AgentOverlay& overlay, std::vector<TreeChange>& changes,
                                                  const std::string& dir, PrivilegedPaths privileged) {
  auto view = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));  // one for all files
  std::vector<std::string> left_out = WARREN_TRY(leave_out_vanished(overlay, {}, changes));
  WARREN_TRY(check_readable(overlay, changes));
  WARREN_TRY(make_host_dirs(dir, 0755));
  auto target = WARREN_TRY(HostTree::open(dir));
  Stager stager(overlay, *target, std::move(privileged));
  for (const TreeChange& change : changes) {
    bool leaves = change.kind == TreeChangeKind::kDeleted || change.kind == TreeChangeKind::kRenamed;
    if (leaves) WARREN_TRY(target->remove_tree(change.base_path));
  }
  for (const TreeChange& change : changes) {
    WARREN_TRY(write_change_to(*target, stager, change));
  }
  WARREN_TRY(stager.finish_dirs());
  std::vector<std::string> notes = stager.notes();
  for (const std::string& path : left_out) {
    notes.push_back(fmt::format("{}: left out, since the agent removed or replaced it meanwhile", quote(path)));
  }
  return notes;
}

}  // namespace warren
