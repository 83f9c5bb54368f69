// Shell completions: the scripts that shells load, and the answers that these scripts ask the program for.
//
// A script passes the command line to `warren complete` and offers what is printed. It contains no table and expands
// nothing, so that no name on disk is ever parsed by a shell.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/syntax/args.h"

namespace warren::cli {

std::string bash_completion(std::string_view program);
std::string zsh_completion(std::string_view program);
std::string fish_completion(std::string_view program);

struct Offer {
  std::string word;
  std::string meaning;
};

// What may stand at the cursor.
struct Completion {
  std::vector<Offer> offers;            // commands, options or choices from the tables
  Suggest suggest = Suggest::kNothing;  // what else may stand there
  std::string prefix;                   // "--option=" if an option's value is attached to it; part of each offer
  std::string directory;                // from --directory; empty if not given
  Arguments arguments;                  // what was typed before, unchecked
};

// The last word is the one at the cursor, as far as it is typed. Never fails: where the line is wrong, nothing is
// offered. Offers are not filtered by what is typed, except that options are offered only after a dash.
Completion complete(const Command& root, std::span<const std::string> words);

// A command line that ends at the cursor, split as a shell does it. Quotes are removed and nothing is expanded.
struct ShellWords {
  std::vector<std::string> words;  // never empty; the last one is at the cursor
  bool is_redirection = false;     // the last word is the target of a redirection
  bool is_expanded = false;        // the shell replaces a part of the last word: a variable, a pattern, a command
  std::size_t replaced_from = 0;   // bash replaces the last word from here on
  char quote = '\0';               // the one that the last word is in, and that what is inserted will be in
};
enum class Quoting { kBash, kFish };
// bash ends a word also at `breaks`, unless they are quoted, and at an open quote.
ShellWords split_shell_words(std::string_view line, std::string_view breaks = "", Quoting quoting = Quoting::kBash);

// The word as bash takes it literally after such an open quote; nullopt if that cannot be written.
std::optional<std::string> quoted_for_bash(std::string_view word, char quote);

}  // namespace warren::cli
