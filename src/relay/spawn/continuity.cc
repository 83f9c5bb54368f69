#include "relay/spawn/continuity.h"

#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace warren::relay {

Status Continuity::plan(Plan& plan, const Outgoing& outgoing) {
  ContinuityRequest request = WARREN_TRY(parse_continuity_request(outgoing.message));
  if (request.action == ContinuityAction::kSave) return plan_save(plan, outgoing, std::move(request));
  return plan_load(plan, outgoing, request);
}

Status Continuity::plan_save(Plan& plan, const Outgoing& outgoing, ContinuityRequest request) {
  if (request.state.size() > config_.continuity.bytes_max) {
    return Error(Code::kTooLarge, fmt::format("the state has {} bytes; the limit is {}", request.state.size(),
                                              config_.continuity.bytes_max));
  }
  SavedState state{outgoing.row.agent, 0, clock_.now_us(), std::move(request.state)};
  state.version = WARREN_TRY(ledger_.newest_version(state.agent))
  +1;
  for (const SavedState& earlier : plan.supervision.saves) {
    if (earlier.agent == state.agent) state.version = earlier.version + 1;
  }
  Message notice{.kind = "continuity", .reference = outgoing.row.id};
  notice.others = {{"STATE", "saved"}, {"VERSION", std::to_string(state.version)}};
  notices_.notify(plan, state.agent, std::move(notice));
  plan.supervision.saves.push_back(std::move(state));
  return Ok{};
}

Status Continuity::plan_load(Plan& plan, const Outgoing& outgoing, const ContinuityRequest& request) {
  const std::string& agent = outgoing.row.agent;
  std::optional<SavedState> state = WARREN_TRY(ledger_.find_state(agent, request.version));
  for (const SavedState& saved : plan.supervision.saves) {
    if (saved.agent == agent && (!request.version || *request.version == saved.version)) state = saved;
  }
  Message notice{.kind = "continuity", .reference = outgoing.row.id};
  notice.others.push_back({"STATE", state ? "loaded" : "none"});
  if (state) notice.others.push_back({"VERSION", std::to_string(state->version)});
  if (state) notice.body = std::move(state->content);
  notices_.notify(plan, agent, std::move(notice));
  return Ok{};
}

}  // namespace warren::relay
