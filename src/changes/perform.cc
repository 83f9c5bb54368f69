#include "changes/perform.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "os/error.h"

namespace warren {
namespace {

Error interfered(std::string_view path) {
  return {Code::kConflict, fmt::format("{} was changed by another process during the apply", quote(path))};
}

constexpr std::string_view kEdited = "it was changed meanwhile, so it was kept";
constexpr std::string_view kTaken = "something else is there now, so it was not restored";
constexpr std::string_view kWrittenLate = "it was written to while it was being restored; that version was put aside";
constexpr std::size_t kPageBytes = 4096;

bool is_node(const HostNode& node, const struct stat& info) {
  return node.inode == info.st_ino && node.device == info.st_dev;
}

Result<std::size_t> read_part(int fd, off_t at, std::string& buffer) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    ssize_t count = ::pread(fd, buffer.data() + done, buffer.size() - done, at + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "read a file");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

// Whether the file has exactly this content, or is what an interrupted copying of it leaves: empty, or with pages of
// zeros that are not written yet.
Result<bool> is_copy_of(int file, int source) {
  struct stat info {};
  struct stat whole {};
  if (::fstat(file, &info) != 0 || ::fstat(source, &whole) != 0) return system_error(errno, "stat a file");
  if (info.st_size == 0) return true;
  if (info.st_size != whole.st_size) return false;
  std::string there(limits::kCopyBytes, '\0');
  std::string expected(limits::kCopyBytes, '\0');
  const std::string zeros(kPageBytes, '\0');
  for (off_t at = 0; at < info.st_size;) {
    std::size_t count = WARREN_TRY(read_part(file, at, there));
    std::size_t wanted = WARREN_TRY(read_part(source, at, expected));
    if (count != wanted || count == 0) return false;
    for (std::size_t i = 0; i < count; i += kPageBytes) {
      std::size_t size = std::min(kPageBytes, count - i);
      std::string_view page = std::string_view(there).substr(i, size);
      bool is_known =
          page == std::string_view(expected).substr(i, size) || page == std::string_view(zeros).substr(0, size);
      if (!is_known) return false;
    }
    at += static_cast<off_t>(count);
  }
  return true;
}

class Performer {
 public:
  Performer(HostTree& base, const Intent& intent) : base_(base), intent_(intent) {
    for (const Step& step : intent.steps) {
      if (step.kind == StepKind::kPutIn) put_in_.emplace(step.slot, &step);
      if (step.kind == StepKind::kTakeOut) taken_.emplace(step.slot, step.path);
      if (is_in_place(step)) in_place_[step.old_node.inode].push_back(&step);
    }
  }

  Status perform(const Step& step) {
    switch (step.kind) {
      case StepKind::kTakeOut: return take_out(step);
      case StepKind::kPutIn: return put_in(step);
      case StepKind::kReplace: return replace(step);
      case StepKind::kSetMetadata: return set_metadata(step);
      case StepKind::kOverwrite: return overwrite(step);
    }
    return Error(Code::kCorrupt, "an unknown step");
  }

  // After all steps: whether somebody has written to a replaced or removed file through an open descriptor.
  Status check_replaced() {
    for (const Step& step : intent_.steps) {
      bool is_removed = step.kind == StepKind::kTakeOut && !put_in_.contains(step.slot);
      if (!is_removed && step.kind != StepKind::kReplace) continue;
      std::optional<struct stat> old = WARREN_TRY(base_.find(slot(is_removed ? step.slot : step.backup)));
      if (old && !is_as_planned(step, *old)) return interfered(step.path);
    }
    return Ok{};
  }

  // What cannot be undone is added to what take_left() returns.
  Status undo(const Step& step) {
    touch(step.path);
    switch (step.kind) {
      case StepKind::kTakeOut: return bring_back(step);
      case StepKind::kPutIn: return put_back(step);
      case StepKind::kReplace: return undo_replace_or_leave(step);
      case StepKind::kSetMetadata: return undo_metadata(step);
      case StepKind::kOverwrite: return undo_overwrite(step);
    }
    return Error(Code::kCorrupt, "an unknown step");
  }

  // After undoing all steps: what was taken out of the base will be removed, unless somebody has written to it through
  // an open descriptor.
  Status check_taken_back() {
    for (const Step* step : taken_back_) {
      if (!WARREN_TRY(is_as_staged(*step, slot(step->slot)))) leave(step->path, kWrittenLate, slot(step->slot));
    }
    return Ok{};
  }

  // By the paths that the nodes have now: one in a renamed directory is back in the old one.
  std::vector<LeftNode> take_left() {
    for (LeftNode& node : left_) {
      for (std::string_view at = node.path; at != "/"; at = split_parent(at).parent) {
        auto moved = moved_back_.find(std::string(at));
        if (moved == moved_back_.end()) continue;
        node.path = moved->second + node.path.substr(at.size());
        break;
      }
    }
    return std::move(left_);
  }

  Status sync() {
    for (const std::string& path : changed_) {
      bool is_synced = WARREN_TRY(sync_node(path));
      if (!is_synced) return sync_all(base_, intent_);
    }
    for (const std::string& dir : touched_) {
      Status done = base_.sync_dir(dir);
      bool is_gone =
          !done.ok() && (done.error().code() == Code::kNotFound || done.error().code() == Code::kNotDirectory);
      if (!is_gone) WARREN_TRY(std::move(done));  // a directory that was moved to a slot is synced with the staging
    }
    for (const std::string& top : tops_of(intent_)) WARREN_TRY(base_.sync_dir(join_path(top, intent_.staging)));
    return Ok{};
  }

 private:
  static bool is_in_place(const Step& step) {
    return step.kind == StepKind::kSetMetadata || step.kind == StepKind::kOverwrite;
  }

  std::string slot(std::uint64_t number) const { return slot_path(intent_, number); }
  void touch(std::string_view path) { touched_.emplace(split_parent(path).parent); }

  void leave(const std::string& path, std::string_view why, std::string aside = "") {
    // The node that was at a name before, and the one that a step put there, are one entry.
    for (LeftNode& node : left_) {
      if (node.path != path || !node.aside.empty()) continue;
      node.aside = std::move(aside);
      return;
    }
    left_.push_back({path, std::string(why), std::move(aside)});
  }

  // Whether the node at this path is the one that was staged for the step, and nobody has changed it since. What cannot
  // be read counts as changed: then it is kept.
  Result<bool> is_as_staged(const Step& step, const std::string& at) {
    std::optional<struct stat> there = WARREN_TRY(base_.find(at));
    if (!there || !step.new_node.is_same(*there)) return false;
    if (step.content == 0) return true;
    Result<std::uint64_t> now = fingerprint_step(base_, step.kind, at);
    return now.ok() && *now == step.content;
  }

  // Whether the node that a step takes out is unchanged, except by other steps through another name.
  bool is_as_planned(const Step& step, const struct stat& info) const {
    bool is_ours = is_node(step.old_node, info) && in_place_.contains(step.old_node.inode);
    return is_ours || step.old_node.is_same(info);
  }

  Status take_out(const Step& step) {
    touch(step.path);
    std::string to = slot(step.slot);
    std::optional<struct stat> taken = WARREN_TRY(base_.find(to));
    if (!taken) {
      if (WARREN_TRY(is_elsewhere(step))) return Ok{};
      std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
      if (!there || !step.old_node.is_same(*there)) return interfered(step.path);
      WARREN_TRY(base_.rename(step.path, to, HostReplace::kNo));
      taken = WARREN_TRY(base_.find(to));
    }
    // Somebody may have changed it just before it was moved.
    if (!taken || !is_as_planned(step, *taken)) return interfered(step.path);
    if (step.tree == 0) return Ok{};
    HostTree::TreeDigest now = WARREN_TRY(base_.digest_tree(to));
    if (now.value != step.tree) return interfered(step.path);
    return Ok{};
  }

  // Whether an earlier attempt has already moved a renamed node to its new name.
  Result<bool> is_elsewhere(const Step& step) {
    auto later = put_in_.find(step.slot);
    if (later == put_in_.end()) return false;
    std::optional<struct stat> there = WARREN_TRY(base_.find(later->second->path));
    return there && is_node(later->second->new_node, *there);
  }

  Status put_in(const Step& step) {
    touch(step.path);
    std::optional<struct stat> waiting = WARREN_TRY(base_.find(slot(step.slot)));
    if (!waiting) {
      std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
      bool is_done = there && is_node(step.new_node, *there);
      return is_done ? Status(Ok{}) : Status(interfered(step.path));
    }
    Status done = base_.rename(slot(step.slot), step.path, HostReplace::kNo);
    if (!done.ok() && done.error().code() == Code::kExists) return interfered(step.path);
    return done;
  }

  // The two nodes exchange their names, so the path always refers to one of them, and nothing that somebody else puts
  // there meanwhile is lost: what came out is compared, and put back if it is not what was expected.
  Status replace(const Step& step) {
    touch(step.path);
    std::string fresh = slot(step.slot);
    std::string old = slot(step.backup);
    std::optional<struct stat> waiting = WARREN_TRY(base_.find(fresh));
    if (!waiting) return Ok{};
    if (!is_node(step.new_node, *waiting)) return finish_replace(step);  // killed after the exchange
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    std::optional<struct stat> kept = WARREN_TRY(base_.find(old));
    if (there && !step.old_node.is_same(*there)) return interfered(step.path);
    if (!there && !kept) return interfered(step.path);
    if (kept) return base_.rename(fresh, step.path, HostReplace::kYes);  // replace_by_link was killed
    Status exchanged = base_.exchange(fresh, step.path);
    if (exchanged.ok()) return finish_replace(step);
    return exchanged.error().code() == Code::kUnsupported ? replace_by_link(step) : exchanged;
  }

  // What was at the path is in the slot of the new node.
  Status finish_replace(const Step& step) {
    std::string fresh = slot(step.slot);
    std::optional<struct stat> out = WARREN_TRY(base_.find(fresh));
    if (out && step.old_node.is_same(*out)) return base_.rename(fresh, slot(step.backup), HostReplace::kNo);
    WARREN_TRY(swap_back(fresh, step.path));
    return interfered(step.path);
  }

  // The path may have been removed meanwhile.
  Status swap_back(const std::string& from, const std::string& path) {
    Status done = base_.exchange(from, path);
    if (done.ok() || done.error().code() != Code::kNotFound) return done;
    return base_.rename(from, path, HostReplace::kNo);
  }

  // A hard link keeps the old node while the new one replaces it atomically. Without hard links the name does not exist
  // for a moment.
  Status replace_by_link(const Step& step) {
    std::string old = slot(step.backup);
    Status linked = base_.link(step.path, old);
    if (!linked.ok()) WARREN_TRY(base_.rename(step.path, old, HostReplace::kNo));
    return base_.rename(slot(step.slot), step.path, linked.ok() ? HostReplace::kYes : HostReplace::kNo);
  }

  // Whether a file that is changed in place is as it was planned, or as one of the steps has left it.
  bool is_known(const Step& step, const struct stat& info) {
    if (S_ISDIR(info.st_mode) || step.old_node.is_same(info)) return true;
    HostNode now = HostNode::of(info);
    for (const Step* one : in_place_[step.old_node.inode]) {
      bool is_its_size =
          now.size == step.old_node.size || (one->kind == StepKind::kOverwrite && now.size == one->new_node.size);
      if (is_its_size && (now.mtime == one->after.mtime || now.mtime == one->before.mtime)) return true;
    }
    return false;
  }

  Status set_metadata(const Step& step) {
    touch(step.path);
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    if (!there || !is_node(step.old_node, *there) || !is_known(step, *there)) return interfered(step.path);
    WARREN_TRY(base_.set_metadata(step.path, step.after));
    changed_.insert(step.path);
    return Ok{};
  }

  struct InPlace {
    Fd target;
    struct stat info {};
    Fd fresh;
    Fd old;
  };

  // Not open if the node is no longer there.
  Result<InPlace> open_in_place(const Step& step) {
    InPlace files;
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    if (!there || !is_node(step.old_node, *there)) return files;
    files.fresh = WARREN_TRY(base_.open_file(slot(step.slot), O_RDONLY));
    files.old = WARREN_TRY(base_.open_file(slot(step.backup), O_RDONLY));
    Fd target = WARREN_TRY(base_.open_file(step.path, O_RDWR));
    if (::fstat(target.get(), &files.info) != 0) return system_error(errno, "stat a file");
    if (is_node(step.old_node, files.info)) files.target = std::move(target);
    return files;
  }

  // Whether the content is the old one, the new one, or what we have written of either.
  Result<bool> is_our_content(const InPlace& files) {
    if (WARREN_TRY(is_copy_of(files.target.get(), files.fresh.get()))) return true;
    return is_copy_of(files.target.get(), files.old.get());
  }

  Status write_in_place(const Step& step, const InPlace& files, int source, const HostMetadata& metadata) {
    WARREN_TRY(copy_host_content(source, files.target.get()).within(quote(step.path)));
    WARREN_TRY(base_.set_metadata(step.path, metadata));
    if (::fsync(files.target.get()) != 0) return system_error(errno, fmt::format("sync {}", quote(step.path)));
    return Ok{};
  }

  Status overwrite(const Step& step) {
    touch(step.path);
    InPlace files = WARREN_TRY(open_in_place(step));
    if (!files.target.is_open()) return interfered(step.path);
    bool is_ours = step.old_node.is_same(files.info) || WARREN_TRY(is_our_content(files));
    if (!is_ours) return interfered(step.path);
    return write_in_place(step, files, files.fresh.get(), step.after);
  }

  Status undo_overwrite(const Step& step) {
    InPlace files = WARREN_TRY(open_in_place(step));
    bool is_there = files.target.is_open();
    if (is_there && step.old_node.is_same(files.info)) return Ok{};  // it was not reached
    if (is_there && WARREN_TRY(is_our_content(files))) return write_in_place(step, files, files.old.get(), step.before);
    leave(step.path, is_there ? kEdited : kTaken, slot(step.backup));
    return Ok{};
  }

  Status bring_back(const Step& step) {
    std::string from = slot(step.slot);
    if (!WARREN_TRY(base_.find(from))) return Ok{};
    Status done = base_.rename(from, step.path, HostReplace::kNo);
    if (!done.ok()) leave(step.path, done.error().code() == Code::kExists ? kTaken : done.error().message(), from);
    return Ok{};
  }

  Status put_back(const Step& step) {
    std::string to = slot(step.slot);
    auto renamed_from = taken_.find(step.slot);
    bool is_staged = renamed_from == taken_.end();
    if (!WARREN_TRY(base_.find(to))) {
      std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
      if (!there || !is_node(step.new_node, *there)) return Ok{};
      if (is_staged && !WARREN_TRY(is_as_staged(step, step.path))) {
        leave(step.path, kEdited);
        return Ok{};
      }
      Status done = base_.rename(step.path, to, HostReplace::kNo);
      if (!done.ok()) {
        leave(step.path, done.error().message());
        return Ok{};
      }
    }
    // A renamed node returns to its old name with whatever was changed in it.
    if (!is_staged) moved_back_.emplace(step.path, renamed_from->second);
    return is_staged ? check_taken_out(step) : Status(Ok{});
  }

  // Somebody may have changed it just before it was moved to its slot: then it goes back.
  Status check_taken_out(const Step& step) {
    std::string at = slot(step.slot);
    if (WARREN_TRY(is_as_staged(step, at))) {
      taken_back_.push_back(&step);
      return Ok{};
    }
    Status done = base_.rename(at, step.path, HostReplace::kNo);
    leave(step.path, done.ok() ? kEdited : kTaken, done.ok() ? "" : at);
    return Ok{};
  }

  // A name that cannot be changed (a directory that has become read-only) must not prevent the rest.
  Status undo_replace_or_leave(const Step& step) {
    Status done = undo_replace(step);
    if (done.ok()) return Ok{};
    bool is_moved = WARREN_TRY(base_.find(slot(step.backup)))
    .has_value();
    leave(step.path, done.error().message(), slot(is_moved ? step.backup : step.slot));
    return Ok{};
  }

  // What was at the path is in `backup`, or still in the slot of the new node if replace() was killed after the
  // exchange.
  Status undo_replace(const Step& step) {
    std::string fresh = slot(step.slot);
    std::string old = slot(step.backup);
    std::optional<struct stat> waiting = WARREN_TRY(base_.find(fresh));
    std::optional<struct stat> kept = WARREN_TRY(base_.find(old));
    if (!kept && waiting && !is_node(step.new_node, *waiting)) {
      WARREN_TRY(base_.rename(fresh, old, HostReplace::kNo));
      std::swap(kept, waiting);
    }
    if (!kept) return Ok{};
    if (is_node(step.new_node, *kept)) return check_exchanged(step);  // killed after the exchange below
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    bool is_old = there && there->st_ino == kept->st_ino && there->st_dev == kept->st_dev;
    if (is_old) return base_.remove_file(old);
    if (!there) return waiting ? restore_after(step) : restore(step);
    bool is_ours = is_node(step.new_node, *there);
    if (is_ours && WARREN_TRY(is_as_staged(step, step.path))) return exchange_back(step);
    leave(step.path, is_ours ? kEdited : kTaken, old);
    return Ok{};
  }

  Status exchange_back(const Step& step) {
    Status done = base_.exchange(slot(step.backup), step.path);
    if (done.ok()) return check_exchanged(step);
    if (done.error().code() != Code::kUnsupported) return done;
    WARREN_TRY(base_.rename(step.path, slot(step.slot), HostReplace::kNo));
    return restore_after(step);
  }

  // Without exchanging: the new node is in its slot, and the name does not exist for a moment.
  Status restore_after(const Step& step) {
    if (WARREN_TRY(is_as_staged(step, slot(step.slot)))) {
      taken_back_.push_back(&step);
      return restore(step);
    }
    Status done = base_.rename(slot(step.slot), step.path, HostReplace::kNo);
    leave(step.path, done.ok() ? kEdited : kTaken, slot(step.backup));
    if (!done.ok()) leave(step.path, kEdited, slot(step.slot));
    return Ok{};
  }

  // The path has the old node again, and what came out is in its place in `backup`.
  Status check_exchanged(const Step& step) {
    std::string old = slot(step.backup);
    if (!WARREN_TRY(is_as_staged(step, old))) {
      WARREN_TRY(swap_back(old, step.path));
      leave(step.path, kEdited, old);
      return Ok{};
    }
    WARREN_TRY(base_.rename(old, slot(step.slot), HostReplace::kNo));
    taken_back_.push_back(&step);
    return Ok{};
  }

  // To a name that does not exist.
  Status restore(const Step& step) {
    std::string old = slot(step.backup);
    Status done = base_.rename(old, step.path, HostReplace::kNo);
    if (!done.ok()) leave(step.path, done.error().code() == Code::kExists ? kTaken : done.error().message(), old);
    return Ok{};
  }

  Status undo_metadata(const Step& step) {
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    if (!there || !is_node(step.old_node, *there)) return Ok{};
    std::uint32_t mode = there->st_mode & 07777U;
    bool is_ours = mode == step.before.mode || (mode & ~06000U) == (step.after.mode & ~06000U);
    if (!is_ours && !S_ISLNK(there->st_mode)) {
      leave(step.path, "its mode was changed meanwhile, so it was kept");
      return Ok{};
    }
    HostMetadata to = step.before;
    if (!is_known(step, *there)) {  // its content was changed: that stays, and its time says so
      HostMetadata now = WARREN_TRY(base_.get_metadata(step.path));
      to.atime = now.atime;
      to.mtime = now.mtime;
    }
    WARREN_TRY(base_.set_metadata(step.path, to));
    changed_.insert(step.path);
    return Ok{};
  }

  // Syncing its directory does not sync a node's own mode, owner and attributes. Returns false for a node that cannot
  // be opened for that: its mode forbids it, or it is a link or a device.
  Result<bool> sync_node(const std::string& path) {
    std::optional<struct stat> info = WARREN_TRY(base_.find(path));
    if (!info) return true;
    if (S_ISDIR(info->st_mode)) {
      Status done = base_.sync_dir(path);
      if (!done.ok() && done.error().code() == Code::kDenied) return false;
      WARREN_TRY(std::move(done));
      return true;
    }
    if (!S_ISREG(info->st_mode)) return false;
    Result<Fd> node = base_.open_file(path, O_RDONLY);
    if (!node.ok()) return false;
    if (::fsync(node->get()) != 0) return system_error(errno, fmt::format("sync {}", quote(path)));
    return true;
  }

  HostTree& base_;
  const Intent& intent_;
  std::unordered_map<std::uint64_t, const Step*> put_in_;                 // by slot
  std::unordered_map<std::uint64_t, std::string> taken_;                  // slot → the path that the node had
  std::unordered_map<std::uint64_t, std::vector<const Step*>> in_place_;  // by inode
  std::vector<LeftNode> left_;
  std::vector<const Step*> taken_back_;                      // what they had put in is in their slots again
  std::unordered_map<std::string, std::string> moved_back_;  // of renamed nodes: new path → old path
  std::set<std::string> touched_;                            // directories whose entries changed
  std::set<std::string> changed_;                            // nodes whose metadata was set
};

// With more steps than this, one sync of the whole filesystem is cheaper.
constexpr std::size_t kSyncedOneByOne = 64;

}  // namespace

// A file that is overwritten in place has its mode and times from the step, not from the slot.
Result<std::uint64_t> fingerprint_step(HostTree& base, StepKind kind, const std::string& at,
                                       const std::unordered_set<std::string>& skipped) {
  if (kind != StepKind::kOverwrite) return base.fingerprint_tree(at, skipped);
  Fd file = WARREN_TRY(base.open_file(at, O_RDONLY));
  return digest_host_content(file.get());
}

Status sync_all(HostTree& base, const Intent& intent) {
  for (const std::string& top : tops_of(intent)) WARREN_TRY(base.sync_all(top));
  return Ok{};
}

std::vector<std::string> tops_of(const Intent& intent) {
  std::vector<std::string> tops{"/"};
  tops.insert(tops.end(), intent.tops.begin(), intent.tops.end());
  return tops;
}

std::string slot_path(const Intent& intent, std::uint64_t slot) {
  std::uint64_t top = slot / kSlotsPerTop;
  std::string_view dir = top == 0 ? std::string_view("/") : intent.tops.at(top - 1);
  return fmt::format("{}/{}", join_path(dir, intent.staging), slot % kSlotsPerTop);
}

Status perform(HostTree& base, const Intent& intent) {
  Performer performer(base, intent);
  for (const Step& step : intent.steps) WARREN_TRY(performer.perform(step));
  WARREN_TRY(performer.check_replaced());
  return intent.steps.size() > kSyncedOneByOne ? sync_all(base, intent) : performer.sync();
}

Result<std::vector<LeftNode>> roll_back(HostTree& base, const Intent& intent) {
  Performer performer(base, intent);
  for (auto step = intent.steps.rbegin(); step != intent.steps.rend(); ++step) WARREN_TRY(performer.undo(*step));
  WARREN_TRY(intent.steps.size() > kSyncedOneByOne ? sync_all(base, intent) : performer.sync());
  WARREN_TRY(performer.check_taken_back());
  return performer.take_left();
}

std::string describe(const LeftNode& node) {
  std::string text = fmt::format("{}: {}", quote(node.path), node.why);
  return node.aside.empty() ? text : fmt::format("{}; the other version is {} in the base", text, quote(node.aside));
}

std::string describe(const std::vector<LeftNode>& nodes) {
  std::string text;
  for (const LeftNode& node : nodes) text += (text.empty() ? "" : ", ") + describe(node);
  return text;
}

}  // namespace warren
