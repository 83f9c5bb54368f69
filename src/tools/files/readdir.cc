#include <algorithm>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "base/base64.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"
#include "vfs/on_record.h"

namespace warren {
namespace {

Result<std::string> name_after(const Json& arguments) {
  std::string cursor = text_argument(arguments, "cursor");
  std::optional<std::string> name = decode_base64(cursor);
  bool is_name = name && name->find('/') == name->npos && name->find('\0') == name->npos;
  if (!is_name) {
    return Error(Code::kInvalid, fmt::format("{} is not a cursor", quote(cursor)), "Use next_cursor of the last page.");
  }
  return *std::move(name);
}

Result<ToolAnswer> readdir_answer(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "list"));
  std::string after = WARREN_TRY(name_after(arguments));
  std::size_t limit = std::min<std::size_t>(count_argument(arguments, "limit", kToolPageEntries), kToolPageEntries);
  std::vector<NamedAttributes> all =
      WARREN_TRY(on_record(context.view, "list", path, read_dir_plus(context.view, path)));
  auto from = std::upper_bound(all.begin(), all.end(), after,
                               [](const std::string& name, const NamedAttributes& one) { return name < one.name; });
  if (after.empty()) from = all.begin();
  auto to = static_cast<std::size_t>(all.end() - from) > limit ? from + static_cast<std::ptrdiff_t>(limit) : all.end();
  ToolAnswer answer;
  Json names = Json::array();
  Json entries = Json::array();
  for (auto one = from; one != to; ++one) {
    Json entry = json_object(3);
    set_path_text(entry, "name", one->name);
    set_path_uri(entry, context, join_path(path, one->name));
    entry["type"] = kind_of(one->attributes);
    entry["size_bytes"] = one->attributes.is_directory() ? 0 : one->attributes.size;
    entries.push_back(std::move(entry));
    names.push_back(one->name);
  }
  set_path_text(answer.structured, "path", path);
  answer.structured["entries"] = std::move(entries);
  answer.structured["total"] = all.size();
  answer.structured["next_cursor"] =
      to == all.end() ? Json(nullptr) : Json(encode_base64(as_bytes(std::prev(to)->name)));
  answer.text = dump_json_pretty(names);
  return answer;
}

Json readdir_input() {
  return object_schema({{"path", text_schema("the directory")},
                        {"limit", whole_number_schema("entries at most; default 1000", 1)},
                        {"cursor", text_schema("next_cursor of the page before")}},
                       {"path"});
}

Json readdir_output() {
  Json entry = object_schema({{"name", text_schema("")},
                              {"name_base64", text_schema("if it is not UTF-8")},
                              {"uri", text_schema("then give this as its path")},
                              {"type", choice_schema("", {"file", "directory", "symlink", "other"})},
                              {"size_bytes", whole_number_schema("", 0)}},
                             {"name", "type", "size_bytes"});
  return object_schema({{"path", text_schema("")},
                        {"path_base64", text_schema("")},
                        {"entries", list_schema("sorted by name", std::move(entry))},
                        {"total", whole_number_schema("entries of the directory", 0)},
                        {"next_cursor", {{"type", {"string", "null"}}, {"description", "null: this is the end"}}}},
                       {"path", "entries", "total", "next_cursor"});
}

}  // namespace

const Tool& readdir_tool() {
  static constexpr Tool kTool{
      .name = "readdir",
      .title = "List a directory",
      .group = "files",
      .description =
          "List what is in one directory; for everything below it use tree or find. Returns names, sorted, "
          "with types and sizes, in pages. Example: {\"path\": \"/\"}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = readdir_input,
      .output_schema = readdir_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(readdir_answer(context, arguments), text_argument(arguments, "path"));
      }};
  return kTool;
}

}  // namespace warren
