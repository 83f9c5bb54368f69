// The tool-call trail: the agent's calls in order, never rewritten (tool_calls, wr_tool_call).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/statement.h"

namespace warren {

class Store;

enum class CallStatus { kPending, kSuccess, kError };

std::string_view name_of(CallStatus status);  // "pending", "success", "error"

// Values without a column in AgentFS's table; stored in wr_tool_call.
struct CallDetails {
  std::string session;
  std::optional<std::int64_t> parent_id;
  std::optional<double> cost_usd;
  std::optional<std::int64_t> tokens_in;
  std::optional<std::int64_t> tokens_out;

  bool operator==(const CallDetails&) const = default;
};

struct ToolCall {
  std::int64_t id = 0;
  std::string name;
  std::optional<std::string> parameters;  // JSON text
  std::optional<std::string> result;      // JSON text
  std::optional<std::string> error;
  CallStatus status = CallStatus::kPending;
  std::int64_t started_at = 0;  // Unix seconds
  std::optional<std::int64_t> completed_at;
  std::optional<std::int64_t> duration_ms;  // (completed_at - started_at) * 1000, as the format requires
  std::optional<std::int64_t> duration_ns;  // as measured, for calls recorded by us
  CallDetails details;
};

// One finished call to store. At most one of result and error may be set; neither means success
// without a result. Empty text counts as absent.
struct CallRecord {
  std::string_view name;
  std::int64_t started_at = 0;
  std::int64_t completed_at = 0;
  std::optional<std::string> parameters;  // JSON text
  std::optional<std::string> result;      // JSON text
  std::optional<std::string> error;
  std::optional<std::int64_t> duration_ns;
  CallDetails details;
  bool is_json = false;  // dump_json() made both texts, so they are not parsed again
};

struct CallFilter {
  std::optional<std::string> name;
  std::optional<CallStatus> status;
  std::optional<std::int64_t> since;  // started_at greater than this
  std::size_t limit = SIZE_MAX;       // applied after the other filters
};

struct CallStats {
  std::string name;
  std::int64_t total_calls = 0;  // finished ones: pending calls do not count
  std::int64_t successful = 0;
  std::int64_t failed = 0;
  double avg_duration_ms = 0;
};

// Thread-safe. A finished row is never changed or removed; a pending one is finished once. Names are
// 1 to limits::kToolNameBytes bytes (kInvalid, kLimit); each text at most limits::kValueBytes
// (kTooLarge); parameters and results must be JSON, and a call must not end before it starts (kInvalid).
class ToolCalls {
 public:
  static Result<std::unique_ptr<ToolCalls>> open(Store& store);

  Result<std::int64_t> record(const CallRecord& call);

  // kUnsupported if the table cannot store a pending call (it has no `status`).
  Result<std::int64_t> start(std::string_view name, const std::optional<std::string>& parameters,
                             const CallDetails& details = {});
  // kNotFound: no such call. kConflict: it is already finished. If the clock was set back in the meantime, the
  // call ends when it started.
  Status succeed(std::int64_t id, const std::optional<std::string>& result);
  Status fail(std::int64_t id, std::string_view error);

  // kCorrupt for a row with an unknown status.
  Result<ToolCall> get(std::int64_t id);
  Result<std::vector<ToolCall>> list(const CallFilter& filter = {});  // newest first
  Result<std::vector<CallStats>> stats();                             // most called first
  Result<std::optional<CallStats>> stats_for(std::string_view name);
  Result<std::uint64_t> count_ended();  // also those that other programs have added

 private:
  explicit ToolCalls(Store& store) : store_(store) {}
  Status prepare_readers();
  Status prepare_writers();
  template <class Change>
  auto recorded_end(std::string_view name, bool has_failed, const Change& change) -> decltype(change());
  Result<std::int64_t> insert_call(const CallRecord& call);
  Result<std::int64_t> insert_pending(std::string_view name, const std::optional<std::string>& parameters,
                                      const CallDetails& details);
  Status finish_pending(std::int64_t id, CallStatus status, const std::optional<std::string_view>& result,
                        const std::optional<std::string_view>& error);
  Result<ToolCall> find_call(std::int64_t id);
  Status write_details(std::int64_t id, std::optional<std::int64_t> started_ns, std::optional<std::int64_t> duration_ns,
                       const CallDetails& details);
  Status finish(std::int64_t id, CallStatus status, const std::optional<std::string_view>& result,
                const std::optional<std::string_view>& error);

  Store& store_;
  Statement insert_;
  Statement insert_pending_;
  Statement insert_details_;
  Statement finish_;
  Statement finish_details_;
  Statement find_;
  Statement list_;
  Statement list_by_name_;
  Statement stats_;
  Statement stats_for_;
};

}  // namespace warren
