#include "changes/undo/undo.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/path.h"
#include "changes/apply/perform.h"
#include "changes/apply/roll_back.h"
#include "changes/apply/staging.h"
#include "changes/apply/step_tree.h"
#include "changes/undo/inverse.h"
#include "changes/undo/keep_parts.h"
#include "changes/undo/undone_changes.h"
#include "os/files/copy_tree.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr const char* kRecordFile = "record";
constexpr const char* kPreparedFile = "prepared";  // the record, until all old nodes are there
constexpr std::size_t kKeptRecordBytesMax = std::size_t{4} << 30;

Result<std::string> kept_root() {
  std::string home = WARREN_TRY(agents_home());
  return home + "/undo";
}

Result<std::string> kept_dir(const std::string& staging) {
  std::string root = WARREN_TRY(kept_root());
  return fmt::format("{}/{}", root, staging.substr(kStagingPrefix.size()));
}

// What the steps replace or remove.
struct OldNode {
  std::string before;      // where it is before the first step
  std::uint64_t slot = 0;  // and after the last one
};

std::vector<OldNode> list_old(HostTree& base, const Intent& intent) {
  StepTree tree(base, intent);
  std::vector<OldNode> old;
  for (const Step& step : intent.steps) {
    bool is_removed = step.kind == StepKind::kTakeOut && tree.find_put_in(step.slot) == nullptr;
    if (is_removed) old.push_back({step.path, step.slot});
    if (step.kind == StepKind::kReplace) old.push_back({tree.places_of(step.path).back(), step.backup});
    if (step.kind == StepKind::kOverwrite) old.push_back({tree.slot(step.backup), step.backup});
  }
  return old;
}

Result<std::optional<KeptApply>> read_kept(const std::string& dir) {
  Result<std::string> bytes = read_host_file(fmt::format("{}/{}", dir, kRecordFile), kKeptRecordBytesMax);
  if (!bytes.ok()) return std::optional<KeptApply>();  // being written, or left by a crash
  Result<ApplyRecord> record = decode_record(*bytes);
  if (!record.ok() || !record->intent) return std::optional<KeptApply>();
  auto tree = WARREN_TRY(HostTree::open(dir));
  TreeSize size = WARREN_TRY(measure_tree(*tree, "/"));
  return std::optional(KeptApply{.record = std::move(record).take_value(), .dir = dir, .bytes = size.bytes});
}

Status remove_kept(const std::string& dir) {
  remove_host_file(fmt::format("{}/{}", dir, kRecordFile)).ignore("the directory is removed next");
  std::string root = WARREN_TRY(kept_root());
  auto tree = WARREN_TRY(HostTree::open(root));
  return tree->remove_tree("/" + std::string(base_name(dir)));
}

// Removes what is too old, then the oldest until the rest and `added` fit.
Status prune(std::uint64_t added, std::uint64_t bytes_max, std::int64_t now) {
  std::vector<KeptApply> all = WARREN_TRY(list_kept());
  std::uint64_t total = added;
  for (const KeptApply& kept : all) {
    total += kept.bytes;
    if (kept.ends_at() < now || total > bytes_max) WARREN_TRY(remove_kept(kept.dir));
  }
  return Ok{};
}

// Moves one node out of the staging directory. Copies it if that is impossible, or if a file in it has other names:
// what is written under those must not change what is kept.
Status keep_slot(HostTree& base, const std::string& from, HostTree& kept, const std::string& to) {
  if (WARREN_TRY(kept.find(to))) return Ok{};
  if (!WARREN_TRY(base.find(from))) return Ok{};  // nothing was there: the step was undone, or there is nothing to keep
  TreeSize size = WARREN_TRY(measure_tree(base, from));
  if (!size.has_hard_links) {
    Status moved = move_between(base, from, kept, to);
    if (moved.ok() || moved.error().code() != Code::kCrossDevice) return moved;
  }
  std::string draft = to + ".new";
  WARREN_TRY(kept.remove_tree(draft));
  WARREN_TRY(copy_tree(base, from, kept, draft));
  WARREN_TRY(kept.sync_all());
  return kept.rename(draft, to, HostReplace::kNo);
}

bool keeps_nothing(const UndoLimits& limits) { return limits.bytes_max == 0 || limits.seconds == 0; }

Status prepare_in(HostTree& base, const ApplyRecord& record, const std::string& dir) {
  std::unordered_set<std::string> leaving;  // each on its own
  for (const Step& step : record.intent->steps) {
    if (step.kind == StepKind::kTakeOut) leaving.insert(step.path);
  }
  struct Sized {
    OldNode node;
    bool has_hard_links = false;
  };
  std::vector<Sized> all;
  std::uint64_t bytes = 0;
  for (OldNode& old : list_old(base, *record.intent)) {
    if (!WARREN_TRY(base.find(old.before))) continue;  // somebody has just removed it: its step will say so
    TreeSize size = WARREN_TRY(measure_tree(base, old.before, leaving));
    bytes += size.bytes;
    all.push_back({std::move(old), size.has_hard_links});
  }
  if (bytes > record.undo.bytes_max) return Ok{};  // prepare_late says so
  WARREN_TRY(make_host_dirs(dir, 0700));
  auto kept = WARREN_TRY(HostTree::open(dir));
  std::unordered_map<std::string, bool> movable;  // by staging directory
  bool has_copied = false;
  for (const Sized& old : all) {
    std::string slot = slot_path(*record.intent, old.node.slot);
    auto [from, is_new] = movable.try_emplace(std::string(split_parent(slot).parent), true);
    if (is_new) from->second = WARREN_TRY(can_move_between(base, from->first, *kept));
    if (from->second && !old.has_hard_links) continue;
    has_copied = true;
    WARREN_TRY(copy_tree(base, old.node.before, *kept, kept_slot_path(old.node.slot), leaving));
  }
  WARREN_TRY(replace_host_file(fmt::format("{}/{}", dir, kPreparedFile), encode(record), 0600));
  return has_copied ? kept->sync_all() : kept->sync_dir("/");
}

// After the steps of an apply for which nothing is prepared: what it replaced was too much, or the version of Warren
// that began it did not prepare anything.
Status prepare_late(HostTree& base, const ApplyRecord& record, const std::string& dir) {
  std::uint64_t bytes = 0;
  for (const OldNode& old : list_old(base, *record.intent)) {
    std::string slot = slot_path(*record.intent, old.slot);
    if (!WARREN_TRY(base.find(slot))) continue;
    TreeSize size = WARREN_TRY(measure_tree(base, slot));
    bytes += size.bytes;
  }
  if (bytes > record.undo.bytes_max) return Error(Code::kTooLarge, "it is more than --undo-size allows");
  WARREN_TRY(make_host_dirs(dir, 0700));
  return replace_host_file(fmt::format("{}/{}", dir, kPreparedFile), encode(record), 0600);
}

// Moves the old nodes to this directory, and then gives the record its name.
Status finish_keeping(HostTree& base, const ApplyRecord& record, const std::string& dir, std::int64_t now) {
  std::string prepared = fmt::format("{}/{}", dir, kPreparedFile);
  std::string finished = fmt::format("{}/{}", dir, kRecordFile);
  if (WARREN_TRY(find_host_file(finished))) return Ok{};  // killed afterwards
  if (!WARREN_TRY(find_host_file(prepared))) WARREN_TRY(prepare_late(base, record, dir));
  auto kept = WARREN_TRY(HostTree::open(dir));
  for (const OldNode& old : list_old(base, *record.intent)) {
    WARREN_TRY(keep_slot(base, slot_path(*record.intent, old.slot), *kept, kept_slot_path(old.slot)));
  }
  WARREN_TRY(kept->sync_dir("/"));
  TreeSize whole = WARREN_TRY(measure_tree(*kept, "/"));
  prune(whole.bytes, record.undo.bytes_max, now).ignore("the next apply tries again");
  WARREN_TRY(kept->rename(fmt::format("/{}", kPreparedFile), fmt::format("/{}", kRecordFile), HostReplace::kYes));
  return sync_host_dir(dir);
}

// Device numbers may be others after a reboot.
void follow_device(Intent& intent, std::uint64_t before, std::uint64_t now) {
  for (Step& step : intent.steps) {
    for (HostNode* node : {&step.old_node, &step.new_node}) {
      if (node->device == before) node->device = now;
    }
  }
}

// Before the first step. An agent that cannot be opened may have what only the base has, and may need what it would get
// after the last step.
Status prepare_agent(const ApplyRecord& record, Clock& clock) {
  Status kept = keep_parts(record, clock);
  if (kept.ok()) kept = mark_undo(record, clock);
  if (kept.ok()) return kept;
  Error why = std::move(kept).take_error();
  std::string hint = why.hint();
  if (hint.empty())
    hint = fmt::format("the undo also updates the agent {}; if that is not needed, move its file away",
                       quote(record.agent));
  return std::move(why).within("nothing was undone").with_hint(hint);
}

// After the last step. The record stays if the agent cannot be updated: it may be the only place that has its version.
Result<std::vector<std::string>> report_to_agent(const ApplyRecord& record, Clock& clock) {
  Result<std::vector<std::string>> notes = report_undo(record, clock);
  if (notes.ok()) return notes;
  return std::move(notes)
      .take_error()
      .within(fmt::format("{} is as before the apply, but the agent {} is not updated", quote(record.base),
                          quote(record.agent)))
      .with_hint("`warren undo` tries that again; if the agent is not needed, move its file away");
}

// After all steps: keeps what was replaced, forgets what was undone, and updates the agent. The record goes last:
// whoever finds it calls this again, and each part that is done already changes nothing. Returns notes for the user.
Result<std::vector<std::string>> finish_undo(HostTree& base, const ApplyRecord& record, Clock& clock) {
  std::string undone = WARREN_TRY(kept_dir(record.undoes));
  WARREN_TRY(remove_kept(undone));
  std::optional<std::string> not_kept = keep_for_undo(base, record, clock.now().seconds);
  WARREN_TRY(Staging::remove(base, record).within("clean up after the undo"));
  std::vector<std::string> notes = WARREN_TRY(report_to_agent(record, clock));
  if (not_kept) notes.insert(notes.begin(), *std::move(not_kept));
  WARREN_TRY(remove_record(record));
  return notes;
}

// After an error: restores what was done so far. Returns what could not be restored. Until then a session in use does
// not follow the base: it would take over versions that go again.
Result<std::vector<LeftNode>> give_up_undo(HostTree& base, ApplyRecord& record, Clock& clock) {
  WARREN_TRY(roll_back(base, record));
  unmark_undo(record, clock);
  forget_prepared(record);
  if (!keeps_nodes(record)) {
    WARREN_TRY(Staging::remove(base, record));
    WARREN_TRY(remove_record(record));
  }
  return record.left;
}

// The base is locked. Returns nothing if the undo had not begun to write.
Result<std::optional<UndoRecovery>> recover_undo(HostTree& base, ApplyRecord& record, Clock& clock) {
  UndoRecovery recovery{.record = record, .is_finished = true};
  bool is_begun = is_under_way(record) || record.state == ApplyState::kPerformed;
  if (is_begun) WARREN_TRY(Staging::check_mounted(base, record));
  if (is_under_way(record)) {
    Status done = Error(Code::kConflict, "taking it back had begun");
    if (record.state != ApplyState::kRollingBack) {
      mark_undo(record, clock).ignore("it was put before the first step");
      done = perform(base, record, Attempt::kAfterCrash);
    }
    if (!done.ok()) {
      recovery.left = WARREN_TRY(give_up_undo(base, record, clock));
      recovery.is_finished = false;
      recovery.reason = done.error().message();
      return std::optional(std::move(recovery));
    }
  }
  if (record.state == ApplyState::kPerformed) {
    recovery.notes = WARREN_TRY(finish_undo(base, record, clock));
    return std::optional(std::move(recovery));
  }
  unmark_undo(record, clock);
  forget_prepared(record);
  WARREN_TRY(Staging::remove(base, record));
  WARREN_TRY(remove_record(record));
  return std::optional<UndoRecovery>();
}

// What was read before the base is locked may be about an undo that has ended meanwhile.
Result<std::optional<UndoRecovery>> lock_and_recover(const ApplyRecord& seen, Clock& clock) {
  WARREN_TRY(check_same_base(seen));
  auto base = WARREN_TRY(HostTree::open(seen.base));
  WARREN_TRY(base->lock());
  std::vector<ApplyRecord> records = WARREN_TRY(list_all_records());
  auto now = std::find_if(records.begin(), records.end(),
                          [&](const ApplyRecord& record) { return record.staging == seen.staging; });
  if (now == records.end() || keeps_nodes(*now)) return std::optional<UndoRecovery>();
  return recover_undo(*base, *now, clock);
}

}  // namespace

Result<std::vector<KeptApply>> list_kept() {
  std::vector<KeptApply> all;
  std::string root = WARREN_TRY(kept_root());
  if (!WARREN_TRY(find_host_file(root))) return all;
  Fd dir = WARREN_TRY(open_host_dir(root));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  for (const HostEntry& entry : entries) {
    if (!S_ISDIR(entry.attributes.st_mode)) continue;
    std::optional<KeptApply> kept = WARREN_TRY(read_kept(fmt::format("{}/{}", root, entry.name)));
    if (kept && kept->name() == entry.name) all.push_back(*std::move(kept));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const KeptApply& a, const KeptApply& b) { return a.record.started_us > b.record.started_us; });
  return all;
}

Status prepare_to_keep(HostTree& base, const ApplyRecord& record) {
  if (keeps_nothing(record.undo)) return Ok{};
  std::string root = WARREN_TRY(kept_root());
  Status done = prepare_in(base, record, WARREN_TRY(kept_dir(record.staging)));
  if (done.ok()) return done;
  Error why = std::move(done).take_error();
  bool is_full = why.code() == Code::kNoSpace;
  return std::move(why)
      .within(fmt::format("keep in {} what would be replaced", quote(root)))
      .with_hint(fmt::format("{}`--undo-size 0` goes on without: it could not be undone then",
                             is_full ? "free space there; or " : ""));
}

void forget_prepared(const ApplyRecord& record) {
  Result<std::string> dir = kept_dir(record.staging);
  if (dir.ok()) remove_kept(*dir).ignore("without a record it is nothing but copies");
}

std::optional<std::string> keep_for_undo(HostTree& base, const ApplyRecord& record, std::int64_t now) {
  if (keeps_nothing(record.undo)) return std::nullopt;
  Result<std::string> dir = kept_dir(record.staging);
  Status done = dir.ok() ? finish_keeping(base, record, *dir, now) : Status(std::move(dir).take_error());
  if (done.ok()) return std::nullopt;
  forget_prepared(record);
  return fmt::format("what was replaced could not be kept, so this cannot be undone: {}", done.error().message());
}

Result<Undone> undo(const KeptApply& kept, Clock& clock) {
  WARREN_TRY(check_same_base(kept.record));
  auto base = WARREN_TRY(HostTree::open(kept.record.base));
  WARREN_TRY(base->lock());
  if (WARREN_TRY(is_undo_interrupted(kept.record.base))) {
    return Error(Code::kBusy, fmt::format("another undo in {} was interrupted", quote(kept.record.base)),
                 "`warren undo --list` finishes it, or says why it cannot");
  }
  auto nodes = WARREN_TRY(HostTree::open(kept.dir));
  ApplyRecord record = kept.record;
  record.kind = RecordKind::kUndo;
  record.staging = new_staging_name();
  record.undoes = kept.record.staging;
  record.started_us = clock.now_us();
  record.state = ApplyState::kStaged;
  record.intent.reset();
  record.base_node = WARREN_TRY(identify_host_node(record.base));
  WARREN_TRY(put_record(record));
  Intent applied = *kept.record.intent;
  follow_device(applied, kept.record.base_node.device, record.base_node.device);
  auto prepare = [&]() -> Result<Undone> {
    Staging staging = WARREN_TRY(Staging::make(*base, record));
    Inverse inverse = WARREN_TRY(build_inverse(*base, *nodes, applied, staging));
    Undone undone;
    undone.conflicts = std::move(inverse.conflicts);
    record.intent = std::move(inverse.intent);
    for (const Step& step : kept.record.intent->steps) undone.paths.push_back(step.path);
    if (!undone.conflicts.empty()) return undone;
    WARREN_TRY(sync_all(*base, *record.intent));
    WARREN_TRY(prepare_to_keep(*base, record).within("nothing was written"));
    WARREN_TRY(prepare_agent(record, clock));
    record.state = ApplyState::kPerforming;
    WARREN_TRY(put_record(record));
    return undone;
  };
  Result<Undone> prepared = prepare();
  if (!prepared.ok() || !prepared->conflicts.empty()) {
    unmark_undo(record, clock);
    forget_prepared(record);
    Status cleaned = Staging::remove(*base, record);
    if (cleaned.ok()) remove_record(record).ignore("the next undo removes it");
    return prepared;
  }
  Status done = perform(*base, record, Attempt::kFirst);
  if (!done.ok()) {
    Error why = std::move(done).take_error();
    Result<std::vector<LeftNode>> left = give_up_undo(*base, record, clock);
    if (!left.ok()) {
      return std::move(why).with_hint(
          fmt::format("taking it back failed too ({}); `warren undo --list` tries again", left.error().message()));
    }
    if (left->empty()) return why;
    return std::move(why).with_hint(fmt::format("the undo was taken back, except {}", describe(*left)));
  }
  prepared->notes = WARREN_TRY(finish_undo(*base, record, clock));
  return prepared;
}

Result<bool> is_undo_interrupted(const std::string& base) {
  std::vector<ApplyRecord> records = WARREN_TRY(list_all_records());
  return std::any_of(records.begin(), records.end(), [&](const ApplyRecord& record) {
    bool is_unfinished = is_under_way(record) || record.state == ApplyState::kPerformed;
    return record.kind == RecordKind::kUndo && record.base == base && is_unfinished;
  });
}

Result<std::vector<UndoRecovery>> recover_undos(const UndoChoice& which, Clock& clock) {
  std::vector<UndoRecovery> all;
  std::vector<ApplyRecord> records = WARREN_TRY(list_all_records());
  for (const ApplyRecord& record : records) {
    bool is_chosen = record.kind == RecordKind::kUndo && !keeps_nodes(record) && which(record);
    if (!is_chosen) continue;
    Result<std::optional<UndoRecovery>> recovery = lock_and_recover(record, clock).within("finish an interrupted undo");
    if (!recovery.ok()) all.push_back({.record = record, .failure = std::move(recovery).take_error()});
    else if (*recovery) all.push_back(*std::move(*recovery));
  }
  return all;
}

}  // namespace warren
