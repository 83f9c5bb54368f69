#include "changes/apply.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/intent.h"
#include "changes/perform.h"
#include "changes/upper_edit.h"
#include "os/host_files.h"
#include "store/apply_log.h"

namespace warren {
namespace {

constexpr std::string_view kStaging = ".warren-apply-";

// Part of the name of our staging directories: other agents may lie over the same base.
Result<std::string> tag_of(Store& store) {
  std::optional<struct stat> info = WARREN_TRY(find_host_file(store.path()));
  if (!info) return Error(Code::kUnsupported, "an agent without a file cannot be applied");
  return fmt::format("{}{:x}-{:x}-", kStaging, info->st_dev, info->st_ino);
}

// Takes what was applied out of the upper layer, and the intent with it.
class Dropper {
 public:
  Dropper(const AgentOverlay& overlay, const Intent& intent, const UpperTree& tree, TreeFinder& base)
      : overlay_(overlay), intent_(intent), tree_(tree), base_(base), edit_(overlay, tree, base) {}

  Status run() {
    WARREN_TRY(follow_renames());
    WARREN_TRY(uncover_above());
    for (const UpperGap& gap : tree_.gaps()) gap_of_.emplace(gap.place, gap.path);
    for (auto change = intent_.changes.rbegin(); change != intent_.changes.rend(); ++change) {
      WARREN_TRY(change->kind == TreeChangeKind::kDeleted ? drop_deleted(*change) : drop_node(*change));
    }
    return edit_.tidy();
  }

  std::vector<std::string> take_changed() { return std::move(changed_); }

 private:
  // What stays in the upper layer comes from where the base has it by now.
  Status follow_renames() {
    std::map<std::string, std::string, std::less<>> now;
    for (const AppliedChange& change : intent_.changes) {
      if (change.kind == TreeChangeKind::kRenamed) now.emplace(change.base_path, change.path);
    }
    if (now.empty()) return Ok{};
    for (const auto& [upper, row] : tree_.origins()) {
      if (row.base_path.empty() || row.base_path == "/") continue;
      for (std::string_view at = row.base_path; at != "/"; at = split_parent(at).parent) {
        auto moved = now.find(at);
        if (moved == now.end()) continue;
        Origin follows = row;
        follows.base_path = moved->second + row.base_path.substr(at.size());
        WARREN_TRY(overlay_.upper.put_origin(follows));
        break;
      }
    }
    return Ok{};
  }

  // A directory that hides the base's would hide what was applied in it.
  Status uncover_above() {
    std::set<std::string> dirs;
    for (const AppliedChange& change : intent_.changes) {
      for (std::string_view at = change.path; at != "/"; at = split_parent(at).parent) {
        const UpperNode* node = tree_.find(at);
        if (node != nullptr && node->replaces_dir) dirs.emplace(at);
      }
    }
    for (const std::string& dir : dirs) WARREN_TRY(edit_.uncover(dir, dir));
    return Ok{};
  }

  Status drop_deleted(const AppliedChange& change) {
    WARREN_TRY(edit_.remove_whiteout(change.path));
    const UpperNode* node = tree_.find(change.path);
    bool is_dir_again = node != nullptr && node->node.is_directory();  // what is below is another one's
    if (change.type != S_IFDIR || is_dir_again) return Ok{};
    return edit_.remove_whiteouts_below(change.path);
  }

  Status drop_node(const AppliedChange& change) {
    WARREN_TRY(edit_.remove_whiteout(change.path));
    if (change.kind == TreeChangeKind::kRenamed) {
      auto gap = gap_of_.find(change.base_path);
      if (gap != gap_of_.end()) WARREN_TRY(edit_.remove_whiteout(gap->second));
    }
    const UpperNode* node = tree_.find(change.path);
    if (node == nullptr || node->node.inode != change.upper) return Ok{};
    if (node->node.is_directory()) {
      WARREN_TRY(edit_.show_base(change.path, change.path));
      if (change.path == "/") return Ok{};
      WARREN_TRY(edit_.remove(change.path));
      return Ok{};
    }
    bool is_same =
        node->node.size == change.size && node->node.mtime == change.mtime && node->node.ctime == change.ctime;
    if (!is_same) return keep(*node);
    WARREN_TRY(edit_.remove(change.path));
    return Ok{};
  }

  // The agent wrote to it again: that is a new change, over what the base has now.
  Status keep(const UpperNode& node) {
    changed_.push_back(node.path);
    Origin origin{.upper = node.node.inode, .base_path = node.path};
    origin.seen = WARREN_TRY(base_.find(node.path));
    if (node.origin != nullptr) origin.hidden_names = node.origin->hidden_names;
    return overlay_.upper.put_origin(origin);
  }

  const AgentOverlay& overlay_;
  const Intent& intent_;
  const UpperTree& tree_;
  TreeFinder& base_;
  UpperEdit edit_;
  std::unordered_map<std::string, std::string> gap_of_;
  std::vector<std::string> changed_;
};

Result<std::vector<std::string>> drop_applied(Agent& agent, const AgentOverlay& overlay, const Intent& intent) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  TreeFinder base(overlay.base);
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  Dropper dropper(overlay, intent, tree, base);
  WARREN_TRY(dropper.run());
  WARREN_TRY(remove_apply_intent(agent.store()));
  WARREN_TRY(unit->commit());
  return dropper.take_changed();
}

Status forget_intent(Agent& agent) { return remove_apply_intent(agent.store()); }

Result<std::string> make_staging(HostTree& base, Store& store) {
  std::string tag = WARREN_TRY(tag_of(store));
  for (int tries = 0;; ++tries) {
    std::string name = fmt::format(
        "{}{:x}", tag, static_cast<std::uint64_t>(store.clock().now_us()) + static_cast<std::uint64_t>(tries));
    Status made = base.make_dir("/" + name, 0700);
    if (made.ok()) return name;
    if (made.error().code() != Code::kExists || tries == 100)
      return std::move(made).take_error().within("stage the changes in the base");
  }
}

// After a failure in the middle: the base as it was, and then the reason.
Error take_back(Agent& agent, HostTree& base, const Intent& intent, Error why) {
  Result<std::vector<std::string>> left = undo(base, intent);
  if (!left.ok()) {
    return std::move(why).with_hint(fmt::format(
        "taking it back failed too ({}); the next command on this agent tries again", left.error().message()));
  }
  Status forgotten = forget_intent(agent);
  if (!forgotten.ok()) return std::move(forgotten).take_error();
  if (left->empty()) {
    base.remove_tree("/" + intent.staging).ignore("the next command removes it");
    return why;
  }
  return std::move(why).with_hint(fmt::format("{} could not be put back: the old one is in {} in the base",
                                              quote(left->front()), quote(intent.staging)));
}

Status remove_leftovers(HostTree& base, Store& store) {
  std::string tag = WARREN_TRY(tag_of(store));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(base.top()));
  for (const HostEntry& entry : entries) {
    if (entry.name.starts_with(tag)) WARREN_TRY(base.remove_tree("/" + entry.name));
  }
  return Ok{};
}

Result<bool> has_leftovers(HostTree& base, Store& store) {
  std::string tag = WARREN_TRY(tag_of(store));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(base.top()));
  return std::any_of(entries.begin(), entries.end(),
                     [&](const HostEntry& entry) { return entry.name.starts_with(tag); });
}

}  // namespace

Result<ApplyReport> apply_changes(Agent& agent, const std::vector<TreeChange>& changes, const ApplyOptions& options) {
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay) return Error(Code::kInvalid, "the agent lies over no base");
  auto base = WARREN_TRY(HostTree::open(overlay->base_path));
  WARREN_TRY(base->lock());
  std::optional<std::string> other = WARREN_TRY(find_apply_intent(agent.store()));
  if (other) return Error(Code::kBusy, "an apply of this agent was cut off", "`warren diff` finishes it first");
  std::string staging = WARREN_TRY(make_staging(*base, agent.store()));
  Stager stager(*overlay, *base, options.set_id);
  Result<Intent> intent = Planner(*base, stager, staging).plan(changes, options.contents);
  Status noted = intent.ok() ? put_apply_intent(agent.store(), as_bytes(encode(*intent))) : Status(Ok{});
  if (!intent.ok() || !noted.ok()) {
    base->remove_tree("/" + staging).ignore("the next command removes it");
    return intent.ok() ? std::move(noted).take_error() : std::move(intent).take_error();
  }
  Status done = perform(*base, *intent);
  if (!done.ok()) return take_back(agent, *base, *intent, std::move(done).take_error());
  stager.let_go();
  ApplyReport report;
  report.changed_since = WARREN_TRY(drop_applied(agent, *overlay, *intent));
  report.notes = stager.notes();
  base->remove_tree("/" + staging).ignore("the next command removes it");
  return report;
}

Result<bool> needs_recovery(Agent& agent) {
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay) return false;
  std::optional<std::string> intent = WARREN_TRY(find_apply_intent(agent.store()));
  if (intent) return true;
  auto base = WARREN_TRY(HostTree::open(overlay->base_path));
  bool has_any = WARREN_TRY(has_leftovers(*base, agent.store()));
  return has_any && base->lock().ok();  // else an apply is under way, and they are its own
}

Result<std::optional<Recovery>> recover_apply(Agent& agent) {
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay) return std::optional<Recovery>();
  auto base = WARREN_TRY(HostTree::open(overlay->base_path));
  WARREN_TRY(base->lock());
  std::optional<std::string> bytes = WARREN_TRY(find_apply_intent(agent.store()));
  if (!bytes) {
    WARREN_TRY(remove_leftovers(*base, agent.store()));
    return std::optional<Recovery>();
  }
  Intent intent = WARREN_TRY(decode_intent(*bytes));
  Recovery recovery;
  recovery.staging = intent.staging;
  Status done = perform(*base, intent);
  if (done.ok()) {
    recovery.is_finished = true;
    WARREN_TRY(drop_applied(agent, *overlay, intent));
  } else {
    recovery.reason = done.error().message();
    recovery.left = WARREN_TRY(undo(*base, intent));
    WARREN_TRY(forget_intent(agent));
  }
  if (recovery.left.empty()) base->remove_tree("/" + intent.staging).ignore("the next command removes it");
  return std::optional(std::move(recovery));
}

Result<std::vector<std::string>> write_changes_to(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                                  const std::string& dir, SetId set_id) {
  WARREN_TRY(make_host_dirs(dir, 0755));
  auto target = WARREN_TRY(HostTree::open(dir));
  Stager stager(overlay, *target, set_id);
  for (const TreeChange& change : changes) {
    bool leaves = change.kind == TreeChangeKind::kDeleted || change.kind == TreeChangeKind::kRenamed;
    if (leaves) WARREN_TRY(target->remove_tree(change.base_path));
  }
  for (const TreeChange& change : changes) {
    if (!change.after || change.path == "/") continue;
    std::string above(split_parent(change.path).parent);
    for (std::size_t end = above.find('/', 1); above != "/"; end = above.find('/', end + 1)) {
      std::string part = above.substr(0, end);
      std::optional<struct stat> there = WARREN_TRY(target->find(part));
      if (!there) WARREN_TRY(target->make_dir(part, 0755));
      if (end == above.npos) break;
    }
    std::optional<struct stat> there = WARREN_TRY(target->find(change.path));
    bool is_dir = change.after->is_directory();
    bool merges = is_dir && there && S_ISDIR(there->st_mode);
    if (there && !merges) WARREN_TRY(target->remove_tree(change.path));
    if (is_dir && change.kind == TreeChangeKind::kRenamed) {
      WARREN_TRY(target->remove_tree(change.path));
      WARREN_TRY(stager.write_tree(change.path, change.path));
    } else if (merges) {
      HostMetadata metadata = WARREN_TRY(stager.metadata_of(change));
      WARREN_TRY(target->set_metadata(change.path, metadata));
    } else {
      WARREN_TRY(stager.write(change, change.path));
    }
  }
  WARREN_TRY(stager.finish_dirs());
  return stager.notes();
}

}  // namespace warren
