#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "agent/keys/audit_key.h"
#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "cli/changes/session_here.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

constexpr std::chrono::milliseconds kFollowPause{200};
constexpr std::chrono::milliseconds kAnchorPauseMin{1000};

Result<AuditFilter> audit_filter(const Arguments& args, Zone zone) {
  AuditFilter filter;
  for (auto [name, at] : {std::pair("since", &filter.since_us), std::pair("until", &filter.until_us)}) {
    std::optional<std::string> text = args.find(name);
    if (!text) continue;
    std::int64_t seconds = WARREN_TRY(parse_time(*text, zone));
    *at = seconds * 1'000'000;
  }
  filter.ops = args.all("op");
  if (auto path = args.find("path")) filter.path = WARREN_TRY(normalise_path(*path));
  if (auto outcome = args.find("outcome")) filter.ok = *outcome == "ok";
  filter.door = args.find("door");
  return filter;
}

// With milliseconds: many events are in the same second.
std::string event_time(const Output& out, std::int64_t at_us) {
  return fmt::format("{}.{:03}", out.time(at_us / 1'000'000), at_us / 1000 % 1000);
}

void print_row(Output& out, const AuditRow& row) {
  const AuditEvent& event = row.event;
  std::string outcome = event.ok ? "ok" : event.err.empty() ? "failed" : event.err;
  std::string path = event.path.empty() ? "-" : printable(event.path);
  if (event.to) path += fmt::format(" -> {}", printable(*event.to));
  out.print("{} {:<10} {} {:>10}  {:<9} {}\n", event_time(out, event.at_us), printable(event.op),
            out.paint(event.ok ? Ink::kPlain : Ink::kRed, fmt::format("{:<17}", printable(outcome))),
            event.size_bytes ? out.size(*event.size_bytes) : "-", printable(event.door), path);
}

Status print_trail_row(Context& context, const Arguments& args, const AuditRow& row) {
  if (args.has("json")) {
    Json json = WARREN_TRY(parse_json(audit_line(row)));
    context.out.json_line(json);
  } else {
    print_row(context.out, row);
  }
  return context.out.status();
}

Result<Exit> run_audit_show(Context& context, const Arguments& args) {
  AuditFilter filter = WARREN_TRY(audit_filter(args, context.out.zone()));
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  std::optional<std::size_t> last;
  if (!args.has("all")) last = static_cast<std::size_t>(args.integer("limit"));
  WARREN_TRY(
      read_trail(*agent, filter, last, [&](const AuditRow& row) { return print_trail_row(context, args, row); }));
  return Exit::kOk;
}

Result<Exit> run_audit_tail(Context& context, const Arguments& args) {
  AuditFilter filter = WARREN_TRY(audit_filter(args, context.out.zone()));
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  auto print = [&](const AuditRow& row) { return print_trail_row(context, args, row); };
  std::int64_t seen = WARREN_TRY(read_trail(*agent, filter, static_cast<std::size_t>(args.integer("lines")), print));
  while (args.has("follow") && !context.out.reader_is_gone()) {
    WARREN_TRY(context.out.finish());
    std::this_thread::sleep_for(kFollowPause);
    seen = WARREN_TRY(read_trail_after(*agent, seen, filter, print));
  }
  return Exit::kOk;
}

Result<Exit> run_audit_export(Context& context, const Arguments& args) {
  AuditFilter filter = WARREN_TRY(audit_filter(args, context.out.zone()));
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  WARREN_TRY(read_trail(*agent, filter, std::nullopt, [&](const AuditRow& row) -> Status {
    context.out.raw(audit_line(row));
    return context.out.status();
  }));
  return Exit::kOk;
}

Json verdict_json(const TrailVerdict& one) {
  const AuditVerdict& verdict = one.verdict;
  Json json{{"ok", !verdict.fault},
            {"rows", verdict.rows},
            {"head", {{"seq", verdict.head.seq}, {"hash", hex_of(verdict.head.hash)}}},
            {"anchors", one.anchors},
            {"note", one.has_note}};
  for (const AuditSuccession& next : verdict.successions) {
    json["successions"].push_back({{"seq", next.seq}, {"before", next.before}, {"after", next.after}});
  }
  for (const std::string& line : one.damaged_anchors) json["damaged_anchors"].push_back(line);
  if (verdict.fault) json["fault"] = {{"seq", verdict.fault->seq}, {"why", verdict.fault->why}};
  return json;
}

void print_verdict(Context& context, const TrailVerdict& one) {
  const AuditVerdict& verdict = one.verdict;
  if (verdict.fault) {
    context.out.print("row {}: {}\n", verdict.fault->seq, printable(verdict.fault->why));
    context.out.print("{} before it {} intact\n", verdict.rows == 1 ? "the row" : fmt::format("{} rows", verdict.rows),
                      verdict.rows == 1 ? "is" : "are");
    return;
  }
  context.out.print("{} intact", verdict.rows == 1 ? "1 row" : fmt::format("{} rows", verdict.rows));
  if (verdict.rows > 0) context.out.print(", the last with the hash {}", hex_of(verdict.head.hash).substr(0, 16));
  context.out.print("\n");
  for (const AuditSuccession& next : verdict.successions) {
    context.out.print("from row {} on it is the trail of {}, before that of {}: the file was copied or renamed\n",
                      next.seq, quote(printable(next.after)), quote(printable(next.before)));
  }
  if (one.anchors > 0) context.out.print("compared with {} anchor{}\n", one.anchors, one.anchors == 1 ? "" : "s");
  for (const std::string& line : one.damaged_anchors) {
    context.out.print("{} is damaged: it says nothing, and was not compared\n", printable(line));
  }
  if (one.anchors == 0 && !one.has_note) {
    context.out.line("there is no anchor and no note of this trail: a missing end could not be noticed");
  }
}

Result<Exit> run_audit_verify(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  VerifyOptions options{.anchors = args.all("anchor"), .from = args.has("from") ? args.integer("from") : 1};
  TrailVerdict verdict = WARREN_TRY(verify_audit(*agent, options, context.clock));
  bool is_sound = !verdict.verdict.fault;
  if (args.has("json")) context.out.json(verdict_json(verdict));
  else print_verdict(context, verdict);
  WARREN_TRY(context.out.finish());  // the verdict comes before what to do about it
  bool is_replaced = !is_sound && verdict.verdict.fault->is_replacement;
  if (args.has("accept") && !is_sound && !is_replaced) {
    return Error(Code::kConflict, "--accept is for a trail whose rows are intact, but are not those that were noted");
  }
  if (args.has("accept")) {
    WARREN_TRY(accept_audit(*agent));
    context.err.line("warren: noted the end of the trail as it is now");
  } else if (is_replaced) {
    context.err.print(
        "hint: after `warren restore` a missing end is expected; `warren audit {} verify --accept` takes the trail as "
        "it is\n",
        context.err.name(shell_word(args.get("ID"))));
  }
  return is_sound ? Exit::kOk : Exit::kFailed;
}

// It is opened anew each time, so that nobody waits for us in between.
Result<std::int64_t> end_of_trail(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  return last_audit_row(*agent);
}

Status put_one_anchor(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  bool is_there = WARREN_TRY(put_anchor(*agent, args.get("WHERE"), context.clock));
  if (!is_there) context.err.line("warren: the trail is empty; there is nothing to anchor");
  return Ok{};
}

// An anchor that cannot be reached now is tried again: a record of it that stops is worse than one with a gap.
Result<Exit> run_audit_anchor(Context& context, const Arguments& args) {
  std::chrono::milliseconds interval{};
  if (args.has("every")) interval = WARREN_TRY(parse_duration(args.get("every")));
  if (args.has("every") && interval < kAnchorPauseMin) {
    return refuse(context, "--every: the shortest time between two anchors is 1s");
  }
  std::int64_t anchored = WARREN_TRY(end_of_trail(context, args));
  WARREN_TRY(put_one_anchor(context, args));
  if (!args.has("every")) return Exit::kOk;
  for (;;) {
    std::this_thread::sleep_for(interval);
    Result<std::int64_t> now = end_of_trail(context, args);
    Status put = Ok{};
    if (!now.ok()) put = now.error();
    else if (*now != anchored) put = put_one_anchor(context, args);
    if (put.ok()) anchored = *now;
    else context.err.line(fmt::format("warren: {}", put.error().message()));
  }
}

template <AuditLevel level>
Result<Exit> run_audit_switch(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite));
  WARREN_TRY(switch_audit(*agent, level, "audit", context.clock));
  return Exit::kOk;
}

Result<Exit> run_audit_rotate(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite));
  std::string id = WARREN_TRY(rotate_audit_key());
  WARREN_TRY(record_new_key(*agent, "audit", context.clock));
  context.out.print("new events are hashed with the key {}\n", id);
  return Exit::kOk;
}

std::vector<Option> filter_options(std::vector<Option> more) {
  std::vector<Option> all{
      {.name = "since", .value = "TIME", .help = "only events from this time on", .kind = ValueKind::kTime},
      {.name = "until", .value = "TIME", .help = "only events before this time", .kind = ValueKind::kTime},
      {.name = "op", .value = "OP", .help = "only this operation: read, write, delete, …; repeatable", .is_list = true},
      {.name = "path", .value = "PATH", .help = "only this path and what is below it", .suggest = Suggest::kPaths},
      {.name = "outcome", .value = "OUTCOME", .help = "only what succeeded or failed", .choices = {"ok", "failed"}},
      {.name = "door", .value = "DOOR", .help = "only what was done through this door: vfs, run, mount, …"}};
  for (Option& one : more) all.push_back(std::move(one));
  return all;
}

Command switch_command(std::string_view name, std::string_view summary, std::string_view details, Handler handler) {
  return {.name = name,
          .summary = summary,
          .details = details,
          .positionals = {},
          .options = {},
          .subcommands = {},
          .handler = handler};
}

Command make_audit_show() {
  return {.name = "show",
          .summary = "Show events, oldest first",
          .details = "",
          .positionals = {},
          .options = filter_options({{.name = "limit",
                                      .letter = 'n',
                                      .value = "N",
                                      .help = "show at most this many, the newest",
                                      .kind = ValueKind::kCount,
                                      .fallback = "100"},
                                     {.name = "all", .help = "show all of them"},
                                     json_option()}),
          .subcommands = {},
          .handler = in_session_here<run_audit_show>};
}

Command make_audit_tail() {
  return {.name = "tail",
          .summary = "Show the newest events, and new ones as they come",
          .details = "",
          .positionals = {},
          .options = filter_options({{.name = "lines",
                                      .letter = 'n',
                                      .value = "N",
                                      .help = "how many to start with",
                                      .kind = ValueKind::kCount,
                                      .fallback = "10"},
                                     {.name = "follow", .letter = 'f', .help = "keep running until interrupted"},
                                     json_option()}),
          .subcommands = {},
          .handler = in_session_here<run_audit_tail>};
}

Command make_audit_verify() {
  return {.name = "verify",
          .summary = "Check that nothing in the trail was changed, removed or reordered",
          .details =
              "Names the first row that is not as it was written, and exits with 1. Compares the trail with Warren's "
              "note of its end on this machine, and with the anchors that are given.",
          .positionals = {},
          .options = {{.name = "anchor",
                       .value = "WHERE",
                       .help = "also compare with this anchor; repeatable",
                       .is_list = true},
                      {.name = "from",
                       .value = "ROW",
                       .help = "trust the rows before this one, for example after a lost key",
                       .kind = ValueKind::kCount},
                      {.name = "accept", .help = "accept the trail as it is now as the complete one"},
                      json_option()},
          .subcommands = {},
          .handler = in_session_here<run_audit_verify>};
}

Command make_audit_export() {
  return {.name = "export",
          .summary = "Print the trail as lines of JSON",
          .details = "",
          .positionals = {},
          .options = filter_options({}),
          .subcommands = {},
          .handler = in_session_here<run_audit_export>};
}

Command make_audit_anchor() {
  return {.name = "anchor",
          .summary = "Note the end of the trail in a place that the agent cannot reach",
          .details =
              "WHERE is a file of the host, agent:ID for /audit/anchors.jsonl in another agent's namespace, or a "
              "backend such as s3://BUCKET/PREFIX. `verify --anchor WHERE` compares the trail with it.",
          .positionals = {{.name = "WHERE", .help = "a file, agent:ID, or the address of a backend"}},
          .options = {{.name = "every",
                       .value = "DURATION",
                       .help = "keep running, and repeat after this time whenever the trail has grown",
                       .kind = ValueKind::kDuration}},
          .subcommands = {},
          .handler = in_session_here<run_audit_anchor>};
}

}  // namespace

Command make_audit() {
  return {
      .name = "audit",
      .summary = "Show and check the record of what was done with an agent",
      .details =
          "Every operation through the namespace and in `warren run` is recorded, with what was refused, as a chain "
          "of keyed hashes. The key is yours: WARREN_AUDIT_KEY, WARREN_AUDIT_KEY_COMMAND or "
          "~/.config/warren/audit.key. Without ID, it means the only session of this directory. If an agent has the "
          "name of a command, such as 'show', the first word is the agent.",
      .positionals = {optional_id_argument()},
      .options = {},
      .subcommands = {make_audit_show(), make_audit_tail(), make_audit_verify(), make_audit_export(),
                      make_audit_anchor(),
                      switch_command("on", "Record changes and refusals of every door",
                                     "Processes that have the agent open apply it when they reopen it.",
                                     in_session_here<run_audit_switch<AuditLevel::kOn>>),
                      switch_command("reads", "Record reads of every door too", "",
                                     in_session_here<run_audit_switch<AuditLevel::kReads>>),
                      switch_command("off", "Record nothing", "That it was switched off is recorded.",
                                     in_session_here<run_audit_switch<AuditLevel::kOff>>),
                      switch_command("rotate", "Use a new key from now on",
                                     "The new key is for all agents; the old ones stay in the key file, for verify.",
                                     in_session_here<run_audit_rotate>)},
      .handler = nullptr};
}

}  // namespace warren::cli
