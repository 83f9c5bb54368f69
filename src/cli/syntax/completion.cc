#include "cli/syntax/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace warren::cli {
namespace {

// A position in a command line: the commands given so far.
struct Node {
  std::string path;  // "warren fs ls"
  const Command* command;
};

void collect(const Command& command, const std::string& outer, std::vector<Node>& out) {
  std::string path = outer.empty() ? std::string(command.name) : fmt::format("{} {}", outer, command.name);
  out.push_back({path, &command});
  for (const Command& sub : command.subcommands) collect(sub, path, out);
}

std::vector<Node> nodes_of(const Command& root) {
  std::vector<Node> out;
  collect(root, "", out);
  return out;
}

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What the shell offers for an option or a positional, as the generated shell code names it.
std::string source_of(const std::vector<std::string_view>& choices, Suggest suggest) {
  if (!choices.empty()) return fmt::format("words {}", fmt::join(choices, " "));
  switch (suggest) {
    case Suggest::kAgents: return "agents";
    case Suggest::kHostFiles: return "files";
    case Suggest::kHostDirs: return "dirs";
    case Suggest::kNothing: break;
  }
  return "none";
}

template <class Write>
std::string cases(const std::vector<Node>& nodes, Write write) {
  std::string out;
  for (const Node& node : nodes) {
    std::string body = write(*node.command);
    if (!body.empty()) out += fmt::format("    {}) echo {} ;;\n", shell_quoted(node.path), shell_quoted(body));
  }
  return out;
}

std::string option_words(const Command& command) {
  std::vector<std::string> words;
  for (const Option& option : command.options) {
    words.push_back(fmt::format("--{}", option.name));
    if (option.letter != '\0') words.push_back(fmt::format("-{}", option.letter));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string value_words(const Command& command) {
  std::vector<std::string> words;
  for (const Option& option : command.options) {
    if (option.value.empty()) continue;
    words.push_back(fmt::format("--{}", option.name));
    if (option.letter != '\0') words.push_back(fmt::format("-{}", option.letter));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string subcommand_words(const Command& command) {
  std::vector<std::string_view> words;
  for (const Command& sub : command.subcommands) words.push_back(sub.name);
  return fmt::format("{}", fmt::join(words, " "));
}

// Maps "path --option" and "path N" (the Nth positional, from 0) to what the shell offers there.
std::string source_cases(const std::vector<Node>& nodes) {
  std::string out;
  auto add = [&](const std::string& where, const std::string& source) {
    if (source != "none") out += fmt::format("    {}) echo {} ;;\n", where, shell_quoted(source));
  };
  for (const Node& node : nodes) {
    for (const Option& option : node.command->options) {
      if (option.value.empty()) continue;
      std::string source = source_of(option.choices, option.suggest);
      add(shell_quoted(fmt::format("{} --{}", node.path, option.name)), source);
      if (option.letter != '\0') add(shell_quoted(fmt::format("{} -{}", node.path, option.letter)), source);
    }
    for (std::size_t i = 0; i < node.command->positionals.size(); ++i) {
      const Positional& positional = node.command->positionals[i];
      bool is_many = positional.times == Times::kOnceOrMore || positional.times == Times::kAny ||
                     positional.times == Times::kCommand || positional.times == Times::kAnyCommand;
      add(is_many ? shell_quoted(node.path + " ") + "*" : shell_quoted(fmt::format("{} {}", node.path, i)),
          source_of(positional.choices, positional.suggest));
    }
  }
  return out;
}

std::string needed_cases(const std::vector<Node>& nodes) {
  return cases(nodes, [](const Command& command) {
    return command.subcommands.empty() ? std::string() : std::to_string(command.positionals.size());
  });
}

// Functions for bash and zsh: what may follow at a position. PROGRAM is replaced by the program's name.
constexpr std::string_view kTables = R"sh(_PROGRAM_subcommands() {
  case "$1" in
{subcommands}  esac
}
_PROGRAM_options() {
  case "$1" in
{options}  esac
}
_PROGRAM_value_options() {
  case "$1" in
{values}  esac
}
_PROGRAM_needed() {
  case "$1" in
{needed}    *) echo 999 ;;
  esac
}
_PROGRAM_source() {
  case "$1" in
{sources}  esac
}
# Walks the words before the cursor. Sets place, index (of the next positional), and option (if its value
# comes next).
_PROGRAM_walk() {
  place=PROGRAM index=0 option=
  local word needed over=
  for word in "$@"; do
    if [ -n "$option" ]; then option=; continue; fi
    if [ -z "$over" ]; then
      case "$word" in
        --) over=1; continue ;;
        --*=*) continue ;;
        -?*)
          case " $(_PROGRAM_value_options "$place") $(_PROGRAM_value_options PROGRAM) " in
            *" $word "*) option=$word ;;
          esac
          continue ;;
      esac
    fi
    needed=$(_PROGRAM_needed "$place")
    if [ "$index" -ge "$needed" ]; then place="$place $word"; index=0; else index=$((index + 1)); fi
  done
}
_PROGRAM_agents() {
  ls .agentfs 2>/dev/null | while IFS= read -r file; do
    case "$file" in
      *.index.db) ;;
      *.db) echo "${file%.db}" ;;
    esac
  done
}
)sh";

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

std::string shared_tables(const Command& root) {
  std::vector<Node> nodes = nodes_of(root);
  std::string out = replaced(std::string(kTables), "PROGRAM", root.name);
  out = replaced(out, "{subcommands}", cases(nodes, subcommand_words));
  out = replaced(out, "{options}", cases(nodes, option_words));
  out = replaced(out, "{values}", cases(nodes, value_words));
  out = replaced(out, "{needed}", needed_cases(nodes));
  return replaced(out, "{sources}", source_cases(nodes));
}

constexpr std::string_view kBash = R"sh(_PROGRAM() {
  local place index option source cur=${COMP_WORDS[COMP_CWORD]}
  local -a before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  _PROGRAM_walk "${before[@]}"
  COMPREPLY=()
  if [ -n "$option" ]; then
    source=$(_PROGRAM_source "$place $option")
    [ -n "$source" ] || source=$(_PROGRAM_source "PROGRAM $option")
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_PROGRAM_options "$place") $(_PROGRAM_options PROGRAM) --help" -- "$cur")
    return
  elif [ "$index" -ge "$(_PROGRAM_needed "$place")" ]; then
    source="words $(_PROGRAM_subcommands "$place")"
  else
    source=$(_PROGRAM_source "$place $index")
  fi
  case "$source" in
    words*) mapfile -t COMPREPLY < <(compgen -W "${source#words }" -- "$cur") ;;
    agents) mapfile -t COMPREPLY < <(compgen -W "$(_PROGRAM_agents)" -- "$cur"; compgen -f -- "$cur") ;;
    files) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    dirs) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
  esac
}
complete -o filenames -F _PROGRAM PROGRAM
)sh";

constexpr std::string_view kZsh = R"sh(_PROGRAM() {
  local place index option source cur=${words[CURRENT]}
  _PROGRAM_walk "${(@)words[2,CURRENT-1]}"
  if [ -n "$option" ]; then
    source=$(_PROGRAM_source "$place $option")
    [ -n "$source" ] || source=$(_PROGRAM_source "PROGRAM $option")
  elif [[ $cur == -* ]]; then
    compadd -- ${=$(_PROGRAM_options "$place")} ${=$(_PROGRAM_options PROGRAM)} --help
    return
  elif [ "$index" -ge "$(_PROGRAM_needed "$place")" ]; then
    source="words $(_PROGRAM_subcommands "$place")"
  else
    source=$(_PROGRAM_source "$place $index")
  fi
  case "$source" in
    words*) compadd -- ${=source#words } ;;
    agents) compadd -- ${(f)"$(_PROGRAM_agents 2>/dev/null)"}; _files ;;
    files) _files ;;
    dirs) _files -/ ;;
  esac
}
if [ "$funcstack[1]" = _PROGRAM ]; then _PROGRAM "$@"; else compdef _PROGRAM PROGRAM; fi
)sh";

// The tables for fish, whose syntax differs. Each word comes with its description.
std::string fish_case(const std::string& place, const std::vector<std::pair<std::string, std::string>>& words) {
  if (words.empty()) return "";
  std::string out = fmt::format("        case {}\n", shell_quoted(place));
  for (const auto& [word, meaning] : words) {
    out += fmt::format("            printf '%s\\t%s\\n' {} {}\n", shell_quoted(word), shell_quoted(meaning));
  }
  return out;
}

using FishWords = std::vector<std::pair<std::string, std::string>>;

enum class Which { kAll, kWithValue };

FishWords fish_options(const Command& command, Which which) {
  FishWords words;
  for (const Option& option : command.options) {
    if (which == Which::kWithValue && option.value.empty()) continue;
    std::string help(option.help);
    words.emplace_back(fmt::format("--{}", option.name), help);
    if (option.letter != '\0') words.emplace_back(fmt::format("-{}", option.letter), help);
  }
  return words;
}

FishWords fish_subcommands(const Command& command) {
  FishWords words;
  for (const Command& sub : command.subcommands) words.emplace_back(sub.name, sub.summary);
  return words;
}

template <class Words>
std::string fish_function(std::string_view program, std::string_view name, const std::vector<Node>& nodes,
                          Words words) {
  std::string out = fmt::format("function __{}_{}\n    switch \"$argv[1]\"\n", program, name);
  for (const Node& node : nodes) out += fish_case(node.path, words(*node.command));
  return out + "    end\nend\n";
}

std::string fish_sources(std::string_view program, const std::vector<Node>& nodes) {
  std::string out = fmt::format("function __{}_source\n    switch \"$argv[1]\"\n", program);
  auto add = [&](const std::string& where, const std::string& source) {
    if (source != "none")
      out += fmt::format("        case {}\n            echo {}\n", shell_quoted(where), shell_quoted(source));
  };
  for (const Node& node : nodes) {
    for (const Option& option : node.command->options) {
      if (option.value.empty()) continue;
      std::string source = source_of(option.choices, option.suggest);
      add(fmt::format("{} --{}", node.path, option.name), source);
      if (option.letter != '\0') add(fmt::format("{} -{}", node.path, option.letter), source);
    }
    for (std::size_t i = 0; i < node.command->positionals.size(); ++i) {
      const Positional& positional = node.command->positionals[i];
      add(fmt::format("{} {}", node.path, i), source_of(positional.choices, positional.suggest));
    }
  }
  return out + "    end\nend\n";
}

std::string fish_needed(std::string_view program, const std::vector<Node>& nodes) {
  std::string out = fmt::format("function __{}_needed\n    switch \"$argv[1]\"\n", program);
  for (const Node& node : nodes) {
    if (node.command->subcommands.empty()) continue;
    out += fmt::format("        case {}\n            echo {}\n", shell_quoted(node.path),
                       node.command->positionals.size());
  }
  return out + "        case '*'\n            echo 999\n    end\nend\n";
}

constexpr std::string_view kFish = R"sh(function __PROGRAM_complete
    set -l place PROGRAM
    set -l index 0
    set -l option ''
    set -l before (commandline -opc)
    for word in $before[2..-1]
        if test -n "$option"
            set option ''
            continue
        end
        switch "$word"
            case '--*=*'
                continue
            case '-?*'
                if contains -- "$word" (__PROGRAM_value_options "$place" | cut -f1) (__PROGRAM_value_options PROGRAM | cut -f1)
                    set option "$word"
                end
                continue
        end
        if test $index -ge (__PROGRAM_needed "$place")
            set place "$place $word"
            set index 0
        else
            set index (math $index + 1)
        end
    end
    set -l current (commandline -ct)
    set -l source ''
    if test -n "$option"
        set source (__PROGRAM_source "$place $option")
        test -n "$source"; or set source (__PROGRAM_source "PROGRAM $option")
    else if string match -q -- '-*' "$current"
        __PROGRAM_options "$place"
        __PROGRAM_options PROGRAM
        return
    else if test $index -ge (__PROGRAM_needed "$place")
        __PROGRAM_subcommands "$place"
        return
    else
        set source (__PROGRAM_source "$place $index")
    end
    switch "$source"
        case 'words *'
            string split ' ' -- (string replace 'words ' '' -- "$source")
        case agents
            for file in (ls .agentfs 2>/dev/null)
                if string match -q -- '*.db' "$file"; and not string match -q -- '*.index.db' "$file"
                    string replace -r '\.db$' '' -- "$file"
                end
            end
            __fish_complete_path "$current"
        case files
            __fish_complete_path "$current"
        case dirs
            __fish_complete_directories "$current"
    end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
)sh";

}  // namespace

std::string bash_completion(const Command& root) {
  return fmt::format("# bash completion for {0}; generated by `{0} completions`\n", root.name) + shared_tables(root) +
         replaced(std::string(kBash), "PROGRAM", root.name);
}

std::string zsh_completion(const Command& root) {
  return fmt::format("#compdef {0}\n# zsh completion for {0}; generated by `{0} completions`\n", root.name) +
         shared_tables(root) + replaced(std::string(kZsh), "PROGRAM", root.name);
}

std::string fish_completion(const Command& root) {
  std::vector<Node> nodes = nodes_of(root);
  std::string out = fmt::format("# fish completion for {0}; generated by `{0} completions`\n", root.name);
  out += fish_function(root.name, "subcommands", nodes, fish_subcommands);
  out += fish_function(root.name, "options", nodes,
                       [](const Command& command) { return fish_options(command, Which::kAll); });
  out += fish_function(root.name, "value_options", nodes,
                       [](const Command& command) { return fish_options(command, Which::kWithValue); });
  out += fish_needed(root.name, nodes);
  out += fish_sources(root.name, nodes);
  return out + replaced(std::string(kFish), "PROGRAM", root.name);
}

}  // namespace warren::cli
