// The tools that look at one path: stat, access.
#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "base/path.h"
#include "fs/expiry.h"
#include "fs/path_ops.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

// The members that AgentFS's tool of this name returns come first.
Json stat_json(const Attributes& node) {
  return {{"ino", node.inode.value},
          {"mode", node.mode},
          {"nlink", node.nlink},
          {"uid", node.owner.uid},
          {"gid", node.owner.gid},
          {"size", node.size},
          {"atime", node.atime.seconds},
          {"mtime", node.mtime.seconds},
          {"ctime", node.ctime.seconds},
          {"is_file", node.is_file()},
          {"is_directory", node.is_directory()},
          {"is_symlink", node.is_symlink()},
          {"type", kind_of(node)},
          {"modified", time_text(node.mtime)}};
}

Result<ToolAnswer> stat_answer(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "stat"));
  Attributes node = WARREN_TRY(lstat(context.view, path));
  ToolAnswer answer;
  answer.structured = stat_json(node);
  if (node.is_file()) {
    Result<std::optional<std::int64_t>> expires = find_expiry(context.view, node.inode);
    if (expires.ok() && *expires) answer.structured["expires_at_ms"] = **expires;
  }
  answer.text = dump_json_pretty(answer.structured);
  return answer;
}

Result<ToolAnswer> access_answer(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "exists"));
  ToolAnswer answer;
  answer.structured["exists"] = WARREN_TRY(exists(context.view, path));
  answer.text = dump_json(answer.structured);
  return answer;
}

Json stat_input() { return object_schema({{"path", text_schema("a link is not followed")}}, {"path"}); }

Json stat_output() {
  Json number{{"type", "integer"}};
  return object_schema({{"ino", number},
                        {"mode", number},
                        {"nlink", number},
                        {"uid", number},
                        {"gid", number},
                        {"size", number},
                        {"atime", number},
                        {"mtime", number},
                        {"ctime", number},
                        {"is_file", flag_schema("")},
                        {"is_directory", flag_schema("")},
                        {"is_symlink", flag_schema("")},
                        {"type", text_schema("")},
                        {"modified", text_schema("")},
                        {"expires_at_ms", number}},
                       {"size", "mode", "mtime", "is_file", "is_directory", "is_symlink", "type"});
}

Json access_input() { return object_schema({{"path", text_schema("")}}, {"path"}); }
Json access_output() { return object_schema({{"exists", flag_schema("")}}, {"exists"}); }

}  // namespace

const Tool& stat_tool() {
  static constexpr Tool kTool{
      .name = "stat",
      .title = "Show attributes",
      .group = "files",
      .description =
          "Show what a path is; to list a directory use readdir. Returns type, size, times and mode. "
          "Example: {\"path\": \"/notes\"}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = stat_input,
      .output_schema = stat_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(stat_answer(context, arguments), text_argument(arguments, "path"));
      }};
  return kTool;
}

const Tool& access_tool() {
  static constexpr Tool kTool{
      .name = "access",
      .title = "Test whether a path exists",
      .group = "files",
      .description =
          "Check that a path exists, before it is used. Returns {\"exists\": true} or false; stat tells "
          "more. Example: {\"path\": \"/notes/plan.md\"}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = access_input,
      .output_schema = access_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(access_answer(context, arguments), text_argument(arguments, "path"));
      }};
  return kTool;
}

}  // namespace warren
