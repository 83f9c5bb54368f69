#include "cli/syntax/completion.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace warren::cli {
namespace {

// A position in a command line, found by reading the words before it as the parser does, but without complaints.
class Place {
 public:
  explicit Place(const Command& root) { path_.push_back(&root); }

  void take(std::string_view word) {
    if (waiting_ != nullptr) {
      set_value(*waiting_, word);
      waiting_ = nullptr;
    } else if (options_are_over_ || word == "-" || !word.starts_with('-')) {
      take_word(word);
    } else if (word == "--") {
      options_are_over_ = true;
    } else if (word.starts_with("--")) {
      take_long(word.substr(2));
    } else if (find_one_dash_option(command(), word) != nullptr) {
      take_long(word.substr(1));
    } else {
      take_letters(word.substr(1));
    }
  }

  Completion offers_for(std::string_view current) const {
    Completion out;
    out.directory = directory_;
    out.arguments = arguments_;
    if (is_wrong_) return out;
    std::size_t equals = current.find('=');
    bool is_option = !options_are_over_ && current.starts_with('-');
    if (waiting_ != nullptr) {
      offer(out, waiting_->choices, waiting_->suggest);
    } else if (is_option && current.starts_with("--") && equals != current.npos) {
      const Option* option = find_long(current.substr(2, equals - 2));
      if (option == nullptr || option->value.empty()) return out;
      out.prefix = current.substr(0, equals + 1);
      offer(out, option->choices, option->suggest);
    } else if (is_option) {
      offer_options(out);
    } else if (const Positional* positional = next_positional()) {
      offer(out, positional->choices, positional->suggest);
      if (positional->times == Times::kOptional) offer_subcommands(out);
    } else {
      offer_subcommands(out);
    }
    return out;
  }

 private:
  const Command& command() const { return *path_.back(); }

  const Positional* next_positional() const {
    return filled_ < command().positionals.size() ? &command().positionals[filled_] : nullptr;
  }

  template <class Matches>
  const Option* find_option(Matches matches) const {
    for (const Command* where : {path_.back(), path_.front()}) {
      for (const Option& option : where->options) {
        if (matches(option)) return &option;
      }
    }
    return nullptr;
  }
  const Option* find_long(std::string_view name) const {
    return find_option([&](const Option& each) { return each.name == name; });
  }

  void take_word(std::string_view word) {
    const Positional* positional = next_positional();
    if (positional != nullptr && !leaves_out(command(), *positional, arguments_, word)) {
      arguments_.add(positional->name, std::string(word));
      if (positional->times == Times::kOnce || positional->times == Times::kOptional) ++filled_;
      bool is_command = positional->times == Times::kCommand || positional->times == Times::kAnyCommand;
      if (is_command) options_are_over_ = true;
      return;
    }
    for (const Command& sub : command().subcommands) {
      if (sub.name != word) continue;
      path_.push_back(&sub);
      filled_ = 0;
      return;
    }
    is_wrong_ = true;
  }

  void take_long(std::string_view word) {
    std::size_t equals = word.find('=');
    const Option* option = find_long(word.substr(0, equals));
    if (option == nullptr || option->value.empty()) return;
    if (equals == word.npos) waiting_ = option;
    else set_value(*option, word.substr(equals + 1));
  }

  void take_letters(std::string_view letters) {
    for (; !letters.empty(); letters.remove_prefix(1)) {
      const Option* option = find_option([&](const Option& each) { return each.letter == letters[0]; });
      if (option == nullptr || option->value.empty()) continue;
      letters.remove_prefix(1);
      if (letters.empty()) waiting_ = option;
      else set_value(*option, letters.starts_with('=') ? letters.substr(1) : letters);
      return;
    }
  }

  void set_value(const Option& option, std::string_view value) {
    if (option.name == "directory") directory_ = value;
    arguments_.add(option.name, std::string(value));
  }

  static void offer(Completion& out, const std::vector<std::string_view>& choices, Suggest suggest) {
    for (std::string_view choice : choices) out.offers.push_back({out.prefix + std::string(choice), ""});
    out.suggest = suggest;
  }

  void offer_subcommands(Completion& out) const {
    for (const Command& sub : command().subcommands) {
      if (!sub.is_hidden) out.offers.push_back({std::string(sub.name), std::string(sub.summary)});
    }
  }

  void offer_options(Completion& out) const {
    std::vector<const Command*> places{path_.back()};
    if (path_.size() > 1) places.push_back(path_.front());
    for (const Command* where : places) {
      for (const Option& option : where->options) {
        out.offers.push_back({fmt::format("--{}", option.name), std::string(option.help)});
        if (option.letter != '\0') out.offers.push_back({fmt::format("-{}", option.letter), std::string(option.help)});
      }
    }
    out.offers.push_back({"--help", "print help"});
  }

  std::vector<const Command*> path_;
  std::size_t filled_ = 0;           // positionals of the current command that have been filled
  const Option* waiting_ = nullptr;  // its value is the next word
  bool options_are_over_ = false;
  bool is_wrong_ = false;  // an unknown command: nothing after it is known
  std::string directory_;
  Arguments arguments_;
};

// In the scripts below PROGRAM is replaced by the program's name. The program answers with a line that says what the
// shell adds by itself (nothing, files or directories; "paths": nothing, and a word that ends in '/' goes on), and one
// line for each word: the word, a tab, and its meaning.
//
// bash: COMPREPLY is inserted as it is, without any expansion; the program has quoted what needs it (quoted_for_bash).
// zsh and fish quote by themselves. File names are left to readline, which quotes them.
constexpr std::string_view kBash = R"sh(# bash completion for PROGRAM; generated by `PROGRAM completions`
_PROGRAM() {
  local kind word meaning
  COMPREPLY=()
  while IFS=$'\t' read -r word meaning; do
    if [ -z "$kind" ]; then kind=$word; else COMPREPLY+=("$word"); fi
  done < <(command PROGRAM complete --line="$COMP_WORDBREAKS" -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  if [ "${#COMPREPLY[@]}" -gt 0 ]; then
    if [ "$kind" = paths ] && [ "${COMPREPLY[0]: -1}" = / ]; then compopt -o nospace; fi
    return 0
  fi
  case "$kind" in
    files) compopt -o default ;;
    directories) compopt -o dirnames ;;
  esac
}
complete -F _PROGRAM PROGRAM
)sh";

constexpr std::string_view kZsh = R"sh(#compdef PROGRAM
# zsh completion for PROGRAM; generated by `PROGRAM completions`
_PROGRAM() {
  local kind word meaning
  local -a offers shown
  while IFS=$'\t' read -r word meaning; do
    if [[ -z $kind ]]; then kind=$word; continue; fi
    offers+=("$word")
    shown+=("$word${meaning:+  -- $meaning}")
  done < <(command PROGRAM complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
  if [[ $kind == paths ]]; then
    local -a dirs
    dirs=("${(@M)offers:#*/}")
    offers=("${(@)offers:#*/}")
    (( $#dirs )) && compadd -S '' -a -- dirs
    (( $#offers )) && compadd -a -- offers
    return
  fi
  (( $#offers )) && compadd -l -d shown -a -- offers
  [[ $PREFIX == --*=* ]] && compset -P '*='
  case $kind in
    files) _files ;;
    directories) _files -/ ;;
  esac
}
if [ "$funcstack[1]" = _PROGRAM ]; then _PROGRAM "$@"; else compdef _PROGRAM PROGRAM; fi
)sh";

constexpr std::string_view kFish = R"sh(# fish completion for PROGRAM; generated by `PROGRAM completions`
function __PROGRAM_answer
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    command PROGRAM complete --quoted -- $before[2..-1] "$current" 2>/dev/null
end
function __PROGRAM_wants
    set -l answer (__PROGRAM_answer)
    test "$answer[1]" = "$argv[1]"
end
complete -c PROGRAM -f -a '(__PROGRAM_answer)[2..-1]'
complete -c PROGRAM -n '__PROGRAM_wants files' -F
complete -c PROGRAM -n '__PROGRAM_wants directories' -a '(__fish_complete_directories)'
)sh";

std::string with_program(std::string_view script, std::string_view program) {
  constexpr std::string_view kMark = "PROGRAM";
  std::string out(script);
  for (std::size_t at = out.find(kMark); at != out.npos; at = out.find(kMark, at + program.size())) {
    out.replace(at, kMark.size(), program);
  }
  return out;
}

}  // namespace

std::string bash_completion(std::string_view program) { return with_program(kBash, program); }
std::string zsh_completion(std::string_view program) { return with_program(kZsh, program); }
std::string fish_completion(std::string_view program) { return with_program(kFish, program); }

Completion complete(const Command& root, std::span<const std::string> words) {
  Place place(root);
  if (words.empty()) return place.offers_for("");
  for (const std::string& word : words.first(words.size() - 1)) place.take(word);
  return place.offers_for(words.back());
}

}  // namespace warren::cli
