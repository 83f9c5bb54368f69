#include "cli/syntax/examples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/show/text.h"
#include "cli/syntax/completion.h"
#include "cli/syntax/help.h"
#include "cli/syntax/usage_error.h"

namespace warren::cli {
namespace {

std::optional<std::string> no_variable(std::string_view) { return std::nullopt; }

// Without assignments before the program and the note after it.
std::vector<std::string> words_of(std::string_view example) {
  std::vector<std::string> words = split_shell_words(example.substr(0, example.find("  #"))).words;
  while (!words.empty() && words.front() != "warren") words.erase(words.begin());
  if (!words.empty()) words.erase(words.begin());
  return words;
}

void check_command(const Command& root, std::vector<const Command*> path) {
  const Command& command = *path.back();
  if (command.is_hidden) return;
  std::string name;
  for (const Command* one : path) name += std::string(one->name) + " ";
  EXPECT_FALSE(command.examples.empty()) << name << "has no example: add it in cli/syntax/examples.cc";
  for (std::string_view example : command.examples) {
    auto outcome = parse(root, words_of(example), no_variable);
    const auto* parsed = std::get_if<Parsed>(&outcome);
    if (parsed == nullptr) {
      ADD_FAILURE() << example << "\n" << explain(std::get<UsageError>(outcome), Dialect::kWarren);
      continue;
    }
    bool is_of_it = command.handler != nullptr ? parsed->path.back() == &command
                                               : std::ranges::find(parsed->path, &command) != parsed->path.end();
    EXPECT_TRUE(is_of_it) << example << " is not an example of " << name;
  }
  for (const Command& sub : command.subcommands) {
    std::vector<const Command*> below = path;
    below.push_back(&sub);
    check_command(root, below);
  }
}

TEST(Examples, EveryCommandHasOneAndEachIsACommandLineOfThatCommand) {
  Command root = make_warren();
  check_command(root, {&root});
}

TEST(Examples, TheHelpEndsWithThem) {
  Command root = make_warren();
  auto outcome = parse(root, std::vector<std::string>{"fs", "a", "grep", "--help"}, no_variable);
  std::string help = help_text(std::get<Parsed>(outcome).path, Dialect::kWarren);
  std::size_t at = help.find("\nexamples:\n  warren fs notes grep TODO\n");
  ASSERT_NE(at, help.npos) << help;
  EXPECT_EQ(help.find("options:", at), help.npos);
}

TEST(Help, NoLineIsWiderThanTheTerminal) {
  Command root = make_warren();
  for (std::size_t columns : {40U, 60U, 80U, 120U}) {
    for (const Command& sub : root.subcommands) {
      std::vector<const Command*> path{&root, &sub};
      std::string help = help_text(path, Dialect::kWarren, columns);
      std::size_t examples = help.find("\nexamples:\n");  // they stay on one line, to be copied
      std::string_view text = std::string_view(help).substr(0, examples);
      while (!text.empty()) {
        std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        bool is_one_word = line.find(' ', line.find_first_not_of(' ')) == line.npos;
        EXPECT_TRUE(is_one_word || columns_of(line) <= columns) << sub.name << ": " << line;
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
      }
    }
  }
}

}  // namespace
}  // namespace warren::cli
