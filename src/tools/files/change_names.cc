// The tools that change names: mkdir, remove, rename, copy.
#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "agent/files/file_verbs.h"
#include "base/path.h"
#include "fs/mounts/mount_points.h"
#include "fs/path_ops.h"
#include "fs/stoppable_remove.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"
#include "vfs/on_record.h"

namespace warren {
namespace {

ToolAnswer changed_path(const std::string& path, std::string text) {
  ToolAnswer answer;
  set_path_text(answer.structured, "path", path);
  answer.text = std::move(text);
  return answer;
}

ToolAnswer changed_paths(const std::string& from, const std::string& to, std::string text) {
  ToolAnswer answer;
  set_path_text(answer.structured, "from", from);
  set_path_text(answer.structured, "to", to);
  answer.text = std::move(text);
  return answer;
}

Result<ToolAnswer> mkdir_answer(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "create"));
  if (flag_argument(arguments, "parents")) WARREN_TRY(make_dirs(context.view, path));
  else WARREN_TRY(make_dir(context.view, path));
  return changed_path(path, fmt::format("Created directory: {}", path));
}

Result<RemovedTree> tree_below(ToolContext& context, const std::string& path) {
  RemovedTree tree;
  auto add = [&](const WalkEntry& entry) -> Result<WalkNext> {
    WARREN_TRY(check_cancelled(context));
    if (entry.path != path) tree.add(entry.path, entry.attributes);
    return WalkNext::kContinue;
  };
  WARREN_TRY(walk(context.view, path, add, {.follow = Follow::kNo}));
  return tree;
}

// As AgentFS: a file, or an empty directory.
Result<ToolAnswer> remove_answer(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "delete"));
  bool is_recursive = flag_argument(arguments, "recursive");
  Attributes node = WARREN_TRY(on_record(context.view, "delete", path, lstat(context.view, path)));
  if (node.is_directory() && is_recursive) {
    bool is_refused = WARREN_TRY(leads_to_mount(context.view, node));
    if (!is_refused) WARREN_TRY(check_removal(context, "Remove", path, [&] { return tree_below(context, path); }));
  }
  RemoveOptions options{.recursive = is_recursive ? Recursive::kYes : Recursive::kNo};
  if (node.is_directory() && !is_recursive) WARREN_TRY(remove_dir(context.view, path));
  else WARREN_TRY(remove_stoppable(context.view, path, options, [&] { return check_cancelled(context); }));
  return changed_path(path, fmt::format("Removed: {}", path));
}

Result<ToolAnswer> rename_answer(ToolContext& context, const Json& arguments) {
  std::string from = WARREN_TRY(path_argument(context, arguments, "from", "rename"));
  std::string to = WARREN_TRY(path_argument(context, arguments, "to", "rename"));
  bool may_replace = flag_argument(arguments, "replace", true);
  RenameMode mode = may_replace ? RenameMode::kReplace : RenameMode::kNoReplace;
  WARREN_TRY(rename_or_copy(context.view, from, to, mode, [&] { return check_cancelled(context); }));
  return changed_paths(from, to, fmt::format("Renamed {} to {}", from, to));
}

Result<ToolAnswer> copy_answer(ToolContext& context, const Json& arguments) {
  std::string from = WARREN_TRY(path_argument(context, arguments, "from", "read"));
  std::string to = WARREN_TRY(path_argument(context, arguments, "to", "create"));
  bool is_recursive = flag_argument(arguments, "recursive");
  Result<std::string> made =
      copy_path(context.view, from, to,
                {.recursive = is_recursive ? Recursive::kYes : Recursive::kNo, .merge = MergeDirs::kNo, .check = [&] {
                   return check_cancelled(context);
                 }});
  if (!made.ok() && made.error().code() == Code::kIsDirectory) {
    return Error(Code::kIsDirectory, made.error().message(),
                 "Give \"recursive\": true to copy a directory with everything in it.");
  }
  if (!made.ok() && made.error().code() == Code::kExists) {
    return Error(Code::kExists, made.error().message(),
                 "Choose another path, or remove what is there first if it is a copy that was not completed.");
  }
  std::string copy = WARREN_TRY(std::move(made));
  return changed_paths(from, copy, fmt::format("Copied {} to {}", from, copy));
}

// What exists already is at the new path.
ToolAnswer answer_of_two(Result<ToolAnswer> made, const Json& arguments) {
  bool is_target = !made.ok() && made.error().code() == Code::kExists;
  return file_answer(std::move(made), text_argument(arguments, is_target ? "to" : "from"), FileUse::kWrite);
}

Json one_path_output() {
  return object_schema({{"path", text_schema("")}, {"path_base64", text_schema("")}}, {"path"});
}

Json two_paths_output() {
  return object_schema({{"from", text_schema("")},
                        {"from_base64", text_schema("")},
                        {"to", text_schema("")},
                        {"to_base64", text_schema("")}},
                       {"from", "to"});
}

Json mkdir_input() {
  return object_schema({{"path", text_schema("the new directory")},
                        {"parents", flag_schema("make missing parents; no error if it exists")}},
                       {"path"});
}

Json remove_input() {
  return object_schema({{"path", text_schema("a file, link or empty directory")},
                        {"recursive", flag_schema("a directory with everything in it")}},
                       {"path"});
}

Json rename_input() {
  return object_schema({{"from", text_schema("")},
                        {"to", text_schema("the whole new path")},
                        {"replace", flag_schema("replace a file at the new path; default true")}},
                       {"from", "to"});
}

Json copy_input() {
  return object_schema({{"from", text_schema("")},
                        {"to", text_schema("the new path, or an existing directory to copy into")},
                        {"recursive", flag_schema("needed for a directory")}},
                       {"from", "to"});
}

}  // namespace

const Tool& mkdir_tool() {
  static constexpr Tool kTool{
      .name = "mkdir",
      .title = "Make a directory",
      .group = "files",
      .description =
          "Make a directory. Use it for an empty one: write_file makes missing directories itself. Returns "
          "its path. Example: {\"path\": \"/notes\"}",
      .hints = {},
      .input_schema = mkdir_input,
      .output_schema = one_path_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(mkdir_answer(context, arguments), text_argument(arguments, "path"));
      }};
  return kTool;
}

const Tool& remove_tool() {
  static constexpr Tool kTool{
      .name = "remove",
      .title = "Remove a file or directory",
      .group = "files",
      .description =
          "Remove a file, a link or an empty directory; with recursive a whole directory. Take a "
          "checkpoint first if it may be needed again. Returns the path. Example: {\"path\": "
          "\"/notes/old.md\"}",
      .hints = {.is_destructive = true},
      .input_schema = remove_input,
      .output_schema = one_path_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(remove_answer(context, arguments), text_argument(arguments, "path"));
      }};
  return kTool;
}

const Tool& rename_tool() {
  static constexpr Tool kTool{
      .name = "rename",
      .title = "Rename or move",
      .group = "files",
      .description =
          "Rename or move a file or directory, also between mounts; to keep the original use copy. Returns "
          "both paths. Example: {\"from\": \"/draft.md\", \"to\": \"/notes/plan.md\"}",
      .hints = {.is_destructive = true},
      .input_schema = rename_input,
      .output_schema = two_paths_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return answer_of_two(rename_answer(context, arguments), arguments);
      }};
  return kTool;
}

const Tool& copy_tool() {
  static constexpr Tool kTool{
      .name = "copy",
      .title = "Copy a file or directory",
      .group = "files",
      .description =
          "Copy a file, or with recursive a directory; to move it use rename. Into an existing directory the "
          "copy goes under its own name; a directory is not copied over one that exists. Returns the original's "
          "and the copy's path. Example: {\"from\": \"/plan.md\", \"to\": \"/old/plan.md\"}",
      .hints = {.is_destructive = true},
      .input_schema = copy_input,
      .output_schema = two_paths_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return answer_of_two(copy_answer(context, arguments), arguments);
      }};
  return kTool;
}

}  // namespace warren
