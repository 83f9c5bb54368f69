#include "changes/undo.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/path.h"
#include "changes/perform.h"
#include "changes/roll_back.h"
#include "changes/staging.h"
#include "changes/step_tree.h"
#include "os/copy_tree.h"
#include "os/error.h"
#include "os/host_files.h"

namespace warren {
namespace {

constexpr const char* kRecordFile = "record";
constexpr std::size_t kKeptRecordBytesMax = std::size_t{4} << 30;

Result<std::string> kept_root() {
  std::string home = WARREN_TRY(agents_home());
  return home + "/undo";
}

Result<std::string> kept_dir(const std::string& staging) {
  std::string root = WARREN_TRY(kept_root());
  return fmt::format("{}/{}", root, staging.substr(kStagingPrefix.size()));
}

std::string name_of_slot(std::uint64_t slot) { return fmt::format("/{}", slot); }

// The slots that hold what the steps replaced or removed.
std::vector<std::uint64_t> old_slots(const Intent& intent) {
  std::set<std::uint64_t> put_in;
  for (const Step& step : intent.steps) {
    if (step.kind == StepKind::kPutIn) put_in.insert(step.slot);
  }
  std::vector<std::uint64_t> slots;
  for (const Step& step : intent.steps) {
    if (step.kind == StepKind::kTakeOut && !put_in.contains(step.slot)) slots.push_back(step.slot);
    if (step.kind == StepKind::kReplace || step.kind == StepKind::kOverwrite) slots.push_back(step.backup);
  }
  return slots;
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

// Moves or copies the old nodes to this directory, and then stores the record there.
Status keep_nodes(HostTree& base, const ApplyRecord& record, const std::string& dir, std::int64_t now) {
  std::vector<std::uint64_t> slots = old_slots(*record.intent);
  WARREN_TRY(make_host_dirs(dir, 0700));
  auto kept = WARREN_TRY(HostTree::open(dir));
  TreeSize whole = WARREN_TRY(measure_tree(*kept, "/"));
  for (std::uint64_t slot : slots) {
    std::string from = slot_path(*record.intent, slot);
    if (!WARREN_TRY(base.find(from))) continue;
    TreeSize old = WARREN_TRY(measure_tree(base, from));
    whole.bytes += old.bytes;
  }
  WARREN_TRY(prune(whole.bytes, record.undo.bytes_max, now));
  if (whole.bytes > record.undo.bytes_max)
    return Error(Code::kTooLarge, fmt::format("it has {} bytes, more than --undo-size allows", whole.bytes));
  for (std::uint64_t slot : slots) {
    WARREN_TRY(keep_slot(base, slot_path(*record.intent, slot), *kept, name_of_slot(slot)));
  }
  WARREN_TRY(slots.size() > 32 ? kept->sync_all() : kept->sync_dir("/"));
  WARREN_TRY(replace_host_file(fmt::format("{}/{}", dir, kRecordFile), encode(record), 0600));
  return sync_host_dir(dir);
}

// Builds the inverse of a kept apply. Paths of its steps are those after the step or, where a node leaves, before it;
// so nodes below a directory that was renamed are addressed by the old name, and the usual order of steps holds.
class Inverse {
 public:
  Inverse(HostTree& base, HostTree& kept, const Intent& done, Staging& staging)
      : base_(base), kept_(kept), done_(done), staging_(staging) {
    intent_.staging = staging.name();
    std::map<std::uint64_t, std::string> taken;  // slot → where the node was
    for (const Step& step : done.steps) {
      if (step.kind == StepKind::kTakeOut) taken.emplace(step.slot, step.path);
    }
    for (const Step& step : done.steps) {
      if (step.kind == StepKind::kSetMetadata || step.kind == StepKind::kOverwrite) in_place_.emplace(step.path, &step);
      if (step.kind != StepKind::kPutIn) continue;
      put_paths_.insert(step.path);
      auto from = taken.find(step.slot);
      if (from == taken.end()) continue;
      renamed_slots_.insert(step.slot);
      old_paths_.emplace(step.path, from->second);
    }
  }

  Status build() {
    for (const Step& step : done_.steps) {
      if (step.kind == StepKind::kPutIn) WARREN_TRY(add_leaving(step));
    }
    for (const Step& step : done_.steps) WARREN_TRY(add(step));
    sort_steps(intent_.steps);
    return Ok{};
  }

  Intent take_intent() { return std::move(intent_); }

  // By path, one for each.
  std::vector<ApplyConflict> list_conflicts() const {
    std::vector<ApplyConflict> list;
    for (const auto& [path, why] : conflicts_) list.push_back({path, why});
    return list;
  }

 private:
  Status add(const Step& step) {
    switch (step.kind) {
      case StepKind::kTakeOut: return add_returning(step);
      case StepKind::kPutIn: return Ok{};  // add_leaving
      case StepKind::kReplace: return add_replace(step);
      case StepKind::kSetMetadata: return add_metadata(step);
      case StepKind::kOverwrite: return add_overwrite(step);
    }
    return Error(Code::kCorrupt, "an unknown step");
  }

  void conflict(const std::string& path, std::string_view why) { conflicts_.emplace(path, why); }

  // Where a node will be once every renamed one is back.
  std::string old_path(const std::string& path) const {
    for (std::string_view at = path; at != "/"; at = split_parent(at).parent) {
      auto renamed = old_paths_.find(std::string(at));
      if (renamed != old_paths_.end()) return renamed->second + path.substr(at.size());
    }
    return path;
  }

  // The file that the apply left at this path: the same type, size, time and content. Not the same inode, because an
  // undo restores copies.
  Result<std::optional<struct stat>> find_unchanged(const Step& step, const HostNode& node) {
    const std::string& path = step.path;
    std::optional<struct stat> there = WARREN_TRY(base_.find(path));
    if (!there) return there;
    HostNode now = HostNode::of(*there);
    HostNode expected = node;
    auto in_place = in_place_.find(path);
    if (in_place != in_place_.end() && node.type != S_IFDIR) {
      expected.mtime = in_place->second->after.mtime;
      if (in_place->second->kind == StepKind::kOverwrite) expected.size = in_place->second->new_node.size;
    }
    bool is_same = now.type == expected.type && now.size == expected.size && now.mtime == expected.mtime;
    if (is_same && step.content != 0) {
      std::uint64_t content = WARREN_TRY(fingerprint_step(base_, step.kind, path, put_paths_));
      is_same = content == step.content;
    }
    return is_same ? there : std::optional<struct stat>();
  }

  // A slot on the mount of the nearest directory that exists now.
  Result<std::uint64_t> new_slot(const std::string& path) {
    std::string dir(split_parent(path).parent);
    while (dir != "/" && !WARREN_TRY(base_.find(dir))) dir = std::string(split_parent(dir).parent);
    std::uint64_t slot = WARREN_TRY(staging_.new_slot(dir));
    intent_.tops = staging_.tops();
    return slot;
  }

  // Copies a kept node to a slot of the base.
  Status stage(std::uint64_t kept_slot, Step& back) {
    std::string at = slot_path(intent_, back.slot);
    WARREN_TRY(copy_tree(kept_, name_of_slot(kept_slot), base_, at));
    struct stat info = WARREN_TRY(base_.get(at));
    back.new_node = HostNode::of(info);
    back.content = WARREN_TRY(fingerprint_step(base_, back.kind, at));
    return Ok{};
  }

  // A node that the apply put at a path leaves it; it must be unchanged.
  Status add_leaving(const Step& step) {
    std::optional<struct stat> there = WARREN_TRY(find_unchanged(step, step.new_node));
    Step out{.kind = StepKind::kTakeOut, .path = step.path};
    out.slot = WARREN_TRY(new_slot(step.path));
    if (there) out.old_node = HostNode::of(*there);
    if (there && step.tree != 0) {
      HostTree::TreeDigest now = WARREN_TRY(base_.digest_tree(step.path, put_paths_));
      if (now.value != step.tree) there.reset();
      out.tree = now.value;
    }
    if (!there) conflict(step.path, "it was changed since the apply");
    if (renamed_slots_.contains(step.slot)) moved_.emplace(step.slot, std::pair(out.slot, out.old_node));
    intent_.steps.push_back(std::move(out));
    return Ok{};
  }

  // A node that the apply moved or removed returns; nobody else may have taken its name.
  Status add_returning(const Step& step) {
    Step back{.kind = StepKind::kPutIn, .path = step.path};
    if (renamed_slots_.contains(step.slot)) {
      std::tie(back.slot, back.new_node) = moved_.at(step.slot);
    } else {
      back.slot = WARREN_TRY(new_slot(step.path));
      WARREN_TRY(stage(step.slot, back));
      if (step.tree != 0) {
        HostTree::TreeDigest staged = WARREN_TRY(base_.digest_tree(slot_path(intent_, back.slot)));
        back.tree = staged.value;
      }
    }
    bool is_taken = !put_paths_.contains(step.path) && WARREN_TRY(base_.find(step.path));
    if (is_taken) conflict(step.path, "something else is there now");
    intent_.steps.push_back(std::move(back));
    return Ok{};
  }

  Status add_replace(const Step& step) {
    std::optional<struct stat> there = WARREN_TRY(find_unchanged(step, step.new_node));
    if (!there) conflict(step.path, "it was changed since the apply");
    Step back{.kind = StepKind::kReplace, .path = old_path(step.path)};
    back.slot = WARREN_TRY(new_slot(step.path));
    back.backup = WARREN_TRY(new_slot(step.path));
    if (there) back.old_node = HostNode::of(*there);
    WARREN_TRY(stage(step.backup, back));
    intent_.steps.push_back(std::move(back));
    return Ok{};
  }

  Status add_metadata(const Step& step) {
    Step back{.kind = StepKind::kSetMetadata, .path = old_path(step.path)};
    std::optional<struct stat> there = WARREN_TRY(find_unchanged(step, step.old_node));
    bool is_same = there && (there->st_mode & 07777U) == step.after.mode;
    if (!is_same) {
      conflict(step.path, "it was changed since the apply");
      return Ok{};
    }
    back.old_node = HostNode::of(*there);
    back.before = WARREN_TRY(base_.get_metadata(step.path));
    back.after = step.before;
    if (S_ISDIR(there->st_mode)) back.after.mtime = back.before.mtime;  // others may have changed its content
    intent_.steps.push_back(std::move(back));
    return Ok{};
  }

  Status add_overwrite(const Step& step) {
    std::optional<struct stat> there = WARREN_TRY(find_unchanged(step, step.old_node));
    if (!there) {
      conflict(step.path, "it was changed since the apply");
      return Ok{};
    }
    WARREN_TRY(base_.check_overwritable(step.path));
    Step back{.kind = StepKind::kOverwrite, .path = old_path(step.path)};
    back.slot = WARREN_TRY(new_slot(step.path));
    back.backup = WARREN_TRY(new_slot(step.path));
    WARREN_TRY(stage(step.backup, back));
    back.old_node = HostNode::of(*there);
    back.before = WARREN_TRY(base_.get_metadata(step.path));
    back.after = step.before;
    Fd from = WARREN_TRY(base_.open_file(step.path, O_RDONLY));
    Fd to = WARREN_TRY(base_.create_file(slot_path(intent_, back.backup)));
    WARREN_TRY(copy_host_content(from.get(), to.get()).within(quote(step.path)));
    intent_.steps.push_back(std::move(back));
    return Ok{};
  }

  HostTree& base_;
  HostTree& kept_;
  const Intent& done_;
  Staging& staging_;
  Intent intent_;
  std::map<std::string, std::string> conflicts_;                       // path → why
  std::set<std::uint64_t> renamed_slots_;                              // slots of nodes that left one name for another
  std::unordered_map<std::string, std::string> old_paths_;             // of renamed nodes: new path → old path
  std::map<std::uint64_t, std::pair<std::uint64_t, HostNode>> moved_;  // their slots → slots of the undo
  std::unordered_set<std::string> put_paths_;                          // names that the apply gave to nodes
  std::unordered_map<std::string, const Step*> in_place_;              // nodes that it changed in place
};

// Device numbers may be others after a reboot.
void follow_device(Intent& intent, std::uint64_t before, std::uint64_t now) {
  for (Step& step : intent.steps) {
    for (HostNode* node : {&step.old_node, &step.new_node}) {
      if (node->device == before) node->device = now;
    }
  }
}

// After all steps: keeps what was replaced, and forgets what was undone. Returns why this undo cannot be undone, if it
// cannot.
Result<std::optional<std::string>> finish_undo(HostTree& base, const ApplyRecord& record, std::int64_t now) {
  std::string undone = WARREN_TRY(kept_dir(record.undoes));
  WARREN_TRY(remove_kept(undone));
  std::optional<std::string> note = keep_for_undo(base, record, now);
  WARREN_TRY(Staging::remove(base, record).within("clean up after the undo"));
  WARREN_TRY(remove_record(record));
  return note;
}

// After an error: restores what was done so far. Returns what could not be restored.
Result<std::vector<LeftNode>> give_up_undo(HostTree& base, ApplyRecord& record) {
  WARREN_TRY(roll_back(base, record));
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
    if (record.state != ApplyState::kRollingBack) done = perform(base, record, Attempt::kAfterCrash);
    if (!done.ok()) {
      recovery.left = WARREN_TRY(give_up_undo(base, record));
      recovery.is_finished = false;
      recovery.reason = done.error().message();
      return std::optional(std::move(recovery));
    }
  }
  if (record.state == ApplyState::kPerformed) {
    recovery.note = WARREN_TRY(finish_undo(base, record, clock.now().seconds));
    return std::optional(std::move(recovery));
  }
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

std::optional<std::string> keep_for_undo(HostTree& base, const ApplyRecord& record, std::int64_t now) {
  if (record.undo.bytes_max == 0 || record.undo.seconds == 0) return std::nullopt;
  Result<std::string> dir = kept_dir(record.staging);
  Status done = dir.ok() ? keep_nodes(base, record, *dir, now) : Status(std::move(dir).take_error());
  if (done.ok()) return std::nullopt;
  if (dir.ok()) remove_kept(*dir).ignore("what was moved there so far is of no use");
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
    Inverse inverse(*base, *nodes, applied, staging);
    WARREN_TRY(inverse.build());
    Undone undone;
    undone.conflicts = inverse.list_conflicts();
    record.intent = inverse.take_intent();
    for (const Step& step : kept.record.intent->steps) undone.paths.push_back(step.path);
    if (!undone.conflicts.empty()) return undone;
    WARREN_TRY(sync_all(*base, *record.intent));
    record.state = ApplyState::kPerforming;
    WARREN_TRY(put_record(record));
    return undone;
  };
  Result<Undone> prepared = prepare();
  if (!prepared.ok() || !prepared->conflicts.empty()) {
    Status cleaned = Staging::remove(*base, record);
    if (cleaned.ok()) remove_record(record).ignore("the next undo removes it");
    return prepared;
  }
  Status done = perform(*base, record, Attempt::kFirst);
  if (!done.ok()) {
    Error why = std::move(done).take_error();
    Result<std::vector<LeftNode>> left = give_up_undo(*base, record);
    if (!left.ok()) {
      return std::move(why).with_hint(
          fmt::format("taking it back failed too ({}); `warren undo --list` tries again", left.error().message()));
    }
    if (left->empty()) return why;
    return std::move(why).with_hint(fmt::format("the undo was taken back, except {}", describe(*left)));
  }
  prepared->note = WARREN_TRY(finish_undo(*base, record, clock.now().seconds));
  return prepared;
}

Result<bool> is_undo_interrupted(const std::string& base) {
  std::vector<ApplyRecord> records = WARREN_TRY(list_all_records());
  return std::any_of(records.begin(), records.end(), [&](const ApplyRecord& record) {
    return record.kind == RecordKind::kUndo && record.base == base && is_under_way(record);
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
