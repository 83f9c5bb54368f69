#include "changes/perform.h"

#include <set>
#include <unordered_map>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"

namespace warren {
namespace {

Error interfered(std::string_view path) {
  return {Code::kConflict, fmt::format("{} was changed by another process during the apply", quote(path))};
}

class Performer {
 public:
  Performer(HostTree& base, const Intent& intent) : base_(base), intent_(intent) {
    for (const Step& step : intent.steps) {
      if (step.kind == StepKind::kPutIn) put_in_.emplace(step.slot, &step);
    }
  }

  Status perform(const Step& step) {
    switch (step.kind) {
      case StepKind::kTakeOut: return take_out(step);
      case StepKind::kPutIn: return put_in(step);
      case StepKind::kReplace: return replace(step);
      case StepKind::kSetMetadata: return set_metadata(step, step.after);
      case StepKind::kOverwrite: return overwrite(step, step.slot, step.after);
    }
    return Error(Code::kCorrupt, "an unknown step");
  }

  // Returns false if the old node could not be restored and is still in its slot.
  Result<bool> undo(const Step& step) {
    switch (step.kind) {
      case StepKind::kTakeOut: return bring_back(step, step.slot);
      case StepKind::kPutIn: return put_back(step);
      case StepKind::kReplace: return undo_replace(step);
      case StepKind::kSetMetadata: return undo_metadata(step);
      case StepKind::kOverwrite: {
        std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
        if (!there || there->st_ino != step.old_node.inode) return false;
        WARREN_TRY(overwrite(step, step.backup, step.before));
        return true;
      }
    }
    return Error(Code::kCorrupt, "an unknown step");
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
  std::string slot(std::uint64_t number) const { return slot_path(intent_, number); }
  void touch(std::string_view path) { touched_.emplace(split_parent(path).parent); }

  Status take_out(const Step& step) {
    touch(step.path);
    std::string to = slot(step.slot);
    std::optional<struct stat> taken = WARREN_TRY(base_.find(to));
    if (!taken) {
      if (WARREN_TRY(is_elsewhere(step))) return Ok{};
      std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
      if (!there || !step.old_node.is_same(*there)) return interfered(step.path);
      WARREN_TRY(base_.rename(step.path, to, HostReplace::kNo));
    }
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

  static bool is_node(const HostNode& node, const struct stat& info) {
    return node.inode == info.st_ino && node.device == info.st_dev;
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

  Status replace(const Step& step) {
    touch(step.path);
    std::string fresh = slot(step.slot);
    std::string old = slot(step.backup);
    std::optional<struct stat> waiting = WARREN_TRY(base_.find(fresh));
    if (!waiting) return Ok{};
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    std::optional<struct stat> kept = WARREN_TRY(base_.find(old));
    if (there && !step.old_node.is_same(*there)) return interfered(step.path);
    if (!there && !kept) return interfered(step.path);
    if (!kept) {
      // A hard link keeps the old node while the new one replaces it atomically. Without hard links the name does not
      // exist for a moment.
      Status linked = base_.link(step.path, old);
      if (!linked.ok()) WARREN_TRY(base_.rename(step.path, old, HostReplace::kNo));
    }
    return base_.rename(fresh, step.path, HostReplace::kYes);
  }

  Status set_metadata(const Step& step, const HostMetadata& to) {
    touch(step.path);
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    if (!there || there->st_ino != step.old_node.inode) return interfered(step.path);
    WARREN_TRY(base_.set_metadata(step.path, to));
    changed_.insert(step.path);
    return Ok{};
  }

  Status overwrite(const Step& step, std::uint64_t from, const HostMetadata& metadata) {
    touch(step.path);
    Fd source = WARREN_TRY(base_.open_file(slot(from), O_RDONLY));
    Fd target = WARREN_TRY(base_.open_file(step.path, O_RDWR));
    struct stat info {};
    bool is_same = ::fstat(target.get(), &info) == 0 && info.st_ino == step.old_node.inode;
    if (!is_same) return interfered(step.path);
    WARREN_TRY(copy_host_content(source.get(), target.get()).within(quote(step.path)));
    WARREN_TRY(base_.set_metadata(step.path, metadata));
    if (::fsync(target.get()) != 0) return system_error(errno, fmt::format("sync {}", quote(step.path)));
    return Ok{};
  }

  Result<bool> bring_back(const Step& step, std::uint64_t from) {
    touch(step.path);
    std::optional<struct stat> kept = WARREN_TRY(base_.find(slot(from)));
    if (!kept) return true;
    Status done = base_.rename(slot(from), step.path, HostReplace::kNo);
    return done.ok();
  }

  Result<bool> put_back(const Step& step) {
    touch(step.path);
    std::optional<struct stat> waiting = WARREN_TRY(base_.find(slot(step.slot)));
    if (waiting) return true;
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    bool is_ours = there && is_node(step.new_node, *there);
    if (!is_ours) return true;
    Status done = base_.rename(step.path, slot(step.slot), HostReplace::kNo);
    return done.ok();
  }

  Result<bool> undo_replace(const Step& step) {
    touch(step.path);
    std::optional<struct stat> kept = WARREN_TRY(base_.find(slot(step.backup)));
    if (!kept) return true;
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    bool is_old = there && there->st_ino == kept->st_ino && there->st_dev == kept->st_dev;
    if (is_old) {
      Status done = base_.remove_file(slot(step.backup));
      return done.ok();
    }
    bool is_ours = !there || is_node(step.new_node, *there);
    if (!is_ours) return false;
    Status done = base_.rename(slot(step.backup), step.path, there ? HostReplace::kYes : HostReplace::kNo);
    return done.ok();
  }

  Result<bool> undo_metadata(const Step& step) {
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    if (!there || there->st_ino != step.old_node.inode) return true;
    WARREN_TRY(set_metadata(step, step.before));
    return true;
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
  std::unordered_map<std::uint64_t, const Step*> put_in_;  // by slot
  std::set<std::string> touched_;                          // directories whose entries changed
  std::set<std::string> changed_;                          // nodes whose metadata was set
};

// With more steps than this, one sync of the whole filesystem is cheaper.
constexpr std::size_t kSyncedOneByOne = 64;

}  // namespace

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
  return intent.steps.size() > kSyncedOneByOne ? sync_all(base, intent) : performer.sync();
}

Result<std::vector<std::string>> roll_back(HostTree& base, const Intent& intent) {
  Performer performer(base, intent);
  std::vector<std::string> left;
  for (auto step = intent.steps.rbegin(); step != intent.steps.rend(); ++step) {
    bool is_back = WARREN_TRY(performer.undo(*step));
    if (!is_back) left.push_back(step->path);
  }
  WARREN_TRY(intent.steps.size() > kSyncedOneByOne ? sync_all(base, intent) : performer.sync());
  return left;
}

}  // namespace warren
