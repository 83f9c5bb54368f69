#include <fmt/format.h>

#include "base/printable.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/call_output.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

// Whoever cannot read the id learns it from the message: the call is recorded.
Result<Exit> print_id(Context& context, const Arguments& args, std::int64_t id) {
  if (args.has("json")) context.out.json({{"id", id}});
  else context.out.print("{}\n", id);
  if (context.out.finish().ok()) return Exit::kOk;
  context.err.line(fmt::format("{}: the tool call is recorded as {}", context.root.name, id));
  return Exit::kFailed;
}

CallDetails details_of(const Arguments& args) {
  CallDetails details;
  details.session = args.find("session").value_or("");
  if (args.has("parent")) details.parent_id = args.integer("parent");
  return details;
}

Result<Exit> run_record(Context& context, const Arguments& args) {
  if (args.has("result") && args.has("error")) {
    return refuse(context, "'--result' and '--error' cannot be used together");
  }
  std::int64_t now = context.clock.now().seconds;
  CallRecord call{.name = args.get("NAME"), .started_at = now, .completed_at = now};
  if (auto text = args.find("started")) call.started_at = WARREN_TRY(parse_time(*text, context.out.zone()));
  if (auto text = args.find("completed")) call.completed_at = WARREN_TRY(parse_time(*text, context.out.zone()));
  call.parameters = args.find("params");
  call.result = args.find("result");
  call.error = args.find("error");
  call.details = details_of(args);
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite, "tools"));
  std::int64_t id = WARREN_TRY(agent->tools().record(call));
  return print_id(context, args, id);
}

Result<Exit> run_start(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite, "tools"));
  std::int64_t id = WARREN_TRY(agent->tools().start(args.get("NAME"), args.find("params"), details_of(args)));
  return print_id(context, args, id);
}

Result<Exit> run_succeed(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite, "tools"));
  WARREN_TRY(agent->tools().succeed(args.integer("CALL"), args.find("result")));
  return Exit::kOk;
}

Result<Exit> run_fail(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite, "tools"));
  WARREN_TRY(agent->tools().fail(args.integer("CALL"), args.get("ERROR")));
  return Exit::kOk;
}

Result<Exit> run_tools_get(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead, "tools"));
  ToolCall call = WARREN_TRY(agent->tools().get(args.integer("CALL")));
  WARREN_TRY(agent->check_recorded());
  if (args.has("json")) {
    context.out.json(call_json_full(call));
    return Exit::kOk;
  }
  Output& out = context.out;
  out.print("      id: {}\n    tool: {}\n  status: {}\n", call.id, printable(call.name), name_of(call.status));
  out.print(" started: {}\n", out.time(call.started_at));
  if (call.completed_at) out.print("finished: {}\n", out.time(*call.completed_at));
  if (call.duration_ns) out.print("    took: {:.3f} ms\n", static_cast<double>(*call.duration_ns) / 1e6);
  else if (call.duration_ms) out.print("    took: {} ms\n", *call.duration_ms);
  if (call.parameters) out.print("  params: {}\n", printable(*call.parameters));
  if (call.result) out.print("  result: {}\n", printable(*call.result));
  if (call.error) out.print("   error: {}\n", printable(*call.error));
  return Exit::kOk;
}

Result<std::vector<CallStats>> stats_of(ToolCalls& tools, const std::optional<std::string>& name) {
  if (!name) return tools.stats();
  std::optional<CallStats> one = WARREN_TRY(tools.stats_for(*name));
  std::vector<CallStats> all;
  if (one) all.push_back(*one);
  return all;
}

Result<Exit> run_stats(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead, "tools"));
  std::vector<CallStats> all = WARREN_TRY(stats_of(agent->tools(), args.find("NAME")));
  WARREN_TRY(agent->check_recorded());
  if (args.has("json")) {
    Json list = Json::array();
    for (const CallStats& stats : all) {
      list.push_back({{"name", stats.name},
                      {"total_calls", stats.total_calls},
                      {"successful", stats.successful},
                      {"failed", stats.failed},
                      {"avg_duration_ms", stats.avg_duration_ms}});
    }
    context.out.json(list);
    return Exit::kOk;
  }
  if (all.empty()) context.out.line("No finished tool calls");
  else context.out.print("{:<24} {:>8} {:>8} {:>8} {:>12}\n", "TOOL", "CALLS", "OK", "FAILED", "AVERAGE");
  for (const CallStats& stats : all) {
    std::string name = pad_right(shorten(printable(stats.name), 24), 24);
    context.out.print("{} {:>8} {:>8} {:>8} {:>10.1f}ms\n", name, stats.total_calls, stats.successful, stats.failed,
                      stats.avg_duration_ms);
  }
  return Exit::kOk;
}

Command tool(std::string_view name, std::string_view summary, std::vector<Positional> positionals,
             std::vector<Option> options, Handler handler) {
  return {.name = name,
          .summary = summary,
          .details = "",
          .positionals = std::move(positionals),
          .options = std::move(options),
          .subcommands = {},
          .handler = handler};
}

}  // namespace

Command make_tools() {
  Positional name{.name = "NAME", .help = "the tool's name"};
  Positional call{.name = "CALL", .help = "the number that `start` or `record` printed", .kind = ValueKind::kInteger};
  Option params{.name = "params", .value = "JSON", .help = "the arguments the tool was called with"};
  Option result{.name = "result", .value = "JSON", .help = "the result of the call"};
  Option session{.name = "session", .value = "TEXT", .help = "the session it belongs to"};
  Option parent{.name = "parent", .value = "CALL", .help = "the call that made this one", .kind = ValueKind::kInteger};
  Command record =
      tool("record", "Store a finished call and print its number", {name},
           {params,
            result,
            {.name = "error", .value = "TEXT", .help = "why it failed"},
            {.name = "started", .value = "TIME", .help = "when it started [default: now]", .kind = ValueKind::kTime},
            {.name = "completed", .value = "TIME", .help = "when it ended [default: now]", .kind = ValueKind::kTime},
            session,
            parent,
            json_option()},
           run_record);
  return {.name = "tools",
          .summary = "Record and show an agent's tool calls",
          .details = "A finished call is never changed or removed. `warren timeline` lists them.",
          .positionals = {id_argument()},
          .options = {},
          .subcommands = {record,
                          tool("start", "Record the start of a call and print its number", {name},
                               {params, session, parent, json_option()}, run_start),
                          tool("succeed", "Record that a call succeeded", {call}, {result}, run_succeed),
                          tool("fail", "Record that a call failed", {call, {.name = "ERROR", .help = "why it failed"}},
                               {}, run_fail),
                          tool("get", "Show one call", {call}, {json_option()}, run_tools_get),
                          tool("stats", "Count calls by tool",
                               {{.name = "NAME", .help = "only this tool", .times = Times::kOptional}}, {json_option()},
                               run_stats)},
          .handler = nullptr};
}

}  // namespace warren::cli
