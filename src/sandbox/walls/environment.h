// Which variables of the user's environment a command gets.
//
// A list of what is passed, not of what is held back: nobody can list every name under which a secret is kept. Passed
// are variables about the terminal, the language, tool chains and proxies; the sign-in variables of the agent that is
// run, recognised by the command's name; and what the user names. docs/security.md, Environment.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

// A variable that the user asked for, with a value of its own or with the one it has outside.
struct AskedVariable {
  std::string name;
  std::optional<std::string> value;

  bool operator==(const AskedVariable&) const = default;
};

// NAME or NAME=VALUE. kInvalid; the message contains no value.
Result<AskedVariable> parse_variable(std::string_view text);

// The lines of an environment file: NAME=VALUE or NAME, with an optional `export` before it; a value may be in single
// or double quotes, which are removed. Empty lines and those that start with '#' are skipped. kInvalid names the file
// and the line's number, never its content.
Result<std::vector<AskedVariable>> parse_environment_file(std::string_view text, std::string_view path);

enum class EnvironmentBasis {
  kListed,      // what the list contains
  kEverything,  // all of it, except what leads to sockets that do not exist inside
};

struct EnvironmentChoice {
  std::vector<std::string> variables;  // NAME=VALUE
  std::vector<std::string> held_back;  // names only, those that look like a secret first
};

// Chooses from `outside` (NAME=VALUE each). `words` is the command line. A later one in `asked` overrides an earlier
// one. `secrets` are names of variables that have keys of ours, and are never passed. kNotFound: a variable was asked
// for by name alone and is not set. kInvalid: it is one that the sandbox sets, or one of `secrets`.
Result<EnvironmentChoice> choose_environment(std::span<const std::string> outside, std::span<const std::string> words,
                                             std::span<const AskedVariable> asked, EnvironmentBasis basis,
                                             std::span<const std::string> secrets = {});

// The agent that a command line starts ("claude", "codex"), also through npx, uvx, env and the like; empty if none is
// recognised.
std::string_view agent_of(std::span<const std::string> words);

}  // namespace warren
