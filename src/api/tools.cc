#include <warren/v1/tools.h>

#include <utility>

#include "api/state.h"
#include "store/record/tool_calls.h"

namespace warren::v1 {
namespace {

static_assert(static_cast<int>(warren::CallStatus::kSuccess) == static_cast<int>(CallStatus::kSuccess));
static_assert(static_cast<int>(warren::CallStatus::kError) == static_cast<int>(CallStatus::kError));

warren::CallDetails to_internal(const CallDetails& details) {
  return {.session = details.session,
          .parent_id = details.parent_id,
          .cost_usd = details.cost_usd,
          .tokens_in = details.tokens_in,
          .tokens_out = details.tokens_out};
}

ToolCall to_public(warren::ToolCall call) {
  return {.id = call.id,
          .name = std::move(call.name),
          .parameters = std::move(call.parameters),
          .result = std::move(call.result),
          .error = std::move(call.error),
          .status = static_cast<CallStatus>(call.status),
          .started_at = call.started_at,
          .completed_at = call.completed_at,
          .duration_ms = call.duration_ms,
          .duration_ns = call.duration_ns,
          .details = {.session = std::move(call.details.session),
                      .parent_id = call.details.parent_id,
                      .cost_usd = call.details.cost_usd,
                      .tokens_in = call.details.tokens_in,
                      .tokens_out = call.details.tokens_out}};
}

CallStats to_public(warren::CallStats stats) {
  return {.name = std::move(stats.name),
          .total_calls = stats.total_calls,
          .successful = stats.successful,
          .failed = stats.failed,
          .avg_duration_ms = stats.avg_duration_ms};
}

}  // namespace

Result<std::int64_t> ToolCalls::start(std::string_view name, const std::optional<std::string>& parameters,
                                      const CallDetails& details) {
  return state_->agent->tools().start(name, parameters, to_internal(details));
}

Status ToolCalls::succeed(std::int64_t id, const std::optional<std::string>& result) {
  return state_->agent->tools().succeed(id, result);
}

Status ToolCalls::fail(std::int64_t id, std::string_view error) { return state_->agent->tools().fail(id, error); }

Result<std::int64_t> ToolCalls::record(const CallRecord& call) {
  warren::CallRecord record{.name = call.name,
                            .started_at = call.started_at,
                            .completed_at = call.completed_at,
                            .parameters = call.parameters,
                            .result = call.result,
                            .error = call.error,
                            .duration_ns = call.duration_ns,
                            .details = to_internal(call.details)};
  return state_->agent->tools().record(record);
}

Result<ToolCall> ToolCalls::get(std::int64_t id) {
  warren::ToolCall call = WARREN_TRY(state_->agent->tools().get(id));
  return to_public(std::move(call));
}

Result<std::vector<ToolCall>> ToolCalls::list(const CallFilter& filter) {
  warren::CallFilter internal{.name = filter.name, .since = filter.since, .limit = filter.limit};
  if (filter.status) internal.status = static_cast<warren::CallStatus>(*filter.status);
  std::vector<warren::ToolCall> found = WARREN_TRY(state_->agent->tools().list(internal));
  std::vector<ToolCall> calls;
  calls.reserve(found.size());
  for (warren::ToolCall& call : found) calls.push_back(to_public(std::move(call)));
  return calls;
}

Result<std::vector<CallStats>> ToolCalls::stats() {
  std::vector<warren::CallStats> found = WARREN_TRY(state_->agent->tools().stats());
  std::vector<CallStats> stats;
  stats.reserve(found.size());
  for (warren::CallStats& row : found) stats.push_back(to_public(std::move(row)));
  return stats;
}

Result<std::optional<CallStats>> ToolCalls::stats_for(std::string_view name) {
  std::optional<warren::CallStats> found = WARREN_TRY(state_->agent->tools().stats_for(name));
  if (!found) return std::optional<CallStats>();
  return std::optional<CallStats>(to_public(*std::move(found)));
}

}  // namespace warren::v1
