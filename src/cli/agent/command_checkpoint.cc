// checkpoint, fork: an agent's earlier states.
#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "agent/copies/create.h"
#include "agent/keys/encrypted_files.h"
#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "changes/filter.h"
#include "changes/pinned/frozen_tree.h"
#include "changes/review/past_diff.h"
#include "changes/upper/keep_restored.h"
#include "changes/upper/upper_edit.h"
#include "cli/agent/checkpoint_mounts.h"
#include "cli/agent/checkpoint_output.h"
#include "cli/agent/checkpoint_remote.h"
#include "cli/agent/encrypt_files.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/diff_overview.h"
#include "cli/changes/session_here.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/attributes_json.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

Result<Exit> run_checkpoint_take(Context& context, const Arguments& args) {
  WARREN_TRY(check_checkpoint_name(args.get("NAME")));
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite));
  auto mounted = WARREN_TRY(mounted_of_command(context, args, *agent));
  Checkpoint made = WARREN_TRY(take_checkpoint(*agent, args.get("NAME"), "asked", mounted.get()));
  if (args.has("json")) context.out.json(checkpoint_json(made));
  else context.out.print("took checkpoint {}\n", checkpoint_label(made));
  return Exit::kOk;
}

Result<Exit> run_checkpoint_list(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  std::vector<Checkpoint> all = WARREN_TRY(list_checkpoints(*agent));
  if (args.has("json")) {
    Json list = Json::array();
    for (const Checkpoint& one : all) list.push_back(checkpoint_json(one));
    context.out.json(list);
    return Exit::kOk;
  }
  if (!all.empty()) context.out.print("{:>5}  {:<19}  {:<24}  {}\n", "ID", "TAKEN", "NAME", "CAUSE");
  for (const Checkpoint& one : all) {
    context.out.print("{:>5}  {:<19}  {}  {}\n", one.id, context.out.time(one.at_us / 1'000'000),
                      pad_right(context.out.name(one.name), 24), context.out.name(one.cause));
  }
  return Exit::kOk;
}

Result<Exit> run_checkpoint_show(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  Checkpoint one = WARREN_TRY(get_checkpoint(*agent, args.get("WHICH")));
  CheckpointSize size = WARREN_TRY(measure_checkpoint(*agent, one.id));
  std::vector<std::string> covered = WARREN_TRY(list_covered_mounts(*agent, one.id));
  if (args.has("json")) {
    Json json = checkpoint_json(one);
    json["stored"] = {{"nodes", size.nodes}, {"names", size.names}, {"keys", size.keys}, {"bytes", size.bytes}};
    json["stored"]["mounted_values"] = size.mounted;
    json["stored"]["mounted_bytes"] = size.mounted_bytes;
    json["mounts"] = Json::array();
    for (const std::string& path : covered) json["mounts"].push_back(path);
    context.out.json(json);
    return Exit::kOk;
  }
  context.out.print("id      {}\nname    {}\ntaken   {}\ncause   {}\n", one.id, context.out.name(one.name),
                    context.out.time(one.at_us / 1'000'000), context.out.name(one.cause));
  context.out.print("stored  {} nodes, {} names, {} keys, {}\n", size.nodes, size.names, size.keys,
                    context.out.size(size.bytes));
  for (const std::string& path : covered) context.out.print("covers  {}\n", context.out.name(path));
  if (size.mounted > 0) {
    context.out.print("mounts  {} values, {}\n", size.mounted, context.out.size(size.mounted_bytes));
  }
  return Exit::kOk;
}

Json past_change_json(const TreeChange& change) {
  Json json;
  json["change"] = change_word(change.kind);
  set_bytes(json, "path", change.path);
  json["type"] = type_word_of(change);
  if (change.kind == TreeChangeKind::kRenamed) set_bytes(json, "from", change.base_path);
  if (change.before && change.after) {
    json["content_changed"] = change.is_content_changed;
    json["metadata_changed"] = change.is_metadata_changed;
  }
  if (change.before) json["before"] = attributes_json("path", change.base_path, *change.before);
  if (change.after) json["after"] = attributes_json("path", change.path, *change.after);
  return json;
}

struct KeyChange {
  char letter;
  std::string_view word;
  const std::vector<std::string>& keys;
};

void print_past_diff(Context& context, const Arguments& args, const PastDiff& diff) {
  Output& out = context.out;
  const KeyChange all_keys[] = {
      {'A', "added", diff.keys_added}, {'M', "modified", diff.keys_changed}, {'D', "deleted", diff.keys_deleted}};
  if (args.has("json")) {
    Json list = Json::array();
    for (const TreeChange& change : diff.changes) list.push_back(past_change_json(change));
    for (const KeyChange& kind : all_keys) {
      for (const std::string& key : kind.keys) {
        Json json{{"change", kind.word}, {"type", "key"}};
        set_bytes(json, "key", key);
        list.push_back(std::move(json));
      }
    }
    for (const MountedChange& change : diff.mounted) {
      Json json{{"change", change_word(change.kind)}, {"type", "mounted"}};
      set_bytes(json, "path", change.path);
      list.push_back(std::move(json));
    }
    out.json(list);
    return;
  }
  if (args.has("name-only")) {
    for (const TreeChange& change : diff.changes) out.line(path_in_line(change.path));
  } else {
    print_past_overview(out, diff.changes, args.has("all") ? Fold::kNo : Fold::kYes);
  }
  for (const MountedChange& change : diff.mounted) {
    std::string path = path_in_line(change.path);
    char letter = change.kind == TreeChangeKind::kAdded ? 'A' : change.kind == TreeChangeKind::kDeleted ? 'D' : 'M';
    out.line(args.has("name-only") ? path : fmt::format("{} m {}", letter, path));
  }
  if (args.has("name-only")) return;
  for (const KeyChange& kind : all_keys) {
    for (const std::string& key : kind.keys) out.print("{} k {}\n", kind.letter, out.name(key));
  }
}

Result<Exit> run_checkpoint_diff(Context& context, const Arguments& args) {
  if (args.has("json") + args.has("name-only") + args.has("patch") > 1) {
    return refuse(context, "--json, --name-only and --patch cannot be used together");
  }
  std::int64_t from = 0;
  std::optional<std::int64_t> to;
  std::vector<std::string> covered;
  {
    auto agent = WARREN_TRY(open_state(context, args, Use::kRead, "diff"));
    WARREN_TRY(record_reading(*agent, "diff", {}));
    Checkpoint first = WARREN_TRY(get_checkpoint(*agent, args.get("A")));
    from = first.id;
    covered = WARREN_TRY(list_covered_mounts(*agent, from));
    if (args.has("B")) {
      Checkpoint second = WARREN_TRY(get_checkpoint(*agent, args.get("B")));
      to = second.id;
    }
  }
  std::vector<std::string> copied;
  if (!to) copied = WARREN_TRY(copy_mounts_of_now(context, args, covered));
  PastDiff diff = WARREN_TRY(diff_checkpoints(args.get("ID"), from, to, context.clock, copied));
  bool is_empty = diff.changes.empty() && diff.keys_added.empty() && diff.keys_changed.empty() &&
                  diff.keys_deleted.empty() && diff.mounted.empty();
  if (args.has("patch")) {
    WARREN_TRY(write_past_patch(diff, [&](std::string_view text) {
      context.out.write(context.out.is_terminal() ? printable_text(text) : std::string(text));
      return context.out.status();
    }));
  } else {
    print_past_diff(context, args, diff);
  }
  return args.has("exit-code") && !is_empty ? Exit::kFailed : Exit::kOk;
}

Result<Exit> run_checkpoint_restore(Context& context, const Arguments& args) {
  const std::vector<std::string>& paths = args.all("PATH");
  AgentOptions how{.id_or_path = args.get("ID"), .layers = paths.empty() ? Layers::kOwn : Layers::kMerged};
  auto agent = WARREN_TRY(Agent::open(how, context.clock));
  Checkpoint wanted = WARREN_TRY(get_checkpoint(*agent, args.get("WHICH")));
  auto mounted = WARREN_TRY(mounted_of_command(context, args, *agent));
  if (paths.empty()) WARREN_TRY(warn_of_unmounted(context, *agent, mounted.get(), wanted.id));
  auto restored = [&](Agent& past, const std::vector<std::string>& own) {
    return keep_restored_paths(past, *agent, own);
  };
  Checkpoint before =
      WARREN_TRY(paths.empty() ? restore_checkpoint(*agent, wanted.id, mounted.get())
                               : restore_paths(*agent, wanted.id, paths, context.clock, mounted.get(), restored));
  if (paths.empty())
    keep_restored(agent->path(), {.id_or_path = agent->path(), .mode = OpenMode::kReadOnly, .checkpoint = before.id},
                  context.clock)
        .ignore("if the base is not there, nothing can be compared with it");
  if (agent->base()) freeze_served(agent->path(), context.clock).ignore("then the base's newer files show");
  if (args.has("json")) {
    context.out.json({{"restored", checkpoint_json(wanted)}, {"before", checkpoint_json(before)}});
    return Exit::kOk;
  }
  context.out.print("restored {} from checkpoint {}; what it was before is checkpoint {}\n",
                    paths.empty()       ? std::string("everything")
                    : paths.size() == 1 ? context.out.name(paths[0])
                                        : fmt::format("{} paths", paths.size()),
                    checkpoint_label(wanted), before.id);
  return Exit::kOk;
}

// What the removed ones kept may have been plain content of files that are encrypted now. Closes the agent.
Status leave_no_plain_content(Context& context, std::unique_ptr<Agent> agent) {
  std::string path = agent->path();
  WARREN_TRY(agent->close());
  agent.reset();
  std::optional<Error> why = WARREN_TRY(compact_after_removal(path).within("the checkpoints are removed"));
  if (why) context.err.line("warren: " + not_compact_line(*why, "run `warren encrypt ID PATTERN` again"));
  return Ok{};
}

Result<Exit> run_checkpoint_remove(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite));
  std::vector<Checkpoint> chosen;
  for (const std::string& which : args.all("WHICH")) chosen.push_back(WARREN_TRY(get_checkpoint(*agent, which)));
  for (const Checkpoint& one : chosen) {
    WARREN_TRY(remove_checkpoint(*agent, one.id));
    if (!args.has("json")) context.out.print("removed checkpoint {}\n", checkpoint_label(one));
  }
  WARREN_TRY(leave_no_plain_content(context, std::move(agent)));
  if (args.has("json")) {
    Json list = Json::array();
    for (const Checkpoint& one : chosen) list.push_back(checkpoint_json(one));
    context.out.json(list);
  }
  return Exit::kOk;
}

Result<Exit> run_checkpoint_prune(Context& context, const Arguments& args) {
  if (!args.has("keep") && !args.has("older-than")) {
    return refuse(context, "prune needs --keep, --older-than or both");
  }
  PruneRule rule;
  if (args.has("keep")) rule.keep = static_cast<std::uint64_t>(args.integer("keep"));
  if (auto text = args.find("older-than")) {
    std::chrono::milliseconds age = WARREN_TRY(parse_duration(*text));
    rule.before_us = context.clock.now_us() - std::chrono::microseconds(age).count();
  }
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite));
  std::vector<Checkpoint> removed = WARREN_TRY(prune_checkpoints(*agent, rule));
  if (!removed.empty()) WARREN_TRY(leave_no_plain_content(context, std::move(agent)));
  if (args.has("json")) {
    Json list = Json::array();
    for (const Checkpoint& one : removed) list.push_back(checkpoint_json(one));
    context.out.json(list);
    return Exit::kOk;
  }
  for (const Checkpoint& one : removed) {
    context.out.print("removed checkpoint {}\n", checkpoint_label(one));
  }
  if (removed.empty()) context.out.line("nothing to remove");
  return Exit::kOk;
}

// What an apply left in the agent for the programs that use it hides the base, and nobody uses the fork yet.
Status drop_kept(const std::string& path, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = path}, clock));
  WARREN_TRY(drop_untouched(*agent));
  return agent->close();
}

Result<Exit> run_fork(Context& context, const Arguments& args) {
  CreatedAgent fork = WARREN_TRY(
      fork_agent({.id_or_path = args.get("ID"), .id = args.get("NEW"), .checkpoint = args.find("at")}, context.clock)
          .within("fork"));
  if (args.has("at"))
    keep_restored(fork.path, {.id_or_path = args.get("ID"), .mode = OpenMode::kReadOnly}, context.clock)
        .ignore("if the base is not there, nothing can be compared with it");
  if (fork.base) drop_kept(fork.path, context.clock).ignore("without its base; the next mount or run does it");
  std::string of = args.has("at") ? fmt::format("{}@{}", args.get("ID"), args.get("at")) : args.get("ID");
  warn_if_not(context, record_afterwards(fork.path, "fork", of, context.clock));
  if (args.has("json")) {
    Json json;
    set_bytes(json, "id", fork.id);
    set_bytes(json, "path", fork.path);
    if (fork.base) set_bytes(json, "base", *fork.base);
    context.out.json(json);
  } else {
    context.out.print("forked agent {} at {}\n", context.out.name(quote(fork.id)), context.out.name(fork.path));
  }
  return Exit::kOk;
}

Positional which_argument(Times times = Times::kOnce) {
  return {.name = "WHICH",
          .help = "a checkpoint: its id, or its name (the newest of that name)",
          .times = times,
          .suggest = Suggest::kCheckpoints};
}

Command make_checkpoint_diff() {
  return {.name = "diff",
          .summary = "Show what changed between two checkpoints, or since one",
          .details =
              "Prints one line for each change, or for a directory that is wholly new or gone, as `warren diff` does; "
              "k is a "
              "key, m is in working memory or in what is mounted. Times alone do not count.",
          .positionals = {{.name = "A", .help = "a checkpoint: its id or name", .suggest = Suggest::kCheckpoints},
                          {.name = "B",
                           .help = "a second one; default: now",
                           .times = Times::kOptional,
                           .suggest = Suggest::kCheckpoints}},
          .options = with_checkpoint_mounts(
              {{.name = "patch", .letter = 'p', .help = "print a patch for git apply and patch -p1"},
               {.name = "name-only", .help = "print only the paths"},
               {.name = "all", .letter = 'a', .help = "list every change instead of folding directories"},
               {.name = "exit-code", .help = "exit with 1 if there are changes"},
               json_option()}),
          .subcommands = {},
          .handler = in_session_here<run_checkpoint_diff>};
}

Command make_checkpoint_restore() {
  return {
      .name = "restore",
      .summary = "Restore an agent, or some of its paths, to an earlier state",
      .details =
          "Restores files and keys; with a base, also what the agent has recorded about it. Working memory and "
          "what is mounted in the namespace become what they were, as far as the checkpoint covers them. The tool-call "
          "trail and the audit trail stay. A checkpoint is taken first, so that a restore can be undone. "
          "Directories where the agent is mounted show the restored state at once. With PATH only these paths are "
          "restored, with everything below them; what did not exist then is removed. Files that a pattern of `encrypt` "
          "matches are encrypted with its current key; exits with 1 if that key is missing.",
      .positionals = {which_argument(),
                      {.name = "PATH",
                       .help = "only these paths, also deleted ones",
                       .times = Times::kAny,
                       .suggest = Suggest::kPaths}},
      .options = with_checkpoint_mounts({json_option()}),
      .subcommands = {},
      .handler = in_session_here<run_checkpoint_restore>};
}

}  // namespace

Command make_checkpoint() {
  Command take{.name = "take",
               .summary = "Keep the agent's current state",
               .details =
                   "Costs what has changed since the last checkpoint; the first one copies everything. Also "
                   "covers working memory and what is mounted in the namespace, by the options below and by the "
                   "user's configuration. If a mount does not answer, nothing is taken.",
               .positionals = {{.name = "NAME", .help = "a name for it; need not be unique"}},
               .options = with_checkpoint_mounts({json_option()}),
               .subcommands = {},
               .handler = in_session_here<run_checkpoint_take>};
  Command list{.name = "list",
               .summary = "List an agent's checkpoints",
               .details = "",
               .positionals = {},
               .options = {json_option()},
               .subcommands = {},
               .handler = in_session_here<run_checkpoint_list>};
  Command show{.name = "show",
               .summary = "Show when and why a checkpoint was taken, and what it stored",
               .details = "",
               .positionals = {which_argument()},
               .options = {json_option()},
               .subcommands = {},
               .handler = in_session_here<run_checkpoint_show>};
  Command remove{.name = "remove",
                 .summary = "Remove checkpoints",
                 .details = "The agent and its other checkpoints stay as they are.",
                 .positionals = {which_argument(Times::kOnceOrMore)},
                 .options = {json_option()},
                 .subcommands = {},
                 .handler = in_session_here<run_checkpoint_remove>};
  Command prune{
      .name = "prune",
      .summary = "Remove old checkpoints",
      .details = "With both options, a checkpoint is removed only if both allow it.",
      .positionals = {},
      .options = {{.name = "keep", .letter = 'n', .value = "N", .help = "keep the newest N", .kind = ValueKind::kCount},
                  {.name = "older-than",
                   .value = "TIME",
                   .help = "remove only older ones: 12h, 30d",
                   .kind = ValueKind::kDuration},
                  json_option()},
      .subcommands = {},
      .handler = in_session_here<run_checkpoint_prune>};
  return {.name = "checkpoint",
          .summary = "Keep an agent's states, compare them, and return to one",
          .details =
              "Checkpoints are in the agent file. `warren restore` restores a whole agent from a backup. Without ID, "
              "it means the only session of this directory. If an agent has the name of a command, such as 'list', the "
              "first word is the agent.",
          .positionals = {optional_id_argument()},
          .options = {},
          .subcommands = {take, list, show, make_checkpoint_diff(), make_checkpoint_restore(), remove, prune,
                          make_checkpoint_push(), make_checkpoint_pull(), make_checkpoint_remote()},
          .handler = nullptr};
}

Command make_fork() {
  return {.name = "fork",
          .summary = "Make an independent copy of an agent",
          .details = "The copy has the agent's checkpoints, too. Works while the agent is in use.",
          .positionals = {id_argument(), {.name = "NEW", .help = "the id of the copy, in ./.agentfs"}},
          .options = {{.name = "at",
                       .value = "WHICH",
                       .help = "as it was at this checkpoint: an id or a name",
                       .suggest = Suggest::kCheckpoints},
                      json_option()},
          .subcommands = {},
          .handler = run_fork};
}

}  // namespace warren::cli
