// diff: lists an agent's changes to its base.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "changes/apply/permission.h"
#include "changes/changes.h"
#include "changes/filter.h"
#include "changes/git/git_folder.h"
#include "changes/pinned/merged_work.h"
#include "changes/review/patch.h"
#include "changes/selection.h"
#include "cli/agentfs/agentfs_mount.h"
#include "cli/changes/apply_commits.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/diff_overview.h"
#include "cli/changes/diff_pair.h"
#include "cli/changes/session_here.h"
#include "cli/changes/tidy_session.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/attributes_json.h"
#include "cli/show/pager.h"
#include "cli/show/text.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

Json change_json(const TreeChange& change, const Remarks& remarks) {
  Json json;
  json["change"] = change_word(change.kind);
  set_bytes(json, "path", change.path);
  json["type"] = type_word_of(change);
  if (change.kind == TreeChangeKind::kRenamed) set_bytes(json, "from", change.base_path);
  bool is_pair = change.kind == TreeChangeKind::kModified || change.kind == TreeChangeKind::kRenamed;
  if (is_pair) {
    json["content_changed"] = change.is_content_changed;
    json["metadata_changed"] = change.is_metadata_changed;
  }
  if (!remarks.list().empty()) json["remarks"] = remarks.list();
  if (change.before) json["before"] = attributes_json("path", change.base_path, *change.before);
  if (change.after) json["after"] = attributes_json("path", change.path, *change.after);
  return json;
}

// "12 +++++-----": as many marks as fit, in the proportion of the lines.
std::string marks(const Output& out, const FileCounts& count, std::uint64_t most, std::size_t width) {
  std::uint64_t total = count.added + count.deleted;
  std::uint64_t shown = most > width ? (total * width + most - 1) / most : total;
  std::uint64_t plus = total == 0 ? 0 : (count.added * shown + total - 1) / total;
  return out.paint(Ink::kGreen, std::string(plus, '+')) + out.paint(Ink::kRed, std::string(shown - plus, '-'));
}

std::string label_of(const ChangedFile& file) {
  std::string name = path_in_line(file.path().substr(1));
  return file.is_renamed() ? fmt::format("{} => {}", path_in_line(file.before->path.substr(1)), name) : name;
}

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

void print_stat(Output& out, const std::vector<FileCounts>& counts) {
  std::size_t width = 0;
  std::uint64_t most = 1;
  std::uint64_t added = 0;
  std::uint64_t deleted = 0;
  for (const FileCounts& count : counts) {
    width = std::max(width, columns_of(label_of(count.file)));
    most = std::max(most, count.added + count.deleted);
    added += count.added;
    deleted += count.deleted;
  }
  std::size_t digits = std::max<std::size_t>(3, fmt::formatted_size("{}", most));
  for (const FileCounts& count : counts) {
    std::string label = pad_right(label_of(count.file), width);
    if (count.is_binary) {
      std::uint64_t before = count.file.before ? count.file.before->node.size : 0;
      std::uint64_t after = count.file.after ? count.file.after->node.size : 0;
      out.print(" {} | {} {} -> {} bytes\n", label, pad_left("Bin", digits), before, after);
      continue;
    }
    std::string lines = marks(out, count, most, 40);
    out.print(" {} | {}{}{}\n", label, pad_left(fmt::format("{}", count.added + count.deleted), digits),
              lines.empty() ? "" : " ", lines);
  }
  out.print(" {} changed, {}, {}\n", plural(counts.size(), "file", "files"),
            plural(added, "insertion(+)", "insertions(+)"), plural(deleted, "deletion(-)", "deletions(-)"));
}

enum class Ends { kLine, kNull };

void print_names(Output& out, const std::vector<TreeChange>& changes, Ends ends) {
  for (const TreeChange& change : changes) {
    if (ends == Ends::kNull) out.write(out.exact_name(change.path) + '\0');
    else out.line(path_in_line(change.path));
  }
}

// Each field ends with NUL, so that no name can be mistaken for anything else.
void print_lines_null(Output& out, const std::vector<TreeChange>& changes) {
  for (const TreeChange& change : changes) {
    std::string line = fmt::format("{} {} ", change.letter(), change.type_letter());
    if (change.kind == TreeChangeKind::kRenamed) line += out.exact_name(change.base_path) + '\0';
    out.write(line + out.exact_name(change.path) + '\0');
  }
}

Status print_patch(Output& out, const AgentOverlay& overlay, const std::vector<TreeChange>& changes) {
  auto sink = [&](std::string_view text) -> Status {
    print_patch_text(out, text);
    return out.status();
  };
  return write_patch(overlay, changes, sink, out.is_terminal() ? BinaryContent::kMentioned : BinaryContent::kIncluded);
}

// All of it is of one moment. The output is to be held: the session's log grows as long as the transaction lasts.
Status show(Context& context, const Arguments& args, const AgentOverlay& overlay, std::vector<TreeChange>& changes,
            const std::vector<std::string>& paths) {
  Output& out = context.out;
  auto view = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  std::vector<std::string> left_out = WARREN_TRY(leave_out_vanished(overlay, {}, changes));
  print_vanished(context.err, left_out);
  if (args.has("json")) {
    Json list = Json::array();
    for (const TreeChange& change : changes) {
      Remarks remarks = WARREN_TRY(remarks_of(overlay, change));
      list.push_back(change_json(change, remarks));
    }
    out.json(list);
  } else if (args.has("name-only")) {
    print_names(out, changes, args.has("null") ? Ends::kNull : Ends::kLine);
  } else if (args.has("stat")) {
    std::vector<FileCounts> counts = WARREN_TRY(count_lines_changed(overlay, changes));
    if (!counts.empty()) print_stat(out, counts);
  } else if (!args.has("patch") && args.has("null")) {
    print_lines_null(out, changes);
  } else if (!args.has("patch")) {
    WARREN_TRY(print_overview(out, overlay, changes, paths, args.has("all") ? Fold::kNo : Fold::kYes));
  }
  if (args.has("patch") && !args.has("json")) WARREN_TRY(print_patch(out, overlay, changes));
  return out.status();
}

bool is_read_by_people(const Arguments& args) {
  return !args.has("json") && !args.has("name-only") && !args.has("null") && !args.has("no-pager");
}

// A path of the base that the agent has somewhere else, because it has renamed a directory above it: that rename, and
// what is changed at the path. Only to show it: to name a file is not to apply a rename of all around it.
void take_moved(const std::vector<std::string>& paths, const std::vector<std::string>& excluded,
                const std::vector<TreeChange>& all, Selection& selection) {
  ChangeFilter is_left_in = filter_of({}, excluded);
  for (const std::string& path : paths) {
    ChangeFilter is_named = filter_of(with_exact_names({path}, all));
    bool is_selected = std::ranges::any_of(all, [&](const TreeChange& change) {
      return is_named(change.path) || (change.kind == TreeChangeKind::kRenamed && is_named(change.base_path));
    });
    if (is_selected) continue;
    Result<std::string> plain = normalise_path(path);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const TreeChange& change = all[i];
      if (change.base_path.empty() || (is_left_in && !is_left_in(change.path))) continue;
      bool is_above = plain.ok() && change.kind == TreeChangeKind::kRenamed && is_at_or_below(*plain, change.base_path);
      if (is_above || is_named(change.base_path)) selection.take(i);
    }
  }
}

struct ShownDiff {
  bool has_changes = false;
  bool is_everything = false;  // no PATH was given
};

Result<ShownDiff> show_one(Context& context, const Arguments& args) {
  OverlayAgent opened = WARREN_TRY(open_to_show(context, args.get("ID")));
  if (WARREN_TRY(is_interrupted(*opened.agent))) {
    context.err.print(
        "an apply of this agent is under way or was interrupted: `warren apply {} --recover` finishes it\n",
        context.err.name(args.get("ID")));
  }
  std::vector<std::string> paths = WARREN_TRY(paths_of(args, opened.overlay));
  std::vector<TreeChange> all = WARREN_TRY(list_changes(opened.overlay));
  print_work_in_doubt(context, mark_by_commits(opened.overlay, all));
  Selection selection(all);
  selection.take_if(filter_of(with_exact_names(paths, all), excluded_of(args)));
  take_moved(paths, excluded_of(args), all, selection);
  std::vector<TreeChange> changes = selection.list();
  print_left_out_folders(context.err, leave_out_agent_folders(changes, paths));
  std::vector<TreeChange> in_git = WARREN_TRY(leave_out_git(opened.overlay, changes, paths));
  if (!in_git.empty()) {
    WARREN_TRY(print_left_out_git(context, opened.overlay, in_git));
    print_new_commits(context, opened.overlay, all, in_git);
  }
  WARREN_TRY(check_paths(opened.overlay, paths, changes));
  WARREN_TRY(record_reading(*opened.agent, "diff", paths));
  context.out.hold();
  Status shown = show(context, args, opened.overlay, changes, paths);
  std::optional<Paged> paged;
  if (is_read_by_people(args) && shown.ok()) paged.emplace(context);
  WARREN_TRY(context.out.release());
  WARREN_TRY(std::move(shown));
  return ShownDiff{.has_changes = !changes.empty(), .is_everything = paths.empty()};
}

Result<Exit> run_diff(Context& context, const Arguments& given) {
  Arguments args = WARREN_TRY(with_session_and_paths(given, context.clock));
  int forms = (args.has("json") ? 1 : 0) + (args.has("name-only") ? 1 : 0) + (args.has("stat") ? 1 : 0);
  if (forms > 1) return refuse(context, "--json, --name-only and --stat cannot be used together");
  if (args.has("patch") && (args.has("json") || args.has("name-only")))
    return refuse(context, "--patch cannot be used with --json or --name-only");
  if (args.has("null") && (args.has("json") || args.has("stat") || args.has("patch")))
    return refuse(context, "--null cannot be used with --json, --stat or --patch");
  if (auto pair = find_pair(args.get("ID"))) return diff_pair(context, args, *pair);
  settle_merged(args.get("ID"), context.clock).ignore("then more is a change than has to be");
  ShownDiff shown = WARREN_TRY(show_one(context, args));
  // The agent is closed: whoever has it open is another process.
  if (is_read_by_people(args) && !shown.has_changes && shown.is_everything) mention_finished(context, args);
  return args.has("exit-code") && shown.has_changes ? Exit::kFailed : Exit::kOk;
}

// AgentFS has no renames and prints one line for each path.
std::map<std::string, std::string> agentfs_lines(const std::vector<TreeChange>& changes) {
  std::map<std::string, std::string> lines;
  for (const TreeChange& change : changes) {
    bool is_renamed = change.kind == TreeChangeKind::kRenamed;
    char type = change.type_letter();
    if (is_renamed) lines.emplace(change.base_path, fmt::format("D {}", type));
    char letter = is_renamed ? 'A' : change.letter();
    auto [there, is_new] = lines.emplace(change.path, fmt::format("{} {}", letter, type));
    if (!is_new) there->second = fmt::format("M {}", type);  // renamed away, and replaced by something else
  }
  return lines;
}

Result<Exit> run_agentfs_diff(Context& context, const Arguments& args) {
  const std::string& id = args.get("ID_OR_PATH");
  WARREN_TRY(locate_for_agentfs(id));
  context.err.print("Using agent: {}\n", context.err.name(id));
  {
    auto agent = WARREN_TRY(Agent::open({.id_or_path = id, .mode = OpenMode::kReadOnly}, context.clock));
    if (!agent->base()) {
      context.out.line("No diff (non-overlay filesystem)");
      return Exit::kOk;
    }
  }
  OverlayAgent opened = WARREN_TRY(open_to_show(context, id));
  WARREN_TRY(record_reading(*opened.agent, "diff", {}));
  context.err.print("Base: {}\n", context.err.name(opened.overlay.base_path));
  std::vector<TreeChange> changes = WARREN_TRY(list_changes(opened.overlay));
  if (changes.empty()) context.out.line("No changes");
  for (const auto& [path, line] : agentfs_lines(changes)) {
    context.out.print("{} {}\n", line, context.out.name(path));
  }
  return Exit::kOk;
}

}  // namespace

Command make_agentfs_diff() {
  return {.name = "diff",
          .summary = "Show differences between the base and the agent (overlays only)",
          .details = "",
          .positionals = {{.name = "ID_OR_PATH",
                           .help = "the agent: an id in ./.agentfs, or the path of its file",
                           .suggest = Suggest::kAgents}},
          .options = {},
          .subcommands = {},
          .handler = run_agentfs_diff};
}

Command make_diff() {
  return {.name = "diff",
          .summary = "Show an agent's changes to its base",
          .details =
              "Prints one line for each change, or for a directory that is wholly new or gone, or that git ignores: A "
              "added, M modified, D deleted, R renamed; then f, d or l for a file, a "
              "directory or a link, the path, and in brackets what should not be overlooked: new privileges, devices, "
              "files "
              "that run by themselves, that it reverts your uncommitted work, a conflict with the base as it is "
              "now, or that only the mode changed. Files that "
              "were only read do not appear, nor does what changed in .git, unless a "
              "PATH "
              "names it: what the agent has committed is named instead. "
              "PATH is a path, which includes everything below it, or a pattern: * ? [a-z] **. "
              "With A..B as ID, shows what session B has and session A does not.",
          .positionals = {optional_id_argument(), changed_path_argument()},
          .options = {{.name = "patch", .letter = 'p', .help = "print a patch for git apply and patch -p1"},
                      {.name = "stat", .help = "print the number of changed lines for each file; nothing is folded"},
                      {.name = "name-only", .help = "print only the paths, escaped as in the list; exact with -z"},
                      {.name = "null", .letter = 'z', .help = "end each entry with NUL instead of a newline"},
                      {.name = "exit-code", .help = "exit with 1 if there are changes"},
                      {.name = "all", .letter = 'a', .help = "list every change instead of folding directories"},
                      exclude_option(),
                      {.name = "no-pager", .help = "print to the terminal directly"},
                      json_option()},
          .subcommands = {},
          .handler = run_diff};
}

}  // namespace warren::cli
