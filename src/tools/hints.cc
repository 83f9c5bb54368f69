#include "tools/hints.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"

namespace warren {
namespace {

// What lists the things that the tools of a group are about.
std::string_view listing_call(std::string_view group) {
  if (group == "checkpoints") return "history {}";
  if (group == "keys") return "kv_list {}";
  if (group == "context") return "context_list_drives {}";
  if (group == "relay") return "relay_agents {}";
  if (group == "vfs") return R"(vfs_operation {"operation": "list", "path": "/"})";
  if (group == "memory") return R"(memory {"command": "view", "path": "/memories"})";
  return R"(readdir {"path": "/"})";
}

// Names such as "copy" and "run" are words of English, too: they count only with arguments.
bool is_named_without_arguments(std::string_view tool) { return tool == "readdir" || tool.find('_') != tool.npos; }

bool is_in(const std::vector<const Tool*>& tools, std::string_view name) {
  return std::ranges::find(tools, name, &Tool::name) != tools.end();
}

struct TypeHint {
  std::string_view type;
  std::string_view hint;
};
constexpr std::array<TypeHint, 11> kTypeHints{
    {{"already_exists", "Choose another name or path."},
     {"denied", "The rules of this namespace do not allow it. Use another path, or ask the operator."},
     {"limit", "Do less at once: a smaller part, fewer names, or a shorter text."},
     {"busy", "Something else uses it. Wait a moment before the next call."},
     {"unavailable", "It cannot be reached now. Wait a moment before the next call, or go on without it."},
     {"unsupported", "It cannot be done here. Use another tool, or ask the operator."},
     {"read_only", "Nothing can be changed here. Only tools that read can be called."},
     {"conflict", "Look at what is there now, then decide anew."},
     {"not_empty", "Give \"recursive\": true if everything in it is meant."},
     {"is_directory", "It is a directory: give the path of a file, or look into it with readdir."},
     {"not_directory", "It is a file: give the path of a directory, or read it with read_file."}}};

}  // namespace

bool is_for_shell(std::string_view hint) {
  if (hint.find("`warren") != hint.npos || hint.find("warren ") != hint.npos) return true;
  for (std::size_t at = hint.find('-'); at != hint.npos; at = hint.find('-', at + 1)) {
    bool is_at_start = at == 0 || hint[at - 1] == ' ' || hint[at - 1] == '`' || hint[at - 1] == '(';
    std::size_t letter = at + 1 < hint.size() && hint[at + 1] == '-' ? at + 2 : at + 1;
    if (is_at_start && letter < hint.size() && is_letter(hint[letter])) return true;
  }
  return false;
}

bool names_only(std::string_view hint, const std::vector<const Tool*>& offered) {
  constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyz_";
  const std::size_t end = std::min(hint.find('{'), hint.size());
  for (std::size_t at = hint.find_first_of(kOfNames); at < end;) {
    const std::size_t after = std::min(hint.find_first_not_of(kOfNames, at), hint.size());
    const std::string_view word = hint.substr(at, after - at);
    const bool is_call = hint.substr(after).starts_with(" {") || is_named_without_arguments(word);
    if (is_call && find_tool(word) != nullptr && !is_in(offered, word)) return false;
    at = hint.find_first_of(kOfNames, after);
  }
  return true;
}

std::string default_hint(const Tool& tool, std::string_view error_type) {
  if (error_type == "not_found") return fmt::format("See what exists: {}", listing_call(tool.group));
  if (error_type == "invalid_argument") {
    std::size_t example = tool.description.rfind("Example: ");
    if (example == tool.description.npos) return fmt::format("Correct the arguments of {}.", tool.name);
    return fmt::format("Correct the arguments. {}", tool.description.substr(example));
  }
  for (const TypeHint& one : kTypeHints) {
    if (one.type == error_type) return std::string(one.hint);
  }
  return "No other arguments help. Tell the user or the operator what the message says.";
}

}  // namespace warren
