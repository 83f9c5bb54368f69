#include "changes/open_overlay.h"

#include <utility>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

Result<OverlayAgent> open_without_recovery(const std::string& id, OpenMode mode, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = id, .mode = mode}, clock));
  std::optional<AgentOverlay> overlay = agent->overlay();
  if (!overlay) {
    return Error(Code::kInvalid, fmt::format("{} has no base, so it has no changes to compare", quote(id)),
                 "`warren init --base DIR` and `warren run` create agents that have one");
  }
  return OverlayAgent{std::move(agent), *overlay};
}

}  // namespace

Result<OverlayAgent> open_overlay(const std::string& id, OpenMode mode, Clock& clock,
                                  const std::function<void(const Recovery&)>& on_recovery) {
  OverlayAgent opened = WARREN_TRY(open_without_recovery(id, mode, clock));
  bool needs_it = WARREN_TRY(needs_recovery(*opened.agent));
  if (!needs_it) return opened;
  opened.agent.reset();
  {
    OverlayAgent writable = WARREN_TRY(open_without_recovery(id, OpenMode::kReadWrite, clock));
    Result<std::optional<Recovery>> recovery = recover_apply(*writable.agent);
    bool is_in_progress = !recovery.ok() && recovery.error().code() == Code::kBusy && mode == OpenMode::kReadOnly;
    if (!recovery.ok() && !is_in_progress)
      return std::move(recovery).take_error().within("finish an interrupted apply");
    if (recovery.ok() && *recovery) on_recovery(**recovery);
  }
  return open_without_recovery(id, mode, clock);
}

}  // namespace warren
