#include "changes/undone_changes.h"

#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "agent/audit_trail.h"
#include "agent/base_note.h"
#include "base/path.h"
#include "changes/open_overlay.h"
#include "changes/replace_origin.h"
#include "changes/tree_finder.h"
#include "changes/upper_tree.h"

namespace warren {
namespace {

// What the steps of an undo have done to the base.
class UndoneBase {
 public:
  explicit UndoneBase(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (step.kind == StepKind::kTakeOut) removed_.insert(step.path);
      if (step.kind == StepKind::kPutIn || step.kind == StepKind::kReplace) written_[step.path] = step.new_node;
    }
    for (const Step& step : steps) {
      if (step.kind != StepKind::kSetMetadata && step.kind != StepKind::kOverwrite) continue;
      HostNode& node = written_.try_emplace(step.path, step.old_node).first->second;
      node.mtime = step.after.mtime;
      if (step.kind == StepKind::kOverwrite) node.size = step.new_node.size;
    }
  }

  bool has_removed(std::string_view path) const {
    for (; path.size() > 1; path = split_parent(path).parent) {
      if (removed_.contains(std::string(path))) return true;
    }
    return false;
  }

  // Only as the undo has left it: a later edit is one that the agent has not seen.
  bool has_written(const std::string& path, const Attributes& now) const {
    auto found = written_.find(path);
    if (found == written_.end()) return false;
    const HostNode& node = found->second;
    return now.host_inode == node.inode && now.size == node.size && now.mtime == node.mtime;
  }

 private:
  std::unordered_set<std::string> removed_;
  std::unordered_map<std::string, HostNode> written_;
};

Status take_up(const AgentOverlay& overlay, const UpperNode& node, const UndoneBase& undone) {
  bool is_copy = !node.origin->base_path.empty();
  if (is_copy && node.is_untouched()) return Ok{};  // it follows the base by itself
  bool is_of_place = !is_copy || node.origin->base_path == node.place;
  std::vector<ByteRange> in_base = WARREN_TRY(overlay.upper.list_base_ranges(node.node.inode));
  if (!is_of_place || !in_base.empty()) return Ok{};  // a part of it is in the base: it must stay a copy
  if (!node.there) {
    bool is_own = node.is_kept_new() || node.node.is_directory();
    return is_own && undone.has_removed(node.place) ? overlay.upper.remove_origin(node.node.inode) : Status(Ok{});
  }
  bool is_same_kind = ((node.there->mode ^ node.node.mode) & S_IFMT) == 0;
  if (!is_same_kind || node.node.is_directory() || !undone.has_written(node.place, *node.there)) return Ok{};
  Origin origin = *node.origin;
  origin.seen = node.there;
  origin.seen->ctime = {};  // the agent's node is another one
  return replace_origin(overlay, origin, node.place);
}

Status record_in_trail(const ApplyRecord& undo, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = undo.agent, .layers = Layers::kOwn}, clock));
  AuditLog* log = WARREN_TRY(agent->operators_audit());
  if (log == nullptr) return Ok{};
  std::vector<std::string> paths;
  for (const Step& step : undo.intent->steps) paths.push_back(step.path);
  std::vector<AuditEvent> events = operators_events(*agent, "undo", paths);
  for (AuditEvent& event : events) event.to = undo.base + event.path;
  return log->append(std::move(events));
}

Status update_agent(const ApplyRecord& undo, Clock& clock) {
  OverlayAgent opened = WARREN_TRY(open_overlay(undo.agent, OpenMode::kReadWrite, clock));
  if (opened.overlay.base_path != undo.base) return Ok{};
  WARREN_TRY(take_up_undone(opened.overlay, undo.intent->steps));
  return opened.agent->close();
}

}  // namespace

Status take_up_undone(const AgentOverlay& overlay, const std::vector<Step>& steps) {
  UndoneBase undone(steps);
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  TreeFinder base(overlay.base);
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  for (const UpperNode& node : tree.nodes()) {
    if (node.origin != nullptr && !node.is_nameless) WARREN_TRY(take_up(overlay, node, undone));
  }
  return unit->commit();
}

std::vector<std::string> report_undo(const ApplyRecord& undo, Clock& clock) {
  Result<HostIdentity> file = identify_host_node(undo.agent);
  if (!undo.intent || !file.ok() || file->inode != undo.inode) return {};
  std::vector<std::string> notes;
  Status recorded = record_in_trail(undo, clock);
  if (!recorded.ok()) {
    notes.push_back(fmt::format("the undo is not in the agent's audit trail: {}", recorded.error().message()));
  }
  Status updated = update_agent(undo, clock);
  if (!updated.ok()) {
    notes.push_back(
        fmt::format("changes of the running agent may now be reported as conflicts: {}", updated.error().message()));
  }
  return notes;
}

}  // namespace warren
