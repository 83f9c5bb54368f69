// The memory tool that Claude's clients know (type memory_20250818), on /mem: the same commands, texts and edge rules.
//
// The client's directory /memories is /mem here. The texts are part of the tool's contract, since models are trained on
// them; they end up in the answer as they are, errors too.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/agent_namespace.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "fs/stoppable_remove.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::size_t kShownLines = 20;  // in the answer about a text that occurs several times
constexpr std::string_view kMemories = "/memories";
constexpr std::string_view kMemoryRoot = "/mem";
constexpr std::size_t kMemoryLinesMax = 999'999;
constexpr std::size_t kMemoryEntriesMax = 2000;

// What the model reads if the command fails.
Error memory_error(Code code, std::string text) { return Error(code, std::move(text)); }

Error no_such_memory(std::string_view path, bool asks_for_another) {
  return memory_error(Code::kNotFound, fmt::format("The path {} does not exist{}", path,
                                                   asks_for_another ? ". Please provide a valid path." : ""));
}

Result<std::string> memory_path(ToolContext& context, const std::string& given, std::string_view op) {
  if (given != kMemories && !given.starts_with(std::string(kMemories) + "/")) {
    return memory_error(Code::kInvalid, fmt::format("Path must start with /memories, got: {}", given));
  }
  std::string path = fmt::format("{}{}", kMemoryRoot, given.substr(kMemories.size()));
  std::string resolved = WARREN_TRY(context.view.resolve(*context.names, path, op));
  if (resolved != kMemoryRoot && !resolved.starts_with(std::string(kMemoryRoot) + "/")) {
    return memory_error(Code::kDenied, fmt::format("Path {} would escape /memories directory", given));
  }
  return resolved;
}

bool is_gone(const Error& error) {
  return error.code() == Code::kNotFound || error.code() == Code::kNotDirectory || error.code() == Code::kStale;
}

std::vector<std::string_view> memory_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (;;) {
    std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == text.npos) return lines;
    text.remove_prefix(end + 1);
  }
}

std::string numbered_line(std::size_t number, std::string_view line) { return fmt::format("{:>6}\t{}", number, line); }

// 0B, 512B, 1K, 1.5K, 3.0M: whole numbers without a fraction.
std::string memory_size(std::uint64_t bytes) {
  constexpr std::array<char, 4> kUnits{'B', 'K', 'M', 'G'};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= 1024 && unit + 1 < kUnits.size()) {
    size /= 1024;
    ++unit;
  }
  bool is_whole = size == static_cast<double>(static_cast<std::uint64_t>(size));
  return is_whole ? fmt::format("{}{}", static_cast<std::uint64_t>(size), kUnits[unit])
                  : fmt::format("{:.1f}{}", size, kUnits[unit]);
}

bool is_listed_name(const std::string& name) { return !name.starts_with('.') && name != "node_modules"; }

Status list_memories(ToolContext& context, const std::string& path, const std::string& shown, int level,
                     std::vector<std::string>& lines) {
  if (!WARREN_TRY(may_enter(context, path))) return Ok{};
  std::vector<NamedAttributes> entries = WARREN_TRY(read_dir_plus(context.view, path));
  for (const NamedAttributes& one : entries) {
    if (!is_listed_name(one.name) || lines.size() >= kMemoryEntriesMax) continue;
    std::string name = join_path(shown, one.name);
    bool is_directory = one.attributes.is_directory();
    if (!is_directory && !one.attributes.is_file()) continue;
    lines.push_back(fmt::format("{}\t{}{}", memory_size(one.attributes.size), name, is_directory ? "/" : ""));
    if (is_directory && level < 2) {
      WARREN_TRY(list_memories(context, join_path(path, one.name), name, level + 1, lines));
    }
  }
  return Ok{};
}

Result<std::string> view_directory(ToolContext& context, const std::string& path, const std::string& given,
                                   const Attributes& node) {
  std::vector<std::string> lines{fmt::format("{}\t{}", memory_size(node.size), given)};
  WARREN_TRY(list_memories(context, path, given, 1, lines));
  return fmt::format(
      "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:\n{}",
      given, fmt::join(lines, "\n"));
}

Result<std::string> view_lines(ToolContext& context, const std::string& path, const std::string& given,
                               const Json& arguments) {
  std::string content = WARREN_TRY(read_file(context.view, path, {.size_bytes_max = kToolReadBytesMax}));
  std::vector<std::string_view> lines = memory_lines(content);
  if (lines.size() > kMemoryLinesMax) {
    return memory_error(Code::kTooLarge, fmt::format("File {} exceeds maximum line limit of 999,999 lines.", given));
  }
  std::size_t first = 0;
  std::size_t end = lines.size();
  if (auto range = arguments.find("view_range"); range != arguments.end() && range->size() == 2) {
    auto from = (*range)[0].get<std::int64_t>();
    auto to = (*range)[1].get<std::int64_t>();
    first = static_cast<std::size_t>(std::max<std::int64_t>(1, from)) - 1;
    if (to != -1) end = std::min(lines.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, to)));
  }
  std::string text = fmt::format("Here's the content of {} with line numbers:", given);
  for (std::size_t i = first; i < end; ++i) text += "\n" + numbered_line(i + 1, lines[i]);
  return text;
}

Result<std::string> memory_view(ToolContext& context, const Json& arguments) {
  std::string given = text_argument(arguments, "path");
  std::string path = WARREN_TRY(memory_path(context, given, "read"));
  Result<Attributes> node = lstat(context.view, path);
  if (!node.ok() && is_gone(node.error())) return no_such_memory(given, true);
  Attributes found = WARREN_TRY(std::move(node));
  if (found.is_directory()) return view_directory(context, path, given, found);
  if (found.is_file()) return view_lines(context, path, given, arguments);
  return memory_error(Code::kInvalid, fmt::format("Unsupported file type for {}", given));
}

Result<std::string> memory_create(ToolContext& context, const Json& arguments) {
  std::string given = text_argument(arguments, "path");
  std::string path = WARREN_TRY(memory_path(context, given, "create"));
  std::string content = text_argument(arguments, "file_text");
  std::unique_ptr<Unit> unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  if (WARREN_TRY(exists(context.view, path))) {
    return memory_error(Code::kExists, fmt::format("File {} already exists", given));
  }
  WARREN_TRY(write_file(context.view, path, as_bytes(content)));
  WARREN_TRY(unit->commit());
  return fmt::format("File created successfully at: {}", given);
}

// The content of a file that is about to be changed.
Result<std::string> changing_content(ToolContext& context, const std::string& path, const std::string& given) {
  Result<Attributes> node = stat(context.view, path);
  if (!node.ok() && is_gone(node.error())) return no_such_memory(given, true);
  Attributes found = WARREN_TRY(std::move(node));
  if (!found.is_file()) return memory_error(Code::kInvalid, fmt::format("The path {} is not a file.", given));
  return read_file(context.view, path, {.size_bytes_max = kToolReadBytesMax});
}

// Lines by lines, as the clients do it: a text over several lines does not appear in one.
Result<std::size_t> find_only_line(const std::string& content, const std::string& wanted, const std::string& given) {
  std::vector<std::size_t> found;
  std::vector<std::string_view> lines = memory_lines(content);
  if (wanted.find('\n') != wanted.npos) {
    std::size_t line = 1;
    std::size_t counted = 0;  // up to here
    for (std::size_t at = content.find(wanted); at != content.npos && found.size() < kShownLines;
         at = content.find(wanted, at + wanted.size())) {
      auto begin = content.begin() + static_cast<std::ptrdiff_t>(counted);
      line += static_cast<std::size_t>(std::count(begin, content.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
      counted = at;
      found.push_back(line);
    }
  } else {
    for (std::size_t i = 0; i < lines.size() && found.size() < kShownLines; ++i) {
      if (lines[i].find(wanted) != std::string_view::npos) found.push_back(i + 1);
    }
  }
  if (found.empty()) {
    return memory_error(
        Code::kNotFound,
        fmt::format("No replacement was performed, old_str `{}` did not appear verbatim in {}.", wanted, given));
  }
  if (found.size() > 1) {
    return memory_error(Code::kConflict,
                        fmt::format("No replacement was performed. Multiple occurrences of old_str `{}` in "
                                    "lines: {}. Please ensure it is unique",
                                    wanted, fmt::join(found, ", ")));
  }
  return found.front();
}

Result<std::string> memory_str_replace(ToolContext& context, const Json& arguments) {
  std::string given = text_argument(arguments, "path");
  std::string path = WARREN_TRY(memory_path(context, given, "write"));
  std::string wanted = text_argument(arguments, "old_str");
  std::unique_ptr<Unit> unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  std::string content = WARREN_TRY(changing_content(context, path, given));
  std::size_t line = WARREN_TRY(find_only_line(content, wanted, given));
  content.replace(content.find(wanted), wanted.size(), text_argument(arguments, "new_str"));
  WARREN_TRY(write_file(context.view, path, as_bytes(content)));
  WARREN_TRY(unit->commit());
  std::vector<std::string_view> lines = memory_lines(content);
  std::string text = "The memory file has been edited. Here is the snippet showing the change (with line numbers):";
  for (std::size_t i = line < 3 ? 0 : line - 3; i < std::min(lines.size(), line + 2); ++i) {
    text += "\n" + numbered_line(i + 1, lines[i]);
  }
  return text;
}

Result<std::string> memory_insert(ToolContext& context, const Json& arguments) {
  std::string given = text_argument(arguments, "path");
  std::string path = WARREN_TRY(memory_path(context, given, "write"));
  auto at = arguments["insert_line"].get<std::int64_t>();
  std::string added = text_argument(arguments, "insert_text");
  if (added.ends_with('\n')) added.pop_back();
  std::unique_ptr<Unit> unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  std::string content = WARREN_TRY(changing_content(context, path, given));
  std::vector<std::string_view> lines = memory_lines(content);
  if (at < 0 || at > static_cast<std::int64_t>(lines.size())) {
    return memory_error(Code::kInvalid,
                        fmt::format("Invalid `insert_line` parameter: {}. It should be within the range of "
                                    "lines of the file: [0, {}]",
                                    at, lines.size()));
  }
  lines.insert(lines.begin() + at, added);
  std::string made = fmt::format("{}", fmt::join(lines, "\n"));
  WARREN_TRY(write_file(context.view, path, as_bytes(made)));
  WARREN_TRY(unit->commit());
  return fmt::format("The file {} has been edited.", given);
}

Result<std::string> memory_delete(ToolContext& context, const Json& arguments) {
  std::string given = text_argument(arguments, "path");
  std::string path = WARREN_TRY(memory_path(context, given, "delete"));
  if (path == kMemoryRoot) return memory_error(Code::kInvalid, "Cannot delete the /memories directory itself");
  Status removed =
      remove_stoppable(context.view, path, {.recursive = Recursive::kYes}, [&] { return check_cancelled(context); });
  if (!removed.ok() && is_gone(removed.error())) return no_such_memory(given, false);
  WARREN_TRY(std::move(removed));
  return fmt::format("Successfully deleted {}", given);
}

Result<std::string> memory_rename(ToolContext& context, const Json& arguments) {
  std::string old_given = text_argument(arguments, "old_path");
  std::string new_given = text_argument(arguments, "new_path");
  std::string old_path = WARREN_TRY(memory_path(context, old_given, "rename"));
  std::string new_path = WARREN_TRY(memory_path(context, new_given, "rename"));
  if (old_path == kMemoryRoot) return memory_error(Code::kInvalid, "Cannot rename the /memories directory itself");
  std::unique_ptr<Unit> unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  if (WARREN_TRY(exists(context.view, new_path))) {
    return memory_error(Code::kExists, fmt::format("The destination {} already exists", new_given));
  }
  if (!WARREN_TRY(exists(context.view, old_path))) return no_such_memory(old_given, false);
  WARREN_TRY(make_dirs(context.view, directory_of(new_path)));
  WARREN_TRY(rename(context.view, old_path, new_path, RenameMode::kNoReplace));
  WARREN_TRY(unit->commit());
  return fmt::format("Successfully renamed {} to {}", old_given, new_given);
}

struct MemoryCommand {
  std::string_view name;
  std::vector<const char*> needs;
  Result<std::string> (*run)(ToolContext&, const Json& arguments);
};

const std::vector<MemoryCommand>& memory_commands() {
  static const std::vector<MemoryCommand> kCommands{{"view", {"path"}, memory_view},
                                                    {"create", {"path", "file_text"}, memory_create},
                                                    {"str_replace", {"path", "old_str"}, memory_str_replace},
                                                    {"insert", {"path", "insert_line", "insert_text"}, memory_insert},
                                                    {"delete", {"path"}, memory_delete},
                                                    {"rename", {"old_path", "new_path"}, memory_rename}};
  return kCommands;
}

Result<std::string> run_memory(ToolContext& context, const Json& arguments) {
  std::string name = text_argument(arguments, "command");
  for (const MemoryCommand& command : memory_commands()) {
    if (command.name != name) continue;
    for (const char* needed : command.needs) {
      if (!arguments.contains(needed)) {
        return memory_error(Code::kInvalid, fmt::format("The command {} needs {}", name, quote(needed)));
      }
    }
    if (name == "str_replace" && text_argument(arguments, "old_str").empty()) {
      return memory_error(Code::kInvalid, "The command str_replace needs an 'old_str' that is not empty");
    }
    return command.run(context, arguments);
  }
  return memory_error(Code::kInvalid, fmt::format("no command {}", quote(name)));
}

ToolAnswer memory_answer(ToolContext& context, const Json& arguments) {
  Result<std::string> text = run_memory(context, arguments);
  ToolAnswer answer;
  answer.text = text.ok() ? *text : text.error().message();
  if (text.ok()) answer.structured["result"] = answer.text;
  else answer.error = tool_error(text.error());
  return answer;
}

Json memory_input() {
  Json range = list_schema("view: first and last line, -1 for the end", {{"type", "integer"}});
  range["minItems"] = 2;
  range["maxItems"] = 2;
  return object_schema(
      {{"command", choice_schema("", {"view", "create", "str_replace", "insert", "delete", "rename"})},
       {"path", text_schema("/memories or below")},
       {"view_range", std::move(range)},
       {"file_text", text_schema("create")},
       {"old_str", text_schema("str_replace; must be unique")},
       {"new_str", text_schema("str_replace")},
       {"insert_line", {{"type", "integer"}, {"description", "insert: after this line; 0: at the top"}}},
       {"insert_text", text_schema("insert")},
       {"old_path", text_schema("rename")},
       {"new_path", text_schema("rename")}},
      {"command"});
}

Json memory_output() { return object_schema({{"result", text_schema("")}}, {"result"}); }

}  // namespace

const Tool& memory_tool() {
  static constexpr Tool kTool{
      .name = "memory",
      .title = "Remember",
      .group = "memory",
      .description =
          "Files that last between conversations, below /memories. Look there before you start, and note "
          "what will be needed later. Returns text: a listing, numbered lines or what was done. Example: "
          "{\"command\": \"view\", \"path\": \"/memories\"}",
      .hints = {.is_destructive = true},
      .input_schema = memory_input,
      .output_schema = memory_output,
      .call = memory_answer};
  return kTool;
}

}  // namespace warren
