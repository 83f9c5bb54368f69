#include "changes/apply/roll_back.h"

#include "base/path.h"
#include "changes/apply/step_tree.h"

namespace warren {
namespace {

constexpr std::string_view kEdited = "it was changed meanwhile, so it was kept";
constexpr std::string_view kTaken = "something else is there now, so it was not restored";
constexpr std::string_view kWrittenLate = "it was written to while it was being restored";

// Whether an error says something about this node, and not that nothing can be done at the moment.
bool is_about_node(Code code) {
  switch (code) {
    case Code::kInternal:
    case Code::kNoSpace:
    case Code::kReadOnly:
    case Code::kBusy:
    case Code::kStale:
    case Code::kCorrupt:
    case Code::kIo:
    case Code::kLimit:
    case Code::kTimeout:
    case Code::kUnavailable: return false;
    default: return true;
  }
}

class Rollback {
 public:
  Rollback(HostTree& base, const Intent& intent) : base_(base), intent_(intent), tree_(base, intent) {}

  Status run() {
    Status outcome = Ok{};
    for (auto step = intent_.steps.rbegin(); step != intent_.steps.rend(); ++step) {
      Status done = undo_or_leave(*step);
      if (outcome.ok()) outcome = std::move(done);
    }
    WARREN_TRY(tree_.sync());
    WARREN_TRY(check_taken_back());
    return outcome;
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

 private:
  Status undo(const Step& step) {
    switch (step.kind) {
      case StepKind::kTakeOut: return bring_back(step);
      case StepKind::kPutIn: return put_back(step);
      case StepKind::kReplace: return undo_replace(step);
      case StepKind::kSetMetadata: return undo_metadata(step);
      case StepKind::kOverwrite: return undo_overwrite(step);
    }
    return Error(Code::kCorrupt, "an unknown step");
  }

  // A node that cannot be changed (its directory has become read-only, it belongs to somebody else now) must not
  // prevent the rest.
  Status undo_or_leave(const Step& step) {
    tree_.touch(step.path);
    Status done = undo(step);
    if (done.ok() || !is_about_node(done.error().code())) return done;
    leave(step.path, done.error().message(), find_aside(step));
    return Ok{};
  }

  // The slot with what the step took away, or put in and took out again; "" if there is none.
  std::string find_aside(const Step& step) {
    bool has_backup = step.kind == StepKind::kReplace || step.kind == StepKind::kOverwrite;
    bool has_slot = step.kind == StepKind::kTakeOut || step.kind == StepKind::kReplace ||
                    (step.kind == StepKind::kPutIn && tree_.find_taken(step.slot) == nullptr);
    if (has_backup && is_there(tree_.slot(step.backup))) return tree_.slot(step.backup);
    return has_slot && is_there(tree_.slot(step.slot)) ? tree_.slot(step.slot) : "";
  }

  bool is_there(const std::string& path) {
    Result<std::optional<struct stat>> found = base_.find(path);
    return !found.ok() || *found;
  }

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

  // The node may be under its new name, in the slot of a renamed directory, or under its old name: the rest was not
  // reached, or an earlier rollback was interrupted.
  Status undo_overwrite(const Step& step) {
    for (const std::string& at : tree_.places_of(step.path)) {
      std::optional<struct stat> there = WARREN_TRY(base_.find(at));
      if (there && is_node(step.old_node, *there)) return restore_content(step, at, *there);
    }
    leave(step.path, kTaken, tree_.slot(step.backup));
    return Ok{};
  }

  Status restore_content(const Step& step, const std::string& at, const struct stat& there) {
    if (step.old_node.is_same(there)) return Ok{};  // it was not reached
    InPlaceFiles files = WARREN_TRY(tree_.open_in_place(step, at));
    bool is_ours = files.target.is_open() && WARREN_TRY(StepTree::is_our_content(files));
    if (is_ours) return tree_.write_in_place(at, files, files.old.get(), step.before);
    bool is_at_old_path = at != step.path && at == tree_.places_of(step.path).back();
    leave(is_at_old_path ? at : step.path, files.target.is_open() ? kEdited : kTaken, tree_.slot(step.backup));
    return Ok{};
  }

  Status bring_back(const Step& step) {
    std::string from = tree_.slot(step.slot);
    if (!WARREN_TRY(base_.find(from))) return Ok{};
    return restore(from, step.path);
  }

  // To a name that does not exist.
  Status restore(const std::string& from, const std::string& path) {
    Status done = base_.rename(from, path, HostReplace::kNo);
    if (done.ok() || done.error().code() != Code::kExists) return done;
    leave(path, kTaken, from);
    return Ok{};
  }

  Status put_back(const Step& step) {
    std::string to = tree_.slot(step.slot);
    const std::string* renamed_from = tree_.find_taken(step.slot);
    bool is_staged = renamed_from == nullptr;
    if (!WARREN_TRY(base_.find(to))) {
      std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
      if (!there || !is_node(step.new_node, *there)) return Ok{};
      if (is_staged && !WARREN_TRY(is_as_staged(step, step.path))) {
        leave(step.path, kEdited);
        return Ok{};
      }
      WARREN_TRY(base_.rename(step.path, to, HostReplace::kNo));
    }
    // A renamed node returns to its old name with whatever was changed in it.
    if (!is_staged) moved_back_.emplace(step.path, *renamed_from);
    return is_staged ? check_taken_out(step) : Status(Ok{});
  }

  // Somebody may have changed it just before it was moved to its slot: then it goes back.
  Status check_taken_out(const Step& step) {
    std::string at = tree_.slot(step.slot);
    if (WARREN_TRY(is_as_staged(step, at))) {
      taken_back_.push_back(&step);
      return Ok{};
    }
    Status done = base_.rename(at, step.path, HostReplace::kNo);
    leave(step.path, done.ok() ? kEdited : kTaken, done.ok() ? "" : at);
    return Ok{};
  }

  // What was at the path is in `backup`, or still in the slot of the new node if replacing was killed after the
  // exchange.
  Status undo_replace(const Step& step) {
    std::string fresh = tree_.slot(step.slot);
    std::string old = tree_.slot(step.backup);
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
    if (!there) return waiting ? restore_after(step) : restore(old, step.path);
    bool is_ours = is_node(step.new_node, *there);
    if (is_ours && WARREN_TRY(is_as_staged(step, step.path))) return exchange_back(step);
    leave(step.path, is_ours ? kEdited : kTaken, old);
    return Ok{};
  }

  Status exchange_back(const Step& step) {
    Status done = base_.exchange(tree_.slot(step.backup), step.path);
    if (done.ok()) return check_exchanged(step);
    if (done.error().code() != Code::kUnsupported) return done;
    WARREN_TRY(base_.rename(step.path, tree_.slot(step.slot), HostReplace::kNo));
    return restore_after(step);
  }

  // Without exchanging: the new node is in its slot, and the name does not exist for a moment.
  Status restore_after(const Step& step) {
    if (WARREN_TRY(is_as_staged(step, tree_.slot(step.slot)))) {
      taken_back_.push_back(&step);
      return restore(tree_.slot(step.backup), step.path);
    }
    Status done = base_.rename(tree_.slot(step.slot), step.path, HostReplace::kNo);
    leave(step.path, done.ok() ? kEdited : kTaken, tree_.slot(step.backup));
    if (!done.ok()) leave(step.path, kEdited, tree_.slot(step.slot));
    return Ok{};
  }

  // The path has the old node again, and what came out is in its place in `backup`.
  Status check_exchanged(const Step& step) {
    std::string old = tree_.slot(step.backup);
    if (!WARREN_TRY(is_as_staged(step, old))) {
      WARREN_TRY(tree_.swap_back(old, step.path));
      leave(step.path, kEdited, old);
      return Ok{};
    }
    WARREN_TRY(base_.rename(old, tree_.slot(step.slot), HostReplace::kNo));
    taken_back_.push_back(&step);
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
    if (!tree_.is_known(step, *there)) {  // its content was changed: that stays, and its time says so
      HostMetadata now = WARREN_TRY(base_.get_metadata(step.path));
      to.atime = now.atime;
      to.mtime = now.mtime;
    }
    WARREN_TRY(base_.set_metadata(step.path, to));
    tree_.set_changed(step.path);
    return Ok{};
  }

  // After undoing all steps: what was taken out of the base will be removed, unless somebody has written to it through
  // an open descriptor.
  Status check_taken_back() {
    for (const Step* step : taken_back_) {
      if (!WARREN_TRY(is_as_staged(*step, tree_.slot(step->slot))))
        leave(step->path, kWrittenLate, tree_.slot(step->slot));
    }
    return Ok{};
  }

  HostTree& base_;
  const Intent& intent_;
  StepTree tree_;
  std::vector<LeftNode> left_;
  std::vector<const Step*> taken_back_;                      // what they had put in is in their slots again
  std::unordered_map<std::string, std::string> moved_back_;  // of renamed nodes: new path → old path
};

}  // namespace

Status roll_back(HostTree& base, ApplyRecord& record) {
  record.state = ApplyState::kRollingBack;
  WARREN_TRY(put_record(record));
  Rollback rollback(base, *record.intent);
  WARREN_TRY(rollback.run());
  record.left = rollback.take_left();
  record.state = ApplyState::kRolledBack;
  return put_record(record);
}

}  // namespace warren
