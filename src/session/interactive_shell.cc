#include "session/interactive_shell.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/path.h"

namespace warren {
namespace {

// What matters of a shell's options, to tell its script from the values of its options.
struct Shell {
  std::string_view name;
  std::string_view valued_letters;                   // the next word is the value, unless it is attached
  std::array<std::string_view, 6> valued_long = {};  // without the dashes
  std::array<std::string_view, 3> ending_long = {};  // no prompt follows
};

constexpr std::array<Shell, 6> kShells{
    {{.name = "bash",
      .valued_letters = "oO",
      .valued_long = {"rcfile", "init-file"},
      .ending_long = {"version", "help", "dump-strings"}},
     {.name = "zsh", .valued_letters = "o", .valued_long = {"emulate"}, .ending_long = {"version", "help"}},
     {.name = "sh", .valued_letters = "o"},
     {.name = "dash", .valued_letters = "o"},
     {.name = "ksh", .valued_letters = "oR"},
     {.name = "fish",
      .valued_letters = "CDdfop",
      .valued_long = {"init-command", "debug", "debug-output", "features", "profile", "profile-startup"},
      .ending_long = {"command", "version", "help"}}}};

template <class List>
bool contains(const List& list, std::string_view word) {
  return !word.empty() && std::ranges::find(list, word) != list.end();
}

enum class Option { kPlain, kTakesNext, kReadsInput, kEnds };

Option long_option(const Shell& shell, std::string_view word) {
  std::size_t equals = word.find('=');
  std::string_view name = word.substr(0, equals);
  if (contains(shell.ending_long, name)) return Option::kEnds;
  return equals == word.npos && contains(shell.valued_long, name) ? Option::kTakesNext : Option::kPlain;
}

// fish and zsh take what follows a letter as its value; the others take the next word.
Option letters(const Shell& shell, std::string_view word) {
  bool is_fish = shell.name == "fish";
  bool attaches = is_fish || shell.name == "zsh";
  Option found = Option::kPlain;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] == 'c') return Option::kEnds;
    if (is_fish && (word[i] == 'v' || word[i] == 'h')) return Option::kEnds;
    if (shell.valued_letters.find(word[i]) != std::string_view::npos) {
      if (attaches) return i + 1 == word.size() ? Option::kTakesNext : found;
      found = Option::kTakesNext;
    } else if (word[i] == 's' && !is_fish && found == Option::kPlain) {
      found = Option::kReadsInput;  // whatever words follow
    }
  }
  return found;
}

bool asks(const Shell& shell, std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    bool is_option = word.size() > 1 && (word[0] == '-' || word[0] == '+');
    if (!is_option || word == "--") return (word == "-" || word == "--") && i + 1 == words.size();
    Option option = word.starts_with("--") ? long_option(shell, word.substr(2)) : letters(shell, word.substr(1));
    if (option == Option::kEnds) return false;
    if (option == Option::kReadsInput) return true;
    if (option == Option::kTakesNext && ++i == words.size()) return false;  // the value is missing
  }
  return true;
}

}  // namespace

bool is_interactive_shell(std::span<const std::string> words) {
  if (words.empty()) return false;
  const auto* shell = std::ranges::find(kShells, base_name(words.front()), &Shell::name);
  return shell != kShells.end() && asks(*shell, words.subspan(1));
}

}  // namespace warren
