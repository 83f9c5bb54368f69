#include "changes/upper/open_overlay.h"

#include <utility>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {

Result<OverlayAgent> open_overlay(const std::string& id, OpenMode mode, Clock& clock) {
  return open_overlay({.id_or_path = id, .mode = mode}, clock);
}

Result<OverlayAgent> open_overlay(const AgentOptions& options, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open(options, clock));
  std::optional<AgentOverlay> overlay = agent->overlay();
  if (!overlay) {
    return Error(Code::kInvalid,
                 fmt::format("{} has no base, so it has no changes to compare", quote(options.id_or_path)),
                 "`warren init --base DIR` and `warren run` create agents that have one");
  }
  return OverlayAgent{std::move(agent), *overlay};
}

namespace {

Result<std::vector<UndoRecovery>> recover_undos_of(const std::string& id, Clock& clock) {
  std::optional<std::string> base;
  {
    auto agent = WARREN_TRY(Agent::open({.id_or_path = id, .layers = Layers::kOwn}, clock));
    base = agent->base();
  }
  auto is_of_base = [&](const ApplyRecord& record) { return record.base == base; };
  std::vector<UndoRecovery> undos = WARREN_TRY(recover_undos(is_of_base, clock));
  for (UndoRecovery& undo : undos) {
    if (undo.failure) return std::move(*undo.failure);
  }
  return undos;
}

}  // namespace

Result<RecoveredAgent> open_and_recover(const std::string& id, Clock& clock) {
  // An undo updates the agent, and is finished first: a session in use must not follow the base before that.
  std::vector<UndoRecovery> undos = WARREN_TRY(recover_undos_of(id, clock));
  std::optional<Recovery> recovery;
  {
    OverlayAgent before = WARREN_TRY(open_overlay(id, OpenMode::kReadWrite, clock));
    recovery = WARREN_TRY(recover_apply(*before.agent).within("finish an interrupted apply"));
  }
  OverlayAgent opened = WARREN_TRY(open_overlay(id, OpenMode::kReadWrite, clock));
  return RecoveredAgent{std::move(opened), std::move(recovery), std::move(undos)};
}

Status refuse_interrupted(Agent& agent, const std::string& id) {
  if (!WARREN_TRY(is_interrupted(agent))) return Ok{};
  return Error(Code::kBusy, fmt::format("an apply of {} is under way or was interrupted", quote(id)),
               fmt::format("`warren apply {} --recover` finishes it", id));
}

}  // namespace warren
