#include "changes/apply/perform.h"

#include <fmt/format.h>

#include "base/path.h"
#include "changes/apply/step_tree.h"

namespace warren {
namespace {

Error interfered(std::string_view path) {
  return {Code::kConflict, fmt::format("{} was changed by another process during the apply", quote(path))};
}

class Performer {
 public:
  Performer(HostTree& base, const Intent& intent, Attempt attempt)
      : base_(base), intent_(intent), attempt_(attempt), tree_(base, intent) {}

  Status run() {
    for (const Step& step : intent_.steps) WARREN_TRY(perform(step));
    WARREN_TRY(check_replaced());
    return tree_.sync();
  }

  std::size_t begun() const { return begun_; }

 private:
  Status perform(const Step& step) {
    tree_.touch(step.path);
    if (step.kind == StepKind::kOverwrite) return overwrite(step);
    ++begun_;
    switch (step.kind) {
      case StepKind::kTakeOut: return take_out(step);
      case StepKind::kPutIn: return put_in(step);
      case StepKind::kReplace: return replace(step);
      case StepKind::kSetMetadata: return set_metadata(step);
      case StepKind::kOverwrite: break;
    }
    return Error(Code::kCorrupt, "an unknown step");
  }

  // After all steps: whether somebody has written to a replaced or removed file through an open descriptor.
  Status check_replaced() {
    for (const Step& step : intent_.steps) {
      bool is_removed = step.kind == StepKind::kTakeOut && tree_.find_put_in(step.slot) == nullptr;
      if (!is_removed && step.kind != StepKind::kReplace) continue;
      std::optional<struct stat> old = WARREN_TRY(base_.find(tree_.slot(is_removed ? step.slot : step.backup)));
      if (old && !tree_.is_as_planned(step, *old)) return interfered(step.path);
    }
    return Ok{};
  }

  Status take_out(const Step& step) {
    std::string to = tree_.slot(step.slot);
    std::optional<struct stat> taken = WARREN_TRY(base_.find(to));
    if (!taken) {
      if (WARREN_TRY(is_elsewhere(step))) return Ok{};
      std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
      if (!there || !step.old_node.is_same(*there)) return interfered(step.path);
      WARREN_TRY(base_.rename(step.path, to, HostReplace::kNo));
      taken = WARREN_TRY(base_.find(to));
    }
    // Somebody may have changed it just before it was moved.
    if (!taken || !tree_.is_as_planned(step, *taken)) return interfered(step.path);
    if (step.tree == 0) return Ok{};
    HostTree::TreeDigest now = WARREN_TRY(base_.digest_tree(to));
    if (now.value != step.tree) return interfered(step.path);
    return Ok{};
  }

  // Whether an earlier attempt has already moved a renamed node to its new name. That is the old one again if two
  // directories were exchanged, and then what they have under the same name: there the directory shows it.
  Result<bool> is_elsewhere(const Step& step) {
    const Step* later = attempt_ == Attempt::kFirst ? nullptr : tree_.find_put_in(step.slot);
    if (later != nullptr && later->path == step.path) later = tree_.find_put_in_above(step.path);
    if (later == nullptr) return false;
    std::optional<struct stat> there = WARREN_TRY(base_.find(later->path));
    return there && is_node(later->new_node, *there);
  }

  Status put_in(const Step& step) {
    std::string from = tree_.slot(step.slot);
    std::optional<struct stat> waiting = WARREN_TRY(base_.find(from));
    if (!waiting) {
      std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
      bool is_done = there && is_node(step.new_node, *there);
      return is_done ? Status(Ok{}) : Status(interfered(step.path));
    }
    Status done = base_.rename(from, step.path, HostReplace::kNo);
    if (!done.ok() && done.error().code() == Code::kExists) return interfered(step.path);
    return done;
  }

  // The two nodes exchange their names, so the path always refers to one of them, and nothing that somebody else puts
  // there meanwhile is lost: what came out is compared, and put back if it is not what was expected.
  Status replace(const Step& step) {
    std::string fresh = tree_.slot(step.slot);
    std::optional<struct stat> waiting = WARREN_TRY(base_.find(fresh));
    if (!waiting) return Ok{};
    if (!is_node(step.new_node, *waiting)) return finish_replace(step);  // killed after the exchange
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    std::optional<struct stat> kept = WARREN_TRY(base_.find(tree_.slot(step.backup)));
    if (there && !step.old_node.is_same(*there)) return interfered(step.path);
    if (!there && !kept) return interfered(step.path);
    if (kept) return base_.rename(fresh, step.path, HostReplace::kYes);  // replace_by_link was killed
    Status exchanged = base_.exchange(fresh, step.path);
    if (exchanged.ok()) return finish_replace(step);
    return exchanged.error().code() == Code::kUnsupported ? replace_by_link(step) : exchanged;
  }

  // What was at the path is in the slot of the new node.
  Status finish_replace(const Step& step) {
    std::string fresh = tree_.slot(step.slot);
    std::optional<struct stat> out = WARREN_TRY(base_.find(fresh));
    if (out && step.old_node.is_same(*out)) return base_.rename(fresh, tree_.slot(step.backup), HostReplace::kNo);
    WARREN_TRY(tree_.swap_back(fresh, step.path));
    return interfered(step.path);
  }

  // A hard link keeps the old node while the new one replaces it atomically. Without hard links the name does not exist
  // for a moment.
  Status replace_by_link(const Step& step) {
    std::string old = tree_.slot(step.backup);
    Status linked = base_.link(step.path, old);
    if (!linked.ok()) WARREN_TRY(base_.rename(step.path, old, HostReplace::kNo));
    return base_.rename(tree_.slot(step.slot), step.path, linked.ok() ? HostReplace::kYes : HostReplace::kNo);
  }

  Status set_metadata(const Step& step) {
    std::optional<struct stat> there = WARREN_TRY(base_.find(step.path));
    if (!there || !is_node(step.old_node, *there) || !tree_.is_known(step, *there)) return interfered(step.path);
    WARREN_TRY(base_.set_metadata(step.path, step.after));
    tree_.set_changed(step.path);
    return Ok{};
  }

  // Begins when it writes: until then nothing has to be undone, and the node may be anybody's.
  Status overwrite(const Step& step) {
    InPlaceFiles files = WARREN_TRY(tree_.open_in_place(step, step.path));
    if (!files.target.is_open()) return interfered(step.path);
    bool is_ours = step.old_node.is_same(files.info) || WARREN_TRY(StepTree::is_our_content(files));
    if (!is_ours) return interfered(step.path);
    ++begun_;
    return tree_.write_in_place(step.path, files, files.fresh.get(), step.after);
  }

  HostTree& base_;
  const Intent& intent_;
  Attempt attempt_;
  StepTree tree_;
  std::size_t begun_ = 0;
};

}  // namespace

Status perform(HostTree& base, ApplyRecord& record, Attempt attempt) {
  Performer performer(base, *record.intent, attempt);
  Status done = performer.run();
  if (!done.ok()) {
    if (attempt == Attempt::kFirst) record.intent->steps.resize(performer.begun());
    return done;
  }
  record.state = ApplyState::kPerformed;
  return put_record(record);
}

}  // namespace warren
