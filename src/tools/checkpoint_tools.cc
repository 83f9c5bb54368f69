#include "tools/checkpoint_tools.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "agent/checkpoints.h"
#include "base/path.h"
#include "changes/past_diff.h"
#include "fs/path_ops.h"
#include "tools/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::string_view kCheckpointDir = "/state/checkpoints";
constexpr std::size_t kDiffTextBytes = std::size_t{256} << 10;

ToolAnswer checkpoint_answer(Result<ToolAnswer> made) {
  if (made.ok()) return std::move(made).take_value();
  ToolAnswer answer;
  std::string hint = made.error().hint();
  if (hint.empty() && made.error().code() == Code::kNotFound) hint = "List the checkpoints: history {}";
  answer.error = tool_error(made.error(), std::move(hint));
  return answer;
}

Json checkpoint_of(const Checkpoint& one) {
  return {{"id", one.id},
          {"name", one.name},
          {"taken", time_text({.seconds = one.at_us / 1'000'000, .nanoseconds = 0})},
          {"cause", one.cause}};
}

Json checkpoint_schema() {
  return object_schema({{"id", whole_number_schema("", 1)},
                        {"name", text_schema("")},
                        {"taken", text_schema("UTC")},
                        {"cause", text_schema("")}},
                       {"id", "name", "taken", "cause"});
}

Status check_right(ToolContext& context, Rights::Operation operation, const std::string& path, std::string_view op) {
  if (WARREN_TRY(context.view.may(operation, path))) return Ok{};
  Error refused(Code::kDenied, fmt::format("{} {} is not allowed", name_of(operation), quote(path)));
  WARREN_TRY(context.view.record(op, path, Status(refused)));
  return refused;
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

// Checkpoints of an agent with a base are about the base's files, which are not in the namespace.
Status check_has_no_base(const ToolContext& context, std::string_view what) {
  if (!context.agent.base()) return Ok{};
  return Error(Code::kUnsupported, fmt::format("{} is not possible here: this agent's files belong to a project", what),
               "The operator can use `warren checkpoint` and `warren diff`.");
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

std::string_view word_of(TreeChangeKind kind) {
  switch (kind) {
    case TreeChangeKind::kDeleted: return "deleted";
    case TreeChangeKind::kModified: return "modified";
    case TreeChangeKind::kRenamed: return "renamed";
    case TreeChangeKind::kAdded: return "added";
  }
  return "changed";
}

bool has_several_names(const std::optional<Attributes>& node) {
  return node && !node->is_directory() && node->nlink > 1;
}

// Only what the caller may read, under the name it has now and the one it had. A file with several names may be one
// that it must not read: an agent does not see it.
Status keep_readable(ToolContext& context, PastDiff& diff) {
  std::vector<TreeChange> kept;
  for (TreeChange& change : diff.changes) {
    bool is_linked = has_several_names(change.before) || has_several_names(change.after);
    if (is_linked && context.view.caller().space == Space::kUser) continue;
    bool may_see = WARREN_TRY(context.view.may(Rights::kRead, change.path));
    if (may_see && !change.base_path.empty() && change.base_path != change.path) {
      may_see = WARREN_TRY(context.view.may(Rights::kRead, change.base_path));
    }
    if (may_see) kept.push_back(std::move(change));
  }
  diff.changes = std::move(kept);
  return Ok{};
}

// The beginning of it: files after the limit are not even read.
Result<std::string> patch_text(const ToolContext& context, const PastDiff& diff) {
  std::string text;
  Status done = write_past_patch(diff, [&](std::string_view part) -> Status {
    WARREN_TRY(check_cancelled(context));
    text += part.substr(0, kDiffTextBytes - text.size());
    if (text.size() == kDiffTextBytes) return Error(Code::kLimit, "the patch is full");
    return Ok{};
  });
  if (text.size() < kDiffTextBytes) WARREN_TRY(std::move(done));
  return text;
}

Json key_changes(const PastDiff& diff) {
  return {{"added", diff.keys_added}, {"modified", diff.keys_changed}, {"deleted", diff.keys_deleted}};
}

Result<ToolAnswer> diff_answer(ToolContext& context, const Json& arguments) {
  WARREN_TRY(check_has_no_base(context, "diff"));
  Checkpoint from = WARREN_TRY(get_checkpoint(context.agent, text_argument(arguments, "from")));
  std::optional<std::int64_t> to;
  if (arguments.contains("to")) to = WARREN_TRY(get_checkpoint(context.agent, text_argument(arguments, "to")))
  .id;
  PastDiff diff = WARREN_TRY(diff_checkpoints(context.agent.path(), from.id, to, context.clock));
  WARREN_TRY(keep_readable(context, diff));
  WARREN_TRY(context.view.record("diff", "/", Status(Ok{})));
  std::size_t limit = std::min<std::size_t>(count_argument(arguments, "limit", 500), kToolPageEntries);
  ToolAnswer answer;
  Json changes = Json::array();
  for (const TreeChange& change : diff.changes) {
    if (answer.text.size() < kDiffTextBytes) answer.text += fmt::format("{} {}\n", change.letter(), change.path);
    if (changes.size() == limit) continue;
    Json one{{"change", word_of(change.kind)}};
    set_path_text(one, "path", change.path);
    if (change.kind == TreeChangeKind::kRenamed) set_path_text(one, "from", change.base_path);
    changes.push_back(std::move(one));
  }
  answer.structured["total"] = diff.changes.size();
  answer.structured["changes"] = std::move(changes);
  answer.structured["keys"] = key_changes(diff);
  if (flag_argument(arguments, "patch")) {
    answer.text = WARREN_TRY(patch_text(context, diff));
    answer.structured["patch"] = answer.text;
  }
  if (answer.text.size() > kDiffTextBytes) answer.text.resize(kDiffTextBytes);
  if (answer.text.empty()) answer.text = "no file has changed";
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

Json diff_input() {
  return object_schema({{"from", text_schema("a checkpoint: its id or name")},
                        {"to", text_schema("a later one; default: now")},
                        {"patch", flag_schema("also return the changed lines, up to 256 KiB")},
                        {"limit", whole_number_schema("changes; default 500, at most 1000", 1)}},
                       {"from"});
}

Json diff_output() {
  Json change = object_schema({{"change", text_schema("")},
                               {"path", text_schema("")},
                               {"path_base64", text_schema("")},
                               {"from", text_schema("")},
                               {"from_base64", text_schema("")}},
                              {"change", "path"});
  Json names = list_schema("", text_schema(""));
  return object_schema({{"changes", list_schema("", std::move(change))},
                        {"total", whole_number_schema("", 0)},
                        {"keys", object_schema({{"added", names}, {"modified", names}, {"deleted", names}}, {})},
                        {"patch", text_schema("")}},
                       {"changes", "total", "keys"});
}

}  // namespace

Result<ToolAnswer> take_named_checkpoint(ToolContext& context, std::string_view name) {
  WARREN_TRY(check_checkpoint_name(name));
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
  Checkpoint wanted = WARREN_TRY(get_checkpoint(context.agent, which));
  bool is_operator = context.view.caller().space == Space::kKernel;
  if (paths.empty() && !is_operator) {
    Error refused(Code::kDenied, "only the operator may restore everything: it brings back the old rules, too",
                  "Give \"paths\": the files and directories to restore.");
    WARREN_TRY(context.view.record("restore", "/", Status(refused)));
    return refused;
  }
  std::vector<std::string> resolved;
  if (!paths.empty()) {
    std::unique_ptr<Agent> past = WARREN_TRY(open_checkpoint(context.agent, wanted.id, context.clock));
    for (const std::string& path : paths) {
      std::string at = WARREN_TRY(context.view.resolve(*context.names, path, "restore"));
      WARREN_TRY(check_tree_rights(context, context.view, at));
      WARREN_TRY(check_tree_rights(context, past->fs(), at));
      resolved.push_back(std::move(at));
    }
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
          "Keep the present state of all files and keys under a name. Use it before risky changes. Example: "
          "{\"name\": \"before-rewrite\"}",
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
          "Make files and directories what they were at a checkpoint. A checkpoint of the present is taken "
          "first, so that it can be undone. Example: {\"checkpoint\": \"before-rewrite\", \"paths\": "
          "[\"/src\"]}",
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
  static constexpr Tool kTool{.name = "history",
                              .title = "List checkpoints",
                              .group = "checkpoints",
                              .description = "List the agent's checkpoints, newest first. Example: {\"limit\": 10}",
                              .hints = {.is_read_only = true, .is_idempotent = true},
                              .input_schema = history_input,
                              .output_schema = history_output,
                              .call = [](ToolContext& context, const Json& arguments) {
                                return checkpoint_answer(history_answer(context, arguments));
                              }};
  return kTool;
}

const Tool& diff_tool() {
  static constexpr Tool kTool{
      .name = "diff",
      .title = "Compare checkpoints",
      .group = "checkpoints",
      .description =
          "Show which files and keys changed since a checkpoint, or between two. Example: {\"from\": "
          "\"before-rewrite\", \"patch\": true}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = diff_input,
      .output_schema = diff_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return checkpoint_answer(diff_answer(context, arguments));
      }};
  return kTool;
}

}  // namespace warren
