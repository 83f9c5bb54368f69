#include <algorithm>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "base/path.h"
#include "base/utf8.h"
#include "fs/path_ops.h"
#include "text/diff/diff.h"
#include "text/diff/unified.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::size_t kShownDiffBytes = std::size_t{64} << 10;

std::size_t count_occurrences(std::string_view text, std::string_view wanted) {
  std::size_t count = 0;
  for (std::size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + wanted.size())) ++count;
  return count;
}

std::string replace_occurrences(std::string_view text, std::string_view wanted, std::string_view by) {
  std::string made;
  std::size_t from = 0;
  for (std::size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, from)) {
    made.append(text.substr(from, at - from)).append(by);
    from = at + wanted.size();
  }
  return made.append(text.substr(from));
}

Result<std::string> apply_edit(std::string_view text, const Json& edit, std::size_t number) {
  const auto& wanted = edit["old_text"].get_ref<const std::string&>();
  const auto& by = edit["new_text"].get_ref<const std::string&>();
  if (wanted.empty()) {
    return Error(Code::kInvalid, fmt::format("edit {}: 'old_text' is empty", number),
                 "Give the text to replace; write_file with \"append\" adds at the end.");
  }
  std::size_t count = count_occurrences(text, wanted);
  if (count == 0) {
    return Error(Code::kNotFound,
                 fmt::format("edit {}: 'old_text' does not occur in the file; nothing was changed", number),
                 "Read the file again, and give old_text exactly as it is there, with its spaces and line ends.");
  }
  bool occurs_again = text.find(wanted, text.find(wanted) + 1) != text.npos;  // also where it overlaps itself
  if (occurs_again && !flag_argument(edit, "replace_all")) {
    return Error(Code::kConflict,
                 fmt::format("edit {}: 'old_text' occurs {} times; nothing was changed", number,
                             std::max(count, std::size_t{2})),
                 "Give more of the text around it, so that it occurs once, or \"replace_all\": true.");
  }
  // Before it is built: a short text that occurs often can become as long as one likes.
  std::uint64_t size = text.size() - count * wanted.size() + std::uint64_t{count} * by.size();
  if (size > kToolFileBytesMax) {
    return Error(Code::kTooLarge,
                 fmt::format("edit {}: the file would have {} bytes; at most {}", number, size, kToolFileBytesMax));
  }
  return replace_occurrences(text, wanted, by);
}

Result<ToolAnswer> edit_file_answer(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "write"));
  std::unique_ptr<Unit> unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  std::string before = WARREN_TRY(read_file(context.view, path, {.size_bytes_max = kToolFileBytesMax}));
  std::string after = before;
  std::size_t number = 0;
  for (const Json& edit : arguments["edits"]) {
    WARREN_TRY(check_cancelled(context));
    after = WARREN_TRY(apply_edit(after, edit, ++number));
  }
  if (after.size() > kToolFileBytesMax) {
    return Error(Code::kTooLarge,
                 fmt::format("the file would have {} bytes; at most {}", after.size(), kToolFileBytesMax));
  }
  bool is_trial = flag_argument(arguments, "dry_run");
  if (!is_trial && after != before) {
    WARREN_TRY(write_file(context.view, path, as_bytes(after)));
    WARREN_TRY(unit->commit());
  }
  unit.reset();
  ToolAnswer answer;
  std::string diff = unified_hunks(before, after, diff_lines(before, after));
  bool is_shown = diff.size() <= kShownDiffBytes && is_utf8(diff);
  set_path_text(answer.structured, "path", path);
  answer.structured["changed"] = after != before && !is_trial;
  answer.structured["size_bytes"] = after.size();
  answer.structured["diff"] = is_shown ? Json(diff) : Json(nullptr);
  answer.text = fmt::format("{} {}\n{}", is_trial ? "Would edit" : "Edited", path, is_shown ? diff : "");
  return answer;
}

Json edit_file_input() {
  Json edit = object_schema({{"old_text", text_schema("must occur exactly once, unless replace_all")},
                             {"new_text", text_schema("")},
                             {"replace_all", flag_schema("replace every occurrence")}},
                            {"old_text", "new_text"});
  Json edits = list_schema("made in order, all or none", std::move(edit));
  edits["minItems"] = 1;
  edits["maxItems"] = 1000;
  return object_schema(
      {{"path", text_schema("the file")}, {"edits", std::move(edits)}, {"dry_run", flag_schema("only show the diff")}},
      {"path", "edits"});
}

Json edit_file_output() {
  return object_schema({{"path", text_schema("")},
                        {"path_base64", text_schema("")},
                        {"changed", flag_schema("")},
                        {"size_bytes", whole_number_schema("", 0)},
                        {"diff", {{"type", {"string", "null"}}, {"description", "null: too long, or not text"}}}},
                       {"path", "changed", "size_bytes", "diff"});
}

}  // namespace

const Tool& edit_file_tool() {
  static constexpr Tool kTool{
      .name = "edit_file",
      .title = "Edit a file",
      .group = "files",
      .description =
          "Replace pieces of text in a file, all or none. Use it to change a part; write_file replaces the "
          "whole. Returns the diff. Example: {\"path\": \"/a.py\", \"edits\": [{\"old_text\": \"x = 1\", "
          "\"new_text\": \"x = 2\"}]}",
      .hints = {.is_destructive = true},
      .input_schema = edit_file_input,
      .output_schema = edit_file_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(edit_file_answer(context, arguments), text_argument(arguments, "path"), FileUse::kWrite);
      }};
  return kTool;
}

}  // namespace warren
