#include "tools/agent/checkpoint_tools.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/agent_namespace.h"
#include "agent/checkpoints/checkpoints.h"
#include "agent/checkpoints/mounted_state.h"
#include "agent/checkpoints/working_copy.h"
#include "base/below.h"
#include "base/path.h"
#include "fs/mounts/mount_fs.h"
#include "fs/path_ops.h"
#include "store/history/mounted_rows.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Json checkpoint_of(const Checkpoint& one) {
  return {{"id", one.id},
          {"name", one.name},
          {"taken", time_text({.seconds = one.at_us / 1'000'000, .nanoseconds = 0})},
          {"cause", one.cause}};
}

// Reading, too: what comes back is content of that time.
Status check_all_rights(ToolContext& context, const std::string& path) {
  for (Rights::Operation operation : {Rights::kRead, Rights::kOverwrite, Rights::kCreate, Rights::kDelete}) {
    WARREN_TRY(check_right(context, operation, path, "restore"));
  }
  return Ok{};
}

// An agent restores only by names that lead nowhere else: rules are by path.
Status check_no_link(ToolContext& context, FileSystem& tree, const std::string& path) {
  std::string parent(directory_of(path));
  std::string real = WARREN_TRY(follow_links(tree, parent));
  if (real == parent) return Ok{};
  Error refused(Code::kDenied, fmt::format("{} leads through a symbolic link to {}", quote(path), quote(real)),
                "Give the path without links.");
  WARREN_TRY(context.view.record("restore", path, Status(refused)));
  return refused;
}

// Of the path and whatever is below it in this tree.
Status check_tree_rights(ToolContext& context, FileSystem& tree, const std::string& path) {
  bool is_operator = context.view.caller().space == Space::kKernel;
  if (!is_operator) WARREN_TRY(check_no_link(context, tree, path));
  Result<Attributes> node = lstat(tree, path);
  bool is_missing =
      !node.ok() && (node.error().code() == Code::kNotFound || node.error().code() == Code::kNotDirectory);
  if (is_missing) return check_all_rights(context, path);
  WARREN_TRY(std::move(node));
  auto judge = [&](const WalkEntry& entry) -> Result<WalkNext> {
    WARREN_TRY(check_cancelled(context));
    WARREN_TRY(check_all_rights(context, entry.path));
    bool has_other_names = !entry.attributes.is_directory() && entry.attributes.nlink > 1;
    if (has_other_names && !is_operator) {
      for (const std::string& other : WARREN_TRY(other_paths_of(tree, entry.path))) {
        WARREN_TRY(check_all_rights(context, other));
      }
    }
    return WalkNext::kContinue;
  };
  return walk(tree, path, judge, {.follow = Follow::kNo});
}

// The paths as they are in the namespace, if the caller has all rights to them, now and in the checkpoint.
Result<std::vector<std::string>> restorable_paths(ToolContext& context, const Checkpoint& wanted,
                                                  const std::vector<std::string>& paths) {
  std::vector<std::string> resolved;
  if (paths.empty()) return resolved;
  std::unique_ptr<Agent> past = WARREN_TRY(open_checkpoint(context.agent, wanted.id, context.clock));
  for (const std::string& path : paths) {
    std::string at = WARREN_TRY(context.view.resolve(*context.names, path, "restore"));
    WARREN_TRY(check_tree_rights(context, context.view, at));
    WARREN_TRY(check_tree_rights(context, past->fs(), at));
    resolved.push_back(std::move(at));
  }
  return resolved;
}

// Times of directories say only that something in them has changed, which is looked at itself.
bool is_as_then(const Attributes& now, const Attributes& then) {
  if (now.mode != then.mode || now.is_directory()) return now.mode == then.mode;
  return now.size == then.size && now.mtime == then.mtime && now.ctime == then.ctime;
}

// What is in mounts as it was at a checkpoint, by its path in the namespace.
struct SameInMounts {
  std::set<std::string> nodes;
  std::set<std::string> directories;  // that were there then, whatever is in them now
};

Result<std::vector<MountedRow>> copies_of(Agent& agent, const std::string& mount) {
  auto unit = WARREN_TRY(agent.fs().begin(UnitAccess::kRead));
  return MountedRows(agent.store()).list(mount);
}

Status compare_copies(Agent& now, Agent& then, const std::string& mount, SameInMounts& same) {
  std::vector<MountedRow> past_rows = WARREN_TRY(copies_of(then, mount));
  std::map<std::string_view, const MountedRow*> before;
  same.directories.insert(mount);
  for (const MountedRow& row : past_rows) {
    before.emplace(row.key, &row);
    std::string_view dir = row.key;
    for (std::size_t end = dir.rfind('/'); end != dir.npos; end = dir.rfind('/')) {
      dir = dir.substr(0, end);
      same.directories.insert(join_path(mount, dir));
    }
  }
  std::vector<MountedRow> rows = WARREN_TRY(copies_of(now, mount));
  for (const MountedRow& row : rows) {
    auto found = before.find(row.key);
    if (found != before.end() && is_same_copy(*found->second, row)) same.nodes.insert(join_path(mount, row.key));
  }
  return Ok{};
}

// Compares copies: what the mounts have now is copied into the agent file first, as for a checkpoint. A mount that
// cannot be copied counts as changed.
Result<SameInMounts> same_in_mounts(ToolContext& context, Agent& past, const std::vector<std::string>& paths) {
  SameInMounts same;
  MountedState& mounted = context.names.mounted();
  if (std::ranges::none_of(paths, [&](const std::string& path) { return mounted.has_path(path); })) return same;
  MountedState::Copied copied = WARREN_TRY(mounted.copy_in(MountedState::Unreachable::kLeaveOut));
  for (const CoveredMount& mount : copied.covered) {
    bool is_asked =
        std::ranges::any_of(paths, [&](const std::string& path) { return is_at_or_below(path, mount.path); });
    if (is_asked) WARREN_TRY(compare_copies(context.agent, past, mount.path, same));
  }
  return same;
}

// What is there now and not as it was at the checkpoint. Mounts below the paths are not looked at.
Result<RemovedTree> replaced_tree(ToolContext& context, FileSystem& now, Agent& past_agent,
                                  const std::vector<std::string>& paths) {
  FileSystem& past = past_agent.fs();
  SameInMounts same = WARREN_TRY(same_in_mounts(context, past_agent, paths));
  RemovedTree tree;
  for (const std::string& path : paths) {
    Result<Attributes> top = lstat(now, path);
    if (!top.ok() && (top.error().code() == Code::kNotFound || top.error().code() == Code::kNotDirectory)) continue;
    Attributes start = WARREN_TRY(std::move(top));
    auto look = [&](const WalkEntry& entry) -> Result<WalkNext> {
      WARREN_TRY(check_cancelled(context));
      if (are_in_different_mounts(entry.attributes.inode, start.inode)) return WalkNext::kSkip;
      bool is_same_dir = entry.attributes.is_directory() && same.directories.contains(entry.path);
      if (is_same_dir || same.nodes.contains(entry.path)) return WalkNext::kContinue;
      Result<Attributes> then = lstat(past, entry.path);
      if (!then.ok() || !is_as_then(entry.attributes, *then)) tree.add(entry.path, entry.attributes);
      return WalkNext::kContinue;
    };
    WARREN_TRY(walk(now, path, look, {.follow = Follow::kNo}));
  }
  return tree;
}

// Asks before a restore, if somebody can be asked. kConflict if something else would be replaced after the answer.
Status check_restore(ToolContext& context, const Checkpoint& wanted, const std::vector<std::string>& resolved) {
  if (!context.ask) return Ok{};
  bool is_everything = resolved.empty();
  std::unique_ptr<Agent> past = WARREN_TRY(open_checkpoint(context.agent, wanted.id, context.clock));
  FileSystem& now = is_everything ? context.agent.fs() : context.view;
  std::vector<std::string> paths = is_everything ? std::vector<std::string>{"/"} : resolved;
  RemovedTree before = WARREN_TRY(replaced_tree(context, now, *past, paths));
  std::string what = is_everything ? std::string("everything") : fmt::format("{}", fmt::join(resolved, ", "));
  constexpr std::size_t kAskedBytes = 500;
  if (what.size() > kAskedBytes) what = fmt::format("{} paths", resolved.size());
  std::string text = fmt::format("Restore {} from checkpoint {}? ", what, quote(wanted.name));
  text += before.is_empty() ? "Nothing that is there was changed since."
                            : fmt::format("It replaces or removes what was changed since: {}.", before.summary());
  std::string state = fmt::format("{}\n{}", fmt::join(resolved, "\n"), before.state());
  WARREN_TRY(check_consent(context, {.text = std::move(text), .state = std::move(state)}));
  RemovedTree after = WARREN_TRY(replaced_tree(context, now, *past, paths));
  if (after.state() == before.state()) return Ok{};
  return Error(Code::kConflict,
               fmt::format("{} has changed since the user was asked; nothing was restored", quote(what)),
               "Call it again, so that the user is asked about what is there now.");
}

// Checkpoints of an agent with a base are about the base's files, which are not in the namespace.
Status check_has_no_base(const ToolContext& context, std::string_view what) {
  if (!context.agent.base()) return Ok{};
  return Error(Code::kUnsupported, fmt::format("{} is not possible here: this agent's files belong to a project", what),
               "See what changed with diff {}. Going back is the operator's.");
}

Result<ToolAnswer> history_answer(ToolContext& context, const Json& arguments) {
  WARREN_TRY(check_right(context, Rights::kList, std::string(kCheckpointDir), "list"));
  std::size_t limit = std::min<std::size_t>(count_argument(arguments, "limit", 50), kToolPageEntries);
  std::vector<Checkpoint> all = WARREN_TRY(list_checkpoints(context.agent));
  std::reverse(all.begin(), all.end());
  ToolAnswer answer;
  Json shown = Json::array();
  for (const Checkpoint& one : all) {
    if (shown.size() == limit) break;
    shown.push_back(checkpoint_of(one));
    answer.text += fmt::format("{}  {}  {}\n", one.id, shown.back()["taken"].get<std::string>(), one.name);
  }
  if (all.empty()) answer.text = "there are no checkpoints";
  answer.structured["checkpoints"] = std::move(shown);
  answer.structured["total"] = all.size();
  return answer;
}

std::vector<std::string> path_list(const Json& arguments) {
  std::vector<std::string> paths;
  if (auto given = arguments.find("paths"); given != arguments.end()) {
    for (const Json& one : *given) paths.push_back(one.get<std::string>());
  }
  return paths;
}

Json checkpoint_input() { return object_schema({{"name", text_schema("letters, not a number")}}, {"name"}); }
Json checkpoint_output() { return object_schema({{"checkpoint", checkpoint_schema()}}, {"checkpoint"}); }

Json restore_input() {
  Json paths = list_schema("files or directories, also deleted ones", text_schema(""));
  paths["minItems"] = 1;  // none would mean everything
  paths["maxItems"] = 1000;
  return object_schema({{"checkpoint", text_schema("its id or name")}, {"paths", std::move(paths)}}, {"checkpoint"});
}

Json restore_output() {
  return object_schema({{"restored", checkpoint_schema()}, {"before", checkpoint_schema()}}, {"restored", "before"});
}

Json history_input() { return object_schema({{"limit", whole_number_schema("default 50", 1)}}, {}); }

Json history_output() {
  return object_schema(
      {{"checkpoints", list_schema("newest first", checkpoint_schema())}, {"total", whole_number_schema("", 0)}},
      {"checkpoints", "total"});
}

}  // namespace

Json checkpoint_schema() {
  return object_schema({{"id", whole_number_schema("", 1)},
                        {"name", text_schema("")},
                        {"taken", text_schema("UTC")},
                        {"cause", text_schema("")}},
                       {"id", "name", "taken", "cause"});
}

ToolAnswer checkpoint_answer(Result<ToolAnswer> made) {
  if (made.ok()) return std::move(made).take_value();
  ToolAnswer answer;
  std::string hint = made.error().hint();
  if (hint.empty() && made.error().code() == Code::kNotFound) hint = kListCheckpointsHint;
  answer.error = tool_error(made.error(), std::move(hint));
  return answer;
}

Result<Checkpoint> wanted_checkpoint(ToolContext& context, std::string_view which) {
  Result<Checkpoint> found = get_checkpoint(context.agent, which);
  if (found.ok()) return found;
  return std::move(found).take_error().with_hint(kListCheckpointsHint);
}

Result<ToolAnswer> take_named_checkpoint(ToolContext& context, std::string_view name) {
  if (Status valid = check_checkpoint_name(name); !valid.ok()) {
    return std::move(valid).take_error().with_hint(
        "Choose a name with a letter: checkpoint {\"name\": \"before-rewrite\"}");
  }
  WARREN_TRY(check_right(context, Rights::kCreate, join_path(kCheckpointDir, name), "checkpoint"));
  bool is_operator = context.view.caller().space == Space::kKernel;
  MountedState& mounted = context.names.mounted();
  Checkpoint made = WARREN_TRY(is_operator ? take_checkpoint(context.agent, name, "asked", &mounted)
                                           : take_agents_checkpoint(context.agent, name, "namespace", mounted));
  if (!is_operator) WARREN_TRY(context.view.record("checkpoint", join_path(kCheckpointDir, name), Status(Ok{})));
  ToolAnswer answer;
  answer.structured["checkpoint"] = checkpoint_of(made);
  answer.text = fmt::format("Took checkpoint {} ({})", made.id, made.name);
  return answer;
}

Result<ToolAnswer> restore_from_checkpoint(ToolContext& context, std::string_view which,
                                           const std::vector<std::string>& paths) {
  WARREN_TRY(check_has_no_base(context, "restore"));
  Checkpoint wanted = WARREN_TRY(wanted_checkpoint(context, which));
  bool is_operator = context.view.caller().space == Space::kKernel;
  if (paths.empty() && !is_operator) {
    Error refused(
        Code::kDenied, "only the operator may restore everything: it brings back the old rules, too",
        "Name the files and directories: restore {\"checkpoint\": \"before-rewrite\", \"paths\": [\"/src\"]}");
    WARREN_TRY(context.view.record("restore", "/", Status(refused)));
    return refused;
  }
  std::vector<std::string> resolved = WARREN_TRY(restorable_paths(context, wanted, paths));
  WARREN_TRY(check_restore(context, wanted, resolved));
  // The answer may have taken minutes: rules and links are others now.
  if (WARREN_TRY(restorable_paths(context, wanted, paths)) != resolved) {
    return Error(Code::kConflict, "the paths lead elsewhere now", "Ask again.");
  }
  MountedState* mounted = &context.names.mounted();
  Checkpoint before =
      WARREN_TRY(paths.empty() ? restore_checkpoint(context.agent, wanted.id, mounted)
                               : restore_paths(context.agent, wanted.id, resolved, context.clock, mounted));
  ToolAnswer answer;
  answer.structured["restored"] = checkpoint_of(wanted);
  answer.structured["before"] = checkpoint_of(before);
  answer.text = fmt::format("Restored {} from checkpoint {} ({}). What it was before is checkpoint {}.",
                            paths.empty() ? std::string("everything") : fmt::format("{} paths", paths.size()),
                            wanted.id, wanted.name, before.id);
  return answer;
}

const Tool& checkpoint_tool() {
  static constexpr Tool kTool{
      .name = "checkpoint",
      .title = "Take a checkpoint",
      .group = "checkpoints",
      .description =
          "Keep the present state of all files and keys under a name. Use it before risky changes; restore "
          "goes back, diff shows what changed since. Returns its id, name and time. Example: {\"name\": "
          "\"before-rewrite\"}",
      .hints = {},
      .input_schema = checkpoint_input,
      .output_schema = checkpoint_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return checkpoint_answer(take_named_checkpoint(context, text_argument(arguments, "name")));
      }};
  return kTool;
}

const Tool& restore_tool() {
  static constexpr Tool kTool{
      .name = "restore",
      .title = "Restore from a checkpoint",
      .group = "checkpoints",
      .description =
          "Make files and directories what they were at a checkpoint; history lists them. Returns the "
          "checkpoint, and one of the state before, which undoes it. Example: {\"checkpoint\": "
          "\"before-rewrite\", \"paths\": [\"/src\"]}",
      .hints = {.is_destructive = true},
      .input_schema = restore_input,
      .output_schema = restore_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return checkpoint_answer(
            restore_from_checkpoint(context, text_argument(arguments, "checkpoint"), path_list(arguments)));
      }};
  return kTool;
}

const Tool& history_tool() {
  static constexpr Tool kTool{
      .name = "history",
      .title = "List checkpoints",
      .group = "checkpoints",
      .description =
          "List the agent's checkpoints, for restore and diff. Returns id, name, time and cause of each, "
          "newest first. Example: {\"limit\": 10}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = history_input,
      .output_schema = history_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return checkpoint_answer(history_answer(context, arguments));
      }};
  return kTool;
}

}  // namespace warren
