#include "cli/show/call_output.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

// "" and NULL both mean absent, and text that is not JSON is left out, as AgentFS does.
void set_json(Json& object, const char* key, const std::optional<std::string>& text) {
  if (!text || text->empty()) return;
  Result<Json> value = parse_json(*text);
  if (value.ok()) object[key] = *value;
}

std::string started(const Output& out, std::int64_t seconds) {
  std::string text = out.time(seconds);
  bool is_calendar = text.find(':') != text.npos;
  return is_calendar ? text : fmt::format("Invalid timestamp: {}", seconds);
}

// Calls that other programs recorded have no time of ours, but whole seconds.
std::string duration_of(const ToolCall& call, Durations durations) {
  if (durations == Durations::kTrue && call.duration_ns) {
    constexpr std::int64_t kMillisecond = 1'000'000;
    if (*call.duration_ns < kMillisecond) return "<1ms";
    return fmt::format("{}ms", *call.duration_ns / kMillisecond);
  }
  return call.duration_ms ? fmt::format("{}ms", *call.duration_ms) : "--";
}

}  // namespace

void print_calls(Output& out, const std::vector<ToolCall>& calls, Durations durations) {
  if (calls.empty()) {
    out.line("No tool calls found");
    return;
  }
  out.print("{:<4} {:<20} {:<10} {:>10} {:<20}\n", "ID", "TOOL", "STATUS", "DURATION", "STARTED");
  for (const ToolCall& call : calls) {
    std::string name = pad_right(shorten(printable(call.name), 20), 20);
    out.print("{:<4} {} {:<10} {:>10} {:<20}\n", call.id, name, name_of(call.status), duration_of(call, durations),
              started(out, call.started_at));
  }
}

Json call_json(const ToolCall& call) {
  Json json{{"id", call.id}, {"name", call.name}};
  set_json(json, "parameters", call.parameters);
  set_json(json, "result", call.result);
  if (call.error && !call.error->empty()) json["error"] = *call.error;
  json["status"] = name_of(call.status);
  json["started_at"] = call.started_at;
  if (call.completed_at) json["completed_at"] = *call.completed_at;
  if (call.duration_ms) json["duration_ms"] = *call.duration_ms;
  return json;
}

Json call_json_full(const ToolCall& call) {
  Json json = call_json(call);
  if (call.duration_ns) json["duration_ns"] = *call.duration_ns;
  const CallDetails& details = call.details;
  if (!details.session.empty()) json["session"] = details.session;
  if (details.parent_id) json["parent_id"] = *details.parent_id;
  if (details.cost_usd) json["cost_usd"] = *details.cost_usd;
  if (details.tokens_in) json["tokens_in"] = *details.tokens_in;
  if (details.tokens_out) json["tokens_out"] = *details.tokens_out;
  return json;
}

}  // namespace warren::cli
