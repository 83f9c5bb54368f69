#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "base/base64.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Result<std::string> written_bytes(const Json& arguments) {
  std::string content = text_argument(arguments, "content");
  if (text_argument(arguments, "encoding") != "base64") return content;
  std::optional<std::string> bytes = decode_base64(content);
  if (!bytes) return Error(Code::kInvalid, "'content' is not base64", "Use the alphabet of RFC 4648 with padding.");
  return *std::move(bytes);
}

// Missing parents are made, unless the caller says otherwise.
Status check_parent(ToolContext& context, const std::string& path, const Json& arguments) {
  if (flag_argument(arguments, "create_dirs", true) || path == "/") return Ok{};
  std::string parent(directory_of(path));
  Attributes node = WARREN_TRY(stat(context.view, parent));
  if (node.is_directory()) return Ok{};
  return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(parent)));
}

Result<ToolAnswer> write_file_answer(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "write"));
  std::string bytes = WARREN_TRY(written_bytes(arguments));
  WARREN_TRY(check_parent(context, path, arguments));
  bool appends = flag_argument(arguments, "append");
  if (appends) WARREN_TRY(append_file(context.view, path, as_bytes(bytes)));
  else WARREN_TRY(write_file(context.view, path, as_bytes(bytes)));
  ToolAnswer answer;
  set_path_text(answer.structured, "path", path);
  answer.structured["bytes_written"] = bytes.size();
  answer.text = fmt::format("{} {} bytes to {}", appends ? "Appended" : "Wrote", bytes.size(), path);
  return answer;
}

Json write_file_input() {
  return object_schema({{"path", text_schema("the file; an existing one is replaced")},
                        {"content", text_schema("the whole new content")},
                        {"encoding", choice_schema("of content; default utf8", {"utf8", "base64"})},
                        {"append", flag_schema("add at the end instead of replacing; /mem/episodic allows only this")},
                        {"create_dirs", flag_schema("make missing directories; default true")}},
                       {"path", "content"});
}

Json write_file_output() {
  return object_schema(
      {{"path", text_schema("")}, {"path_base64", text_schema("")}, {"bytes_written", whole_number_schema("", 0)}},
      {"path", "bytes_written"});
}

}  // namespace

const Tool& write_file_tool() {
  static constexpr Tool kTool{
      .name = "write_file",
      .title = "Write a file",
      .group = "files",
      .description =
          "Create a file or replace its content; missing directories are made. To change a part of a file "
          "use edit_file. Returns the path and how many bytes were written. Example: {\"path\": "
          "\"/notes/plan.md\", \"content\": \"# Plan\\n\"}",
      .hints = {.is_destructive = true, .is_idempotent = true},
      .input_schema = write_file_input,
      .output_schema = write_file_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(write_file_answer(context, arguments), text_argument(arguments, "path"), FileUse::kWrite);
      }};
  return kTool;
}

}  // namespace warren
