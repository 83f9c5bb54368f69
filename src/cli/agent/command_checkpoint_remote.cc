// checkpoint push, pull, remote: an agent with its checkpoints in a store elsewhere.
#include <fmt/format.h>

#include "agent/copies/pushed.h"
#include "agent/locate.h"
#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "cli/agent/checkpoint_remote.h"
#include "cli/agent/copy_faults.h"
#include "cli/agent/encrypt_files.h"
#include "cli/changes/session_here.h"
#include "cli/context.h"
#include "cli/show/progress.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

constexpr std::string_view kPullCommand = "warren checkpoint ID pull";

Json pushed_json(const PushedState& state) {
  Json json{{"state", state.name}, {"size_bytes", state.size_bytes}, {"blocks", state.blocks.size()}};
  json["identity"] = state.identity ? Json(*state.identity) : Json(nullptr);
  json["checkpoints"] = Json::array();
  for (const PushedCheckpoint& one : state.checkpoints) {
    Json checkpoint{{"id", one.id}};
    set_bytes(checkpoint, "name", one.name);
    checkpoint["taken_at_ms"] = one.at_us / 1000;
    json["checkpoints"].push_back(std::move(checkpoint));
  }
  return json;
}

// Calls `work` with what draws a bar, on a terminal.
template <class Work>
auto with_progress(Context& context, const Work& work) {
  std::optional<ProgressBar> bar;
  return work([&](std::uint64_t done, std::uint64_t total) {
    if (!ProgressBar::is_watched(context)) return;
    if (!bar) bar.emplace(context, TransferTotals{.files = 1, .bytes = total});
    bar->show({.files = 0, .bytes = done});
  });
}

Result<Exit> run_checkpoint_push(Context& context, const Arguments& args) {
  const std::string& address = args.get("ADDRESS");
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead, "backup"));
  auto store = WARREN_TRY(open_push_store(address, context.clock));
  WARREN_TRY(record_reading(*agent, "backup", {}, store->name()));
  StoredBlocks stored = args.has("verify") ? StoredBlocks::kVerify : StoredBlocks::kTrust;
  PushReport report =
      WARREN_TRY(with_progress(context, [&](const BytesDone& progress) {
                   return push_agent(*agent, *store, context.clock, {.stored = stored, .progress = progress});
                 }).within(fmt::format("push to {}", quote(store->name()))));
  if (report.follows_unmarked) {
    context.err.line(
        "warren: the state before it, of an older version, does not say which agent it is of: it is taken for this "
        "one");
  }
  if (args.has("json")) {
    Json json = pushed_json(report.state);
    json["sent_blocks"] = report.blocks_sent;
    json["sent_bytes"] = report.bytes_sent;
    json["mended_blocks"] = report.blocks_mended;
    set_faults(json, report.faults);
    context.out.json(json);
    return warn_of_stored_faults(context, report.faults, args.get("ID"), kPullCommand);
  }
  context.out.print("pushed state {}: {} of {} sent, {} checkpoint{}\n", report.state.name,
                    context.out.size(report.bytes_sent), context.out.size(report.state.size_bytes),
                    report.state.checkpoints.size(), report.state.checkpoints.size() == 1 ? "" : "s");
  if (report.blocks_mended > 0) {
    context.out.print("{} in the store had another content, and {} sent again\n",
                      report.blocks_mended == 1 ? "1 block" : fmt::format("{} blocks", report.blocks_mended),
                      report.blocks_mended == 1 ? "was" : "were");
  }
  return warn_of_stored_faults(context, report.faults, args.get("ID"), kPullCommand);
}

// Of an agent that may not exist here.
Result<std::string> id_in_store(const Arguments& args) {
  if (std::optional<std::string> from = args.find("from")) return *from;
  std::string id(session_id_of(args.get("ID")));
  return is_agent_id(id) ? id : agent_id_of(id);
}

Result<Exit> run_checkpoint_pull(Context& context, const Arguments& args) {
  if (!args.has("ID")) return refuse(context, "pull needs an ID, which names the agent that it makes");
  auto store = WARREN_TRY(open_push_store(args.get("ADDRESS"), context.clock));
  std::string from = WARREN_TRY(id_in_store(args));
  PullOptions options{.agent_id = from,
                      .state = args.find("state"),
                      .id = args.get("ID"),
                      .replace = args.has("force") ? Replace::kYes : Replace::kNo,
                      .replace_another = args.has("another") ? Replace::kYes : Replace::kNo,
                      .faulty = faulty_copy(args)};
  std::vector<std::string> patterns = list_patterns_of(context, options.id);
  PullReport report = WARREN_TRY(with_progress(context, [&](const BytesDone& progress) {
                                   return pull_agent(*store, options, context.clock, progress);
                                 }).within(fmt::format("pull from {}", quote(store->name()))));
  warn_if_not(context, record_afterwards(report.path, "restore", store->name(), context.clock));
  if (report.replaced_unmarked) {
    context.err.line("warren: the state, of an older version, does not say which agent it is of");
  }
  if (args.has("json")) {
    Json json = pushed_json(report.state);
    set_bytes(json, "path", report.path);
    set_faults(json, report.faults);
    context.out.json(json);
  } else {
    context.out.print("pulled state {} to {}\n", report.state.name, context.out.name(report.path));
  }
  warn_of_taken_faults(context, report.faults, options.id);
  return warn_of_lost_patterns(context, options.id, patterns);
}

void print_pushed(Output& out, const PushedState& state) {
  std::string checkpoints;
  for (const PushedCheckpoint& one : state.checkpoints) {
    checkpoints += fmt::format("{}{} ({})", checkpoints.empty() ? "" : ", ", one.id, out.name(one.name));
  }
  std::string agent = state.identity ? state.identity->substr(0, 8) : "-";
  out.line(fmt::format("{:<24}  {:<8}  {:>10}  {}", state.name, agent, out.size(state.size_bytes), checkpoints));
}

Result<Exit> run_checkpoint_remote(Context& context, const Arguments& given) {
  Arguments args = given;
  if (!args.has("from")) args = WARREN_TRY(with_session_here(given));
  auto store = WARREN_TRY(open_push_store(args.get("ADDRESS"), context.clock));
  std::string from = WARREN_TRY(id_in_store(args));
  std::vector<std::string> names = WARREN_TRY(list_pushed(*store, from).within(quote(store->name())));
  Json list = Json::array();
  Exit result = Exit::kOk;
  if (!args.has("json") && !names.empty()) {
    context.out.print("{:<24}  {:<8}  {:>10}  {}\n", "STATE", "AGENT", "SIZE", "CHECKPOINTS");
  }
  for (const std::string& name : names) {
    Result<PushedState> state = get_pushed(*store, from, name).within(quote(store->name()));
    if (!state.ok() && !is_about_one_state(state.error())) return std::move(state).take_error();
    if (!state.ok()) {  // the others may be whole
      context.err.line(fmt::format("warren: {}", context.err.name(state.error().message())));
      Json damaged{{"state", name}};
      set_bytes(damaged, "error", state.error().message());
      list.push_back(std::move(damaged));
      result = Exit::kFailed;
      continue;
    }
    if (args.has("json")) list.push_back(pushed_json(*state));
    else print_pushed(context.out, *state);
  }
  if (args.has("json")) context.out.json(list);
  else if (names.empty()) context.err.line("warren: nothing was pushed there as this agent");
  return result;
}

Positional address_argument() {
  return {.name = "ADDRESS", .help = "of a store: s3://BUCKET/PREFIX, redis://…, postgres://…, sqlite:FILE"};
}

Option from_option() {
  return {.name = "from", .value = "AGENT", .help = "what was pushed as this agent; default: ID"};
}

}  // namespace

Command make_checkpoint_push() {
  return {.name = "push",
          .summary = "Store the agent and its checkpoints elsewhere",
          .details =
              "Sends only what is not there yet. Works while the agent is in use. Refused if what was pushed there "
              "last is another agent of the same name. What is stored is checked as `pull` checks it. An agent with "
              "faults is stored too, and the exit status is 1.",
          .positionals = {address_argument()},
          .options = {{.name = "verify", .help = "read what is there already, and send what is damaged again"},
                      json_option()},
          .subcommands = {},
          .handler = in_session_here<run_checkpoint_push>};
}

Command make_checkpoint_pull() {
  return {.name = "pull",
          .summary = "Restore the agent from what was pushed",
          .details =
              "Every part is compared with its hash, and the agent is checked like a backup. ID is needed here: it "
              "names the agent that is made or replaced.",
          .positionals = {address_argument()},
          .options = {{.name = "state", .value = "STATE", .help = "as listed by `remote`; default: the newest"},
                      from_option(),
                      {.name = "force", .letter = 'f', .help = "replace the agent if it exists; its content is lost"},
                      {.name = "another", .help = "with --force, also if it is not the agent that was pushed"},
                      unchecked_option(),
                      json_option()},
          .subcommands = {},
          .handler = run_checkpoint_pull};
}

Command make_checkpoint_remote() {
  return {.name = "remote",
          .summary = "List what was pushed",
          .details =
              "AGENT is the beginning of the agent's identity: a number that it and its copies have. A damaged "
              "state is named, and the exit status is 1.",
          .positionals = {address_argument()},
          .options = {from_option(), json_option()},
          .subcommands = {},
          .handler = run_checkpoint_remote};
}

}  // namespace warren::cli
