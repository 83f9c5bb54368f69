#include <algorithm>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "agent/files/file_verbs.h"
#include "base/base64.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "text/glob.h"
#include "tools/files/file_tools.h"
#include "tools/files/search_walk.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

// A pattern with '/' is for the whole path, any other one for the last name.
bool matches_pattern(const std::string& pattern, const Glob& glob, const std::string& path) {
  if (pattern.empty()) return true;
  return pattern.find('/') != pattern.npos ? glob.matches(path) : matches_glob(pattern, base_name(path));
}

Result<ToolAnswer> find_answer(ToolContext& context, const Json& arguments) {
  std::string start = WARREN_TRY(path_argument(context, arguments, "path", "list"));
  std::string pattern = text_argument(arguments, "pattern");
  std::string type = text_argument(arguments, "type");
  std::size_t limit = std::min<std::size_t>(count_argument(arguments, "limit", 200), kToolPageEntries);
  std::optional<std::string> after = decode_base64(text_argument(arguments, "cursor"));
  if (!after) return Error(Code::kInvalid, "'cursor' is not a cursor", "Use next_cursor of the last page.");
  Glob glob(pattern);
  Json found = Json::array();
  std::string last;
  bool has_more = false;
  WARREN_TRY(lstat(context.view, start));
  WARREN_TRY(search_walk(context, start, {.after = *after}, [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (!type.empty() && kind_of(entry.attributes) != type) return WalkNext::kContinue;
    if (!matches_pattern(pattern, glob, entry.path)) return WalkNext::kContinue;
    if (found.size() == limit) {
      has_more = true;
      return WalkNext::kStop;
    }
    Json one = Json::object();
    set_path_text(one, "path", entry.path);
    set_path_uri(one, context, entry.path);
    one["type"] = kind_of(entry.attributes);
    one["size_bytes"] = entry.attributes.is_directory() ? 0 : entry.attributes.size;
    found.push_back(std::move(one));
    last = entry.path;
    return WalkNext::kContinue;
  }));
  ToolAnswer answer;
  for (const Json& one : found) answer.text += one["path"].get<std::string>() + "\n";
  if (found.empty()) answer.text = "nothing found";
  if (has_more) answer.text += "(there is more; continue with next_cursor)";
  answer.structured["matches"] = std::move(found);
  answer.structured["next_cursor"] = has_more ? Json(encode_base64(as_bytes(last))) : Json(nullptr);
  return answer;
}

Json find_input() {
  return object_schema(
      {{"path", text_schema("where to look; default /")},
       {"pattern", text_schema("a glob for the name (*.md), or with a slash for the path (/src/**/*.cc)")},
       {"type", choice_schema("", {"file", "directory", "symlink"})},
       {"limit", whole_number_schema("default 200, at most 1000", 1)},
       {"cursor", text_schema("next_cursor of the page before")}},
      {});
}

Json find_output() {
  Json match = object_schema({{"path", text_schema("")},
                              {"path_base64", text_schema("if it is not UTF-8")},
                              {"uri", text_schema("then give this as the path")},
                              {"type", text_schema("")},
                              {"size_bytes", whole_number_schema("", 0)}},
                             {"path", "type", "size_bytes"});
  return object_schema(
      {{"matches", list_schema("", std::move(match))}, {"next_cursor", {{"type", {"string", "null"}}}}},
      {"matches", "next_cursor"});
}

}  // namespace

const Tool& find_tool() {
  static constexpr Tool kTool{
      .name = "find",
      .title = "Find files by name",
      .group = "files",
      .description =
          "Find files and directories by name, path or type, below a directory; for what is in files use "
          "grep. Returns their paths, types and sizes, in pages. Example: {\"path\": \"/src\", "
          "\"pattern\": \"*.py\"}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = find_input,
      .output_schema = find_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(find_answer(context, arguments), text_argument(arguments, "path", "/"));
      }};
  return kTool;
}

}  // namespace warren
