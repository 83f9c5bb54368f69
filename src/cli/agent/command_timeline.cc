#include "cli/changes/session_here.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/call_output.h"
#include "cli/show/timeline.h"
#include "cli/syntax/values.h"

namespace warren::cli {

CallFilter call_filter(const Arguments& args) {
  CallFilter filter;
  filter.name = args.find("filter");
  if (auto status = args.find("status")) {
    filter.status = *status == "pending"   ? CallStatus::kPending
                    : *status == "success" ? CallStatus::kSuccess
                                           : CallStatus::kError;
  }
  std::int64_t limit = args.integer("limit");
  if (limit >= 0) filter.limit = static_cast<std::size_t>(limit);
  return filter;
}

namespace {

Result<Exit> run_timeline(Context& context, const Arguments& args) {
  CallFilter filter = call_filter(args);
  if (auto since = args.find("since")) filter.since = WARREN_TRY(parse_time(*since, context.out.zone()));
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead, "tools"));
  std::vector<ToolCall> calls = WARREN_TRY(agent->tools().list(filter));
  if (args.has("json") || args.get("format") == "json") {
    Json list = Json::array();
    for (const ToolCall& call : calls) list.push_back(call_json_full(call));
    context.out.json(list);
  } else {
    print_calls(context.out, calls, Durations::kTrue);
  }
  return Exit::kOk;
}

}  // namespace

std::vector<Option> timeline_options() {
  return {{.name = "limit",
           .value = "LIMIT",
           .help = "show at most this many, newest first",
           .kind = ValueKind::kInteger,
           .fallback = "100"},
          {.name = "filter", .value = "FILTER", .help = "only calls of this tool"},
          {.name = "status",
           .value = "STATUS",
           .help = "only calls with this status",
           .choices = {"pending", "success", "error"}},
          {.name = "format",
           .value = "FORMAT",
           .help = "the output format",
           .choices = {"table", "json"},
           .fallback = "table"}};
}

Command make_timeline() {
  std::vector<Option> options = timeline_options();
  options.push_back(
      {.name = "since", .value = "TIME", .help = "only calls that started after this time", .kind = ValueKind::kTime});
  options.push_back(json_option());
  return {.name = "timeline",
          .summary = "Show an agent's tool calls",
          .details = "Filters apply before the limit.",
          .positionals = {optional_id_argument()},
          .options = options,
          .subcommands = {},
          .handler = in_session_here<run_timeline>};
}

}  // namespace warren::cli
