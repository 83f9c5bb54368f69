#include "session/command_in_session.h"

#include <algorithm>

#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"

extern char** environ;

namespace warren {
namespace {

bool has_variable(const std::vector<std::string>& all, std::string_view name) {
  return std::ranges::any_of(all, [&](const std::string& one) {
    return one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=';
  });
}

// A prompt from outside gets the mark, unless the user named the variable. bash puts the mark before whatever prompt
// its settings make, too; other shells use PS1 if their settings leave it alone.
void mark_prompt(const CommandInSession& command, const std::vector<AskedVariable>& asked,
                 std::vector<std::string>& all) {
  constexpr std::string_view kPrompt = "PS1";
  std::string mark = fmt::format("({}) ", command.session);  // an id has no character that is special to a shell
  auto add = [&](std::string_view name, const std::string& value) {
    if (!has_variable(all, name)) all.push_back(fmt::format("{}={}", name, value));
  };
  if (std::ranges::find(asked, kPrompt, &AskedVariable::name) == asked.end()) {
    for (std::string& variable : all) {
      if (variable.starts_with(fmt::format("{}=", kPrompt))) variable.insert(kPrompt.size() + 1, mark);
    }
  }
  add(kPrompt, mark + (::geteuid() == 0 ? "# " : "$ "));
  add("PROMPT_COMMAND", "case $PS1 in '" + mark + "'*) ;; *) PS1='" + mark + "'$PS1 ;; esac");
}

// In place of the user's own proxies, which cannot be reached from inside; not of what was asked for.
void use_proxy(const std::vector<AskedVariable>& asked, std::vector<std::string>& all) {
  for (const std::string& variable : proxy_variables()) {
    std::string name = variable.substr(0, variable.find('='));
    bool is_asked_for = std::ranges::any_of(asked, [&](const AskedVariable& one) { return one.name == name; });
    if (is_asked_for) continue;
    std::erase_if(all, [&](const std::string& one) { return one.starts_with(name + "="); });
    all.push_back(variable);
  }
}

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) all.emplace_back(*each);
  return all;
}

std::vector<std::string> environment_inside(const CommandInSession& command, std::vector<std::string> chosen,
                                            const std::vector<AskedVariable>& asked, const std::string& dir) {
  std::vector<std::string> all = std::move(chosen);
  if (command.network == NetworkAccess::kByName) use_proxy(asked, all);
  if (!has_variable(all, "TMPDIR")) all.emplace_back("TMPDIR=/tmp");
  if (command.marks_prompt) mark_prompt(command, asked, all);
  if (!command.namespace_path.empty()) all.push_back("WARREN_NAMESPACE=" + command.namespace_path);
  for (std::string& variable : std::vector<std::string>{
           "AGENTFS=1", "AGENTFS_SANDBOX=linux-namespace", "AGENTFS_SESSION=" + command.session, "WARREN_SANDBOX=1",
           "WARREN_SESSION=" + command.session, "WARREN_BASE=" + command.base, "PWD=" + dir}) {
    all.push_back(std::move(variable));
  }
  return all;
}

std::vector<std::string> words_inside(const CommandInSession& command, std::vector<std::string> words) {
  bool is_fish = command.marks_prompt && base_name(words.front()) == "fish";
  if (!is_fish) return words;
  std::string makes_mark = fmt::format(
      "functions -c fish_prompt warren_own_prompt; function fish_prompt; echo -n '({}) '; warren_own_prompt; end",
      command.session);
  words.insert(words.begin() + 1, {"--init-command", std::move(makes_mark)});  // before a "--"
  return words;
}

}  // namespace warren
