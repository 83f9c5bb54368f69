// home: the layer over the user's home that runs write to.
#include <algorithm>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/path.h"
#include "changes/changes.h"
#include "changes/filter.h"
#include "cli/changes/changes_output.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/files/host_files.h"
#include "os/terminal.h"
#include "session/home_layer.h"

namespace warren::cli {
namespace {

Result<std::string> layer_of(const Arguments& args) {
  std::optional<std::string> project = args.find("project");
  if (!project) return home_layer_file(HomeLayerScope::kShared, "");
  std::string canonical = WARREN_TRY(canonical_host_path(*project).within("--project"));
  return home_layer_file(HomeLayerScope::kProject, canonical);
}

Result<std::string> existing_layer_of(const Arguments& args) {
  std::string file = WARREN_TRY(layer_of(args));
  if (WARREN_TRY(find_host_file(file))) return file;
  return Error(Code::kNotFound, fmt::format("no run has used this layer yet: {} does not exist", quote(file)),
               args.has("project") ? "`warren run --home-layer project` creates it" : "`warren run` creates it");
}

Result<std::uint64_t> size_of_layer(const std::string& file) {
  std::uint64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::optional<struct stat> there = WARREN_TRY(find_host_file(file + suffix));
    if (there) bytes += static_cast<std::uint64_t>(there->st_size);
  }
  return bytes;
}

Result<Exit> run_home_show(Context& context, const Arguments& args) {
  std::string file = WARREN_TRY(existing_layer_of(args));
  std::uint64_t bytes = WARREN_TRY(size_of_layer(file));
  OverlayAgent opened = WARREN_TRY(open_overlay(file, OpenMode::kReadOnly, context.clock));
  std::vector<TreeChange> changes = WARREN_TRY(list_changes(opened.overlay));
  ChangeSummary sum = summarise(changes);
  if (args.has("json")) {
    Json json;
    set_bytes(json, "file", file);
    set_bytes(json, "home", opened.overlay.base_path);
    json["size_bytes"] = bytes;
    json["added"] = sum.added;
    json["modified"] = sum.modified;
    json["deleted"] = sum.deleted;
    json["renamed"] = sum.renamed;
    context.out.json(json);
    return Exit::kOk;
  }
  context.out.print("file:    {} ({})\n", context.out.name(file), context.out.size(bytes));
  context.out.print("home:    {}\n", context.out.name(opened.overlay.base_path));
  context.out.print("changes: {}\n", summary_text(sum));
  return Exit::kOk;
}

Result<Exit> run_home_diff(Context& context, const Arguments& args) {
  Arguments forwarded = args;
  forwarded.add("ID", WARREN_TRY(existing_layer_of(args)));
  return make_diff().handler(context, forwarded);
}

// A run does not see most of the home: it may have created a file where the home has one, or removed a directory that
// has more in it than it saw.
Result<bool> touches_hidden(const AgentOverlay& overlay, const PathView& view, const TreeChange& change) {
  const std::string& in_base = change.base_path.empty() ? change.path : change.base_path;  // empty: it was added
  std::string_view base_path = std::string_view(in_base).substr(1);
  if (change.kind == TreeChangeKind::kDeleted) return !view.shows(base_path);
  bool moves_dir = change.kind == TreeChangeKind::kRenamed && change.before && change.before->is_directory();
  if (moves_dir && !view.shows_all(base_path)) return true;
  bool replaces = change.before && change.after && !change.seen && !change.before->is_directory();
  if (!replaces || view.shows(base_path)) return false;
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  std::optional<std::string> ancestor = WARREN_TRY(overlay.upper.find_ancestor(change.after->inode));
  return !ancestor;  // with one, it was seen: by a run with --home all
}

Status refuse_unseen(const std::string& file, const std::vector<std::string>& patterns, Clock& clock) {
  OverlayAgent opened = WARREN_TRY(open_overlay(file, OpenMode::kReadOnly, clock));
  std::vector<TreeChange> changes = WARREN_TRY(list_changes(opened.overlay, filter_of(patterns)));
  HomeViewOptions usual;
  usual.home = opened.overlay.base_path;
  std::shared_ptr<const PathView> view = make_home_view(usual).view;
  for (const TreeChange& change : changes) {
    if (!WARREN_TRY(touches_hidden(opened.overlay, *view, change))) continue;
    return Error(
        Code::kConflict,
        fmt::format("{} is or contains something that is hidden from runs, and this change would replace, move "
                    "or delete it unseen",
                    quote(opened.overlay.base_path + (change.base_path.empty() ? change.path : change.base_path))),
        "name other paths, or write the change elsewhere with --to DIR");
  }
  return Ok{};
}

Result<Exit> run_home_apply(Context& context, const Arguments& args) {
  std::string file = WARREN_TRY(existing_layer_of(args));
  bool writes_home = !args.has("to") && !args.has("as-patch") && !args.has("recover");
  if (writes_home) WARREN_TRY(refuse_unseen(file, args.all("PATH"), context.clock));
  Arguments forwarded = args;
  forwarded.add("ID", file);
  return make_apply().handler(context, forwarded);
}

Result<Exit> run_home_undo(Context& context, const Arguments& args) {
  Arguments forwarded = args;
  if (!args.has("record")) forwarded.add("ID", WARREN_TRY(layer_of(args)));  // it may have been reset since
  return make_undo().handler(context, forwarded);
}

Result<Exit> run_home_reset(Context& context, const Arguments& args) {
  std::string file = WARREN_TRY(existing_layer_of(args));
  if (args.has("PATH")) {
    Arguments forwarded = args;
    forwarded.add("ID", file);
    return make_discard().handler(context, forwarded);
  }
  if (!args.has("yes")) {
    if (!is_terminal(context.input)) {
      return Error(Code::kInvalid, "removing the layer needs --yes when standard input is not a terminal",
                   "`warren home diff` shows what is in it");
    }
    bool is_wanted = WARREN_TRY(
        ask_yes(context, fmt::format("Remove {} and everything that runs stored in it ({})?", context.err.name(file),
                                     context.err.size(WARREN_TRY(size_of_layer(file))))));
    if (!is_wanted) {
      context.err.line("nothing was removed");
      return Exit::kFailed;
    }
  }
  WARREN_TRY(remove_home_layer(file));
  context.out.print("removed: {}\n", context.out.name(file));
  return Exit::kOk;
}

Option project_option() {
  return {.name = "project",
          .value = "DIR",
          .help = "the layer that `run --home-layer project` keeps for this directory [default: the shared one]",
          .suggest = Suggest::kHostDirs};
}

std::vector<Option> with_project(std::vector<Option> options) {
  std::erase_if(options, [](const Option& option) { return option.name == "as-branch"; });
  options.push_back(project_option());
  return options;
}

}  // namespace

Command make_home() {
  Positional any{.name = "PATH",
                 .help = "only changes at or below PATH, from the home directory",
                 .times = Times::kAny,
                 .kind = ValueKind::kNotEmpty};
  Positional some = any;
  some.times = Times::kOnceOrMore;
  some.help = "changes at or below PATH, from the home directory; / is everything";
  Command show{.name = "show",
               .summary = "Show where the layer is, and how much is in it",
               .details = "",
               .positionals = {},
               .options = {project_option(), json_option()},
               .subcommands = {},
               .handler = run_home_show};
  Command diff{.name = "diff",
               .summary = "Show what runs changed in your home directory",
               .details = "Prints the changes as `warren diff` does.",
               .positionals = {any},
               .options = with_project(make_diff().options),
               .subcommands = {},
               .handler = run_home_diff};
  Command apply{.name = "apply",
                .summary = "Write changes made by runs to your home directory itself",
                .details =
                    "Works like `warren apply`. Look at the changes first: shells, package managers and agents execute "
                    "much of what is in a home directory. Files that are hidden from runs are never replaced.",
                .positionals = {some},
                .options = with_project(make_apply().options),
                .subcommands = {},
                .handler = run_home_apply};
  Command undo{.name = "undo",
               .summary = "Restore what an apply replaced in your home directory",
               .details = "Works like `warren undo`.",
               .positionals = {},
               .options = with_project(make_undo().options),
               .subcommands = {},
               .handler = run_home_undo};
  Command reset{.name = "reset",
                .summary = "Drop what runs changed in your home directory",
                .details = "Without PATH the whole layer is removed, which is refused while a run uses it.",
                .positionals = {any},
                .options = with_project(make_discard().options),
                .subcommands = {},
                .handler = run_home_reset};
  return {
      .name = "home",
      .summary = "Show, keep and drop what runs changed in your home directory",
      .details =
          "`warren run` shows your home directory copy-on-write: changes go to a layer in ~/.agentfs/home that only "
          "runs see and that lasts from run to run, so agents keep their caches and settings. Nothing in it takes "
          "effect outside until you apply it.",
      .positionals = {},
      .options = {},
      .subcommands = {show, diff, apply, undo, reset},
      .handler = nullptr};
}

}  // namespace warren::cli
