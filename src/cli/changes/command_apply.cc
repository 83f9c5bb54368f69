// apply: writes an agent's changes to its base, or elsewhere.
#include <algorithm>
#include <set>

#include <fcntl.h>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/apply.h"
#include "changes/branch.h"
#include "changes/conflicts.h"
#include "changes/filter.h"
#include "changes/patch.h"
#include "changes/selection.h"
#include "cli/changes/apply_dialog.h"
#include "cli/changes/changes_output.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "os/host_files.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

Json conflicts_json(const std::vector<ApplyConflict>& conflicts) {
  Json list = Json::array();
  for (const ApplyConflict& conflict : conflicts) {
    Json item;
    set_bytes(item, "path", conflict.path);
    item["why"] = conflict.why;
    list.push_back(std::move(item));
  }
  return list;
}

Json changes_json(const std::vector<TreeChange>& changes) {
  Json list = Json::array();
  for (const TreeChange& change : changes) {
    Json item;
    item["change"] = change_word(change.kind);
    set_bytes(item, "path", change.path);
    if (change.kind == TreeChangeKind::kRenamed) set_bytes(item, "from", change.base_path);
    list.push_back(std::move(item));
  }
  return list;
}

// Returns the conflicts that remain after merging, if that is wanted; merged files go to `contents`.
Result<std::vector<ApplyConflict>> resolve_conflicts(const AgentOverlay& overlay,
                                                     const std::vector<TreeChange>& changes, bool merges,
                                                     MergedContents& contents) {
  std::vector<ApplyConflict> conflicts = WARREN_TRY(find_conflicts(overlay, changes));
  if (!merges) return conflicts;
  std::vector<ApplyConflict> left;
  for (ApplyConflict& conflict : conflicts) {
    auto change = std::find_if(changes.begin(), changes.end(), [&](const TreeChange& one) {
      return one.path == conflict.path && one.kind != TreeChangeKind::kDeleted;
    });
    std::optional<std::string> merged;
    if (change != changes.end()) merged = WARREN_TRY(merge_change(overlay, *change));
    if (merged) contents.insert_or_assign(conflict.path, *std::move(merged));
    else left.push_back(std::move(conflict));
  }
  return left;
}

void print_conflicts(Context& context, const Arguments& args, const std::vector<ApplyConflict>& conflicts) {
  if (args.has("json")) {
    context.out.json({{"applied", Json::array()}, {"conflicts", conflicts_json(conflicts)}});
  } else {
    for (const ApplyConflict& conflict : conflicts) {
      context.err.print("conflict: {}: {}\n", context.err.name(conflict.path), conflict.why);
    }
  }
  context.err.line(fmt::format("{} {}: nothing was written", context.err.paint(Ink::kRed, "warren:"),
                               conflicts.size() == 1 ? "1 conflict" : fmt::format("{} conflicts", conflicts.size())));
  context.err.line(
      "hint: --merge merges text files where possible, --force takes the agent's version, PATH limits what is applied");
}

void print_applied(Context& context, const Arguments& args, const std::vector<TreeChange>& changes,
                   const MergedContents& contents, const ApplyReport& report) {
  Output& out = context.out;
  if (args.has("json")) {
    Json merged = Json::array();
    for (const auto& [path, content] : contents) merged.push_back(printable(path));
    out.json({{"applied", changes_json(changes)},
              {"conflicts", Json::array()},
              {"merged", merged},
              {"notes", report.notes},
              {"dry_run", args.has("dry-run")}});
    return;
  }
  if (args.has("dry-run")) {
    for (const TreeChange& change : changes) out.line(change_line(out, change));
  }
  for (const auto& [path, content] : contents) out.print("merged: {}\n", out.name(path));
  for (const std::string& note : report.notes) context.err.line(context.err.name(note));
  for (const std::string& path : report.changed_since) {
    context.err.print("the agent changed {} again during the apply: that change is not applied yet\n",
                      context.err.name(path));
  }
  out.print("{}: {}\n", args.has("dry-run") ? "would apply" : "applied", summary_text(summarise(changes)));
}

Result<Exit> write_patch_file(Context& context, const std::string& file, const AgentOverlay& overlay,
                              const std::vector<TreeChange>& changes) {
  if (file == "-") {
    WARREN_TRY(write_patch(overlay, changes, [&](std::string_view text) {
      context.out.write(text);
      return context.out.status();
    }));
    return Exit::kOk;
  }
  std::string whole;
  WARREN_TRY(write_patch(overlay, changes, [&](std::string_view text) -> Status {
    whole += text;
    return Ok{};
  }));
  WARREN_TRY(replace_host_file(file, whole, 0644));
  return Exit::kOk;
}

Result<Exit> write_elsewhere(Context& context, const Arguments& args, const AgentOverlay& overlay,
                             const std::vector<TreeChange>& changes) {
  if (auto file = args.find("as-patch")) return write_patch_file(context, *file, overlay, changes);
  if (auto branch = args.find("as-branch")) {
    std::string commit = WARREN_TRY(commit_to_branch(overlay, changes, *branch));
    context.out.print("branch {}: {}\n", context.out.name(*branch), commit);
    return Exit::kOk;
  }
  SetId set_id = args.has("force") ? SetId::kKeep : SetId::kDrop;
  std::vector<std::string> notes = WARREN_TRY(write_changes_to(overlay, changes, args.get("to"), set_id));
  for (const std::string& note : notes) context.err.line(context.err.name(note));
  context.out.print("written to {}: {}\n", context.out.name(args.get("to")), summary_text(summarise(changes)));
  return Exit::kOk;
}

Result<Exit> apply_chosen(Context& context, const Arguments& args, OverlayAgent& opened,
                          const std::vector<TreeChange>& changes, ApplyOptions options) {
  bool asks = args.has("interactive");
  if (!args.has("force") && !asks) {
    std::vector<ApplyConflict> conflicts =
        WARREN_TRY(resolve_conflicts(opened.overlay, changes, args.has("merge"), options.contents));
    if (!conflicts.empty()) {
      print_conflicts(context, args, conflicts);
      return Exit::kFailed;
    }
  }
  ApplyReport report;
  if (!changes.empty()) {
    if (args.has("dry-run")) WARREN_TRY(rehearse_apply(opened.overlay, changes, options));
    else report = WARREN_TRY(apply_changes(*opened.agent, changes, options));
  }
  print_applied(context, args, changes, options.contents, report);
  return Exit::kOk;
}

// Only an apply that writes to the base acts on an interrupted one.
Result<OverlayAgent> open_for_apply(Context& context, const std::string& id, Use use) {
  if (use == Use::kRead) {
    OverlayAgent opened = WARREN_TRY(open_overlay(id, OpenMode::kReadOnly, context.clock));
    WARREN_TRY(refuse_interrupted(*opened.agent, id));
    return opened;
  }
  RecoveredAgent recovered = WARREN_TRY(open_and_recover(id, context.clock));
  if (recovered.recovery) print_recovery(context.err, *recovered.recovery);
  return std::move(recovered.opened);
}

Result<Exit> run_apply(Context& context, const Arguments& args) {
  int targets = (args.has("to") ? 1 : 0) + (args.has("as-patch") ? 1 : 0) + (args.has("as-branch") ? 1 : 0);
  if (targets > 1) return refuse(context, "--to, --as-patch and --as-branch cannot be used together");
  if (targets == 1 && (args.has("merge") || args.has("interactive") || args.has("dry-run")))
    return refuse(context, "--merge, --interactive and --dry-run cannot be used with --to, --as-patch or --as-branch");
  if (args.has("merge") && args.has("force")) return refuse(context, "--merge and --force cannot be used together");
  if (args.has("interactive") && (args.has("json") || args.has("force") || args.has("merge")))
    return refuse(context, "--interactive cannot be used with --json, --force or --merge");
  if (args.has("interactive") && !is_terminal(context.input))
    return Error(Code::kInvalid, "--interactive needs standard input to be a terminal");
  bool asks_for_more = targets > 0 || args.has("merge") || args.has("force") || args.has("interactive") ||
                       args.has("dry-run") || !args.all("PATH").empty();
  if (args.has("recover") && asks_for_more)
    return refuse(context, "--recover cannot be used with PATH or other options");
  bool changes_agent = targets == 0 && !args.has("dry-run");
  OverlayAgent opened = WARREN_TRY(open_for_apply(context, args.get("ID"), changes_agent ? Use::kWrite : Use::kRead));
  if (args.has("recover")) return Exit::kOk;
  std::vector<TreeChange> all = WARREN_TRY(list_changes(opened.overlay));
  WARREN_TRY(check_patterns(args.all("PATH"), all));
  Selection chosen(all);
  ApplyOptions options;
  options.set_id = args.has("force") ? SetId::kKeep : SetId::kDrop;
  if (args.has("interactive")) {
    bool is_confirmed =
        WARREN_TRY(choose_changes(context, opened.overlay, all, filter_of(args.all("PATH")), chosen, options));
    if (!is_confirmed) return Exit::kFailed;
  } else {
    chosen.take_if(filter_of(args.all("PATH")));
  }
  chosen.complete_for_apply();
  std::vector<TreeChange> changes = chosen.list();
  if (targets == 1) return write_elsewhere(context, args, opened.overlay, changes);
  return apply_chosen(context, args, opened, changes, std::move(options));
}

std::vector<Option> apply_options() {
  return {{.name = "dry-run", .letter = 'n', .help = "show what would be done, and any conflicts"},
          {.name = "force", .help = "take the agent's version where the base has changed too"},
          {.name = "merge", .help = "merge text files where the base has changed too"},
          {.name = "interactive", .letter = 'i', .help = "ask about each change"},
          {.name = "recover", .help = "only finish or undo an apply that was interrupted"},
          {.name = "to", .value = "DIR", .help = "write to this directory instead", .suggest = Suggest::kHostDirs},
          {.name = "as-patch",
           .value = "FILE",
           .help = "write a patch instead (- for standard output)",
           .suggest = Suggest::kHostFiles},
          {.name = "as-branch", .value = "NAME", .help = "commit to a new branch of the base's git repository instead"},
          json_option()};
}

}  // namespace

Command make_apply() {
  return {
      .name = "apply",
      .summary = "Write an agent's changes to its base",
      .details =
          "Applies everything or nothing: before anything is written, each file concerned must still be what the "
          "agent saw, and after a crash the next apply finishes or undoes it. Applied changes are no "
          "longer listed as changes of the agent. Changes that others depend on are included: a new directory "
          "above a new file, everything below a deleted directory. If there are conflicts the exit status is 1.",
      .positionals = {id_argument(), {.name = "PATH", .help = "only changes at or below PATH", .times = Times::kAny}},
      .options = apply_options(),
      .subcommands = {},
      .handler = run_apply};
}

}  // namespace warren::cli
