// log: what happened to an agent, or to a path in it.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "agent/record/agent_log.h"
#include "base/path.h"
#include "base/printable.h"
#include "cli/agent/checkpoint_output.h"
#include "cli/changes/session_here.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/attributes_json.h"
#include "cli/show/pager.h"
#include "cli/show/text.h"
#include "fs/path_ops.h"
#include "store/record/audit_row.h"

namespace warren::cli {
namespace {

Result<LogFilter> log_filter(Context& context, const Arguments& args) {
  LogFilter filter;
  if (auto path = args.find("PATH")) {  // it may be deleted: '..' is resolved as text
    std::string whole = WARREN_TRY(normalise_path(*path));
    filter.path = WARREN_TRY(normalise_path(std::filesystem::path(whole).lexically_normal().string()));
  }
  if (auto since = args.find("since")) {
    std::int64_t seconds = WARREN_TRY(parse_time(*since, context.out.zone()));
    filter.since_us = seconds * 1'000'000;
  }
  if (!args.has("all")) filter.limit = static_cast<std::size_t>(args.integer("limit"));
  filter.has_reads = args.has("reads");
  return filter;
}

Json log_event_json(const LogEvent& event, const std::optional<std::string>& path) {
  Json json{{"at", format_audit_time(event.at_us)}, {"source", name_of(event.source)}, {"event", event.verb}};
  json["who"] = event.who.empty() ? Json(nullptr) : Json(event.who);
  json["ok"] = event.ok;
  if (!event.subject.empty()) set_bytes(json, "subject", event.subject);
  if (event.to) set_bytes(json, "to", *event.to);
  if (!event.detail.empty()) set_bytes(json, "detail", event.detail);
  if (event.size_bytes) json["size_bytes"] = *event.size_bytes;
  if (event.checkpoint) json["checkpoint"] = checkpoint_json(*event.checkpoint);
  if (event.node) json["node"] = attributes_json("path", path.value_or("/"), *event.node);
  return json;
}

std::string what_text(const Output& out, const LogEvent& event) {
  std::string verb = printable(event.verb);
  std::string text = event.ok ? verb : out.paint(Ink::kRed, verb);
  if (event.checkpoint) text += " " + checkpoint_label(*event.checkpoint);
  else if (!event.subject.empty()) text += " " + printable(event.subject);
  if (event.to) text += " -> " + printable(*event.to);
  std::string more;
  if (event.size_bytes && event.ok) more = out.size(*event.size_bytes);
  if (!event.detail.empty()) more += fmt::format("{}{}", more.empty() ? "" : ", ", printable(event.detail));
  return more.empty() ? text : fmt::format("{} ({})", text, more);
}

void print_log(Context& context, const std::vector<LogEvent>& events) {
  Output& out = context.out;
  std::size_t columns = 1;
  for (const LogEvent& event : events) columns = std::max(columns, columns_of(printable(event.who)));
  Paged paged(context);
  for (const LogEvent& event : events) {
    std::string who = event.who.empty() ? "-" : printable(event.who);
    std::string time = out.paint(Ink::kYellow, out.time(event.at_us / 1'000'000));
    out.print("{}  {}  {}\n", time, pad_right(std::move(who), columns), what_text(out, event));
    if (!out.status().ok()) return;
  }
}

Result<std::unique_ptr<Agent>> open_for_log(Context& context, const Arguments& args) {
  // What the path is now needs the base; everything else works without it. Nothing here is recorded as reading.
  Layers layers = args.has("PATH") ? Layers::kMerged : Layers::kOwn;
  return Agent::open({.id_or_path = args.get("ID"), .mode = OpenMode::kReadOnly, .layers = layers}, context.clock);
}

Result<Exit> run_log(Context& context, const Arguments& given) {
  bool shows_none = !given.has("all") && given.integer("limit") == 0;
  if (shows_none) return refuse(context, "-n (--limit) must be 1 or more; --all shows everything");
  Arguments args = WARREN_TRY(with_session_here(given));
  LogFilter filter = WARREN_TRY(log_filter(context, args));
  auto agent = WARREN_TRY(open_for_log(context, args));
  std::vector<LogEvent> events = WARREN_TRY(read_log(*agent, filter, context.clock));
  if (args.has("json")) {
    Json list = Json::array();
    for (const LogEvent& event : events) list.push_back(log_event_json(event, filter.path));
    context.out.json(list);
    return Exit::kOk;
  }
  print_log(context, events);
  if (!events.empty()) return Exit::kOk;
  if (filter.path && !WARREN_TRY(exists(agent->fs(), *filter.path))) {
    return Error(Code::kNotFound, fmt::format("there is no {}, neither now nor on the record", quote(*filter.path)));
  }
  context.err.line("warren: nothing is recorded");
  return Exit::kOk;
}

}  // namespace

Command make_log() {
  return {.name = "log",
          .summary = "Show what happened to an agent, or to a path in it: who, when, what",
          .details =
              "Newest first: changes of files and keys, tool calls, checkpoints and, where it is on, the audit trail. "
              "'operator (fs)' is who made a change, and through which door; '-' is Warren itself, or unknown. "
              "With PATH: what happened to it and below it, and in which checkpoints it was changed; "
              "`warren fs ID cat PATH@CHECKPOINT` prints a file as it was.",
          .positionals = {optional_id_argument(),
                          {.name = "PATH",
                           .help = "a path inside the agent; it may be deleted",
                           .times = Times::kOptional,
                           .suggest = Suggest::kPaths}},
          .options = {{.name = "limit",
                       .letter = 'n',
                       .value = "N",
                       .help = "show at most this many, the newest",
                       .kind = ValueKind::kCount,
                       .fallback = "100"},
                      {.name = "all", .help = "show all of them"},
                      {.name = "since",
                       .value = "TIME",
                       .help = "only what happened from this time on",
                       .kind = ValueKind::kTime},
                      {.name = "reads", .help = "also what was only read, where that is recorded"},
                      json_option()},
          .subcommands = {},
          .handler = run_log};
}

}  // namespace warren::cli
