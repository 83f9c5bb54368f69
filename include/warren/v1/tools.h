// An agent's trail: its tool calls in order, never rewritten.
//
// Record a call when it is finished, or start it, do the work, and finish it once. A call that was started and never
// finished stays pending in the trail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <warren/result.h>

namespace warren::v1 {

struct AgentState;

enum class CallStatus { kPending, kSuccess, kError };

// Optional facts about a call.
struct CallDetails {
  std::string session{};
  std::optional<std::int64_t> parent_id{};  // the call that made this one
  std::optional<double> cost_usd{};
  std::optional<std::int64_t> tokens_in{};
  std::optional<std::int64_t> tokens_out{};
};

struct ToolCall {
  std::int64_t id = 0;
  std::string name;
  std::optional<std::string> parameters{};  // JSON text
  std::optional<std::string> result{};      // JSON text
  std::optional<std::string> error{};
  CallStatus status = CallStatus::kPending;
  std::int64_t started_at = 0;  // Unix seconds
  std::optional<std::int64_t> completed_at{};
  std::optional<std::int64_t> duration_ms{};  // computed from whole seconds, as the file format defines it
  std::optional<std::int64_t> duration_ns{};  // measured between start and finish
  CallDetails details{};
};

// One finished call. At most one of result and error; neither means success without a result.
struct CallRecord {
  std::string name{};
  std::int64_t started_at = 0;  // Unix seconds
  std::int64_t completed_at = 0;
  std::optional<std::string> parameters{};  // JSON text
  std::optional<std::string> result{};      // JSON text
  std::optional<std::string> error{};
  std::optional<std::int64_t> duration_ns{};
  CallDetails details{};
};

struct CallFilter {
  std::optional<std::string> name{};
  std::optional<CallStatus> status{};
  std::optional<std::int64_t> since{};  // started after this time, Unix seconds
  std::size_t limit = SIZE_MAX;         // applied after the other filters
};

struct CallStats {
  std::string name;
  std::int64_t total_calls = 0;  // finished calls
  std::int64_t successful = 0;
  std::int64_t failed = 0;
  double avg_duration_ms = 0;
};

// A view of an open agent: cheap to copy, valid as long as the agent. Thread-safe.
class ToolCalls {
 public:
  Result<std::int64_t> start(std::string_view name, const std::optional<std::string>& parameters = std::nullopt,
                             const CallDetails& details = {});
  // kNotFound: no such call. kConflict: it is already finished.
  Status succeed(std::int64_t id, const std::optional<std::string>& result = std::nullopt);
  Status fail(std::int64_t id, std::string_view error);
  Result<std::int64_t> record(const CallRecord& call);

  Result<ToolCall> get(std::int64_t id);
  Result<std::vector<ToolCall>> list(const CallFilter& filter = {});  // newest first
  Result<std::vector<CallStats>> stats();                             // most called first
  Result<std::optional<CallStats>> stats_for(std::string_view name);

 private:
  friend class Agent;
  explicit ToolCalls(AgentState& state) : state_(&state) {}
  AgentState* state_;
};

}  // namespace warren::v1
