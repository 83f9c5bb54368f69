// Command-line syntax as tables, and the parser for it.
//
// Help texts, the man page and shell completions are generated from the same tables, so they always agree with
// the parser.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace warren::cli {

class Arguments;
struct Context;

// The program's exit status.
enum class Exit { kOk = 0, kFailed = 1, kUsage = 2, kNotRunning = 3 };  // 3 as for systemd and LSB init scripts

// Values are checked while parsing: a bad one is a usage error, found before anything has happened.
enum class ValueKind {
  kText,
  kNotEmpty,  // a path or a pattern: an empty one, from an unset variable, must not select everything
  kInteger,   // any 64-bit integer
  kCount,     // 0 or more
  kUserId,    // a numeric user or group id
  kSize,      // bytes: 4096, 64K, 1.5G
  kSizeOrNone,
  kDuration,  // 30s, 5m, 2h, 1d
  kTime,      // Unix seconds, or 2026-01-31[T12:00:00[Z]]
};

// What shell completion offers for an argument. Paths, keys and checkpoints are those of the agent named before.
enum class Suggest {
  kNothing,
  kAgents,
  kSessions,
  kHostFiles,
  kHostDirs,
  kPaths,
  kBasePaths,  // of an agent with a base: relative ones are from the current directory, if that is in the base
  kKeys,
  kCheckpoints,
  kRelayAgents,
  kRelayChannels,
};

struct Option {
  std::string_view name;  // without the dashes
  char letter = '\0';
  std::string_view value;  // the placeholder in help texts; empty: a flag
  std::string_view help;
  ValueKind kind = ValueKind::kText;
  std::vector<std::string_view> choices;
  std::string_view fallback;     // the default value
  std::string_view environment;  // a variable that overrides the default value
  Suggest suggest = Suggest::kNothing;
  bool is_list = false;  // may be given more than once
};

enum class Times {
  kOnce,
  kOptional,
  kOnceOrMore,
  kAny,
  kCommand,     // another program's command line: one word or more, and no word after the first is our option
  kAnyCommand,  // another program's command line, or nothing
};

// Whether a word certainly is a value, for a positional that may be left out before a subcommand. `before`: what was
// parsed before it.
using IsKnown = bool (*)(const Arguments& before, std::string_view word);

struct Positional {
  std::string_view name;
  std::string_view help;
  Times times = Times::kOnce;
  Suggest suggest = Suggest::kNothing;
  ValueKind kind = ValueKind::kText;
  std::vector<std::string_view> choices;
  std::string_view fallback;
  IsKnown is_known = nullptr;
};

using Handler = Result<Exit> (*)(Context&, const Arguments&);

// A command has a handler, subcommands or both; with both, the handler runs when no subcommand is given. Positionals
// come before the subcommand's name; an optional one is left out if the subcommand's name is in its place.
struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view details;  // paragraphs for its own help page; may be empty
  std::vector<Positional> positionals;
  std::vector<Option> options;
  std::vector<Command> subcommands;
  Handler handler = nullptr;
  bool is_hidden = false;       // for programs: not in help, the manual page and completions
  bool takes_one_dash = false;  // long options may be written with one dash, as find(1) has them: -name
  std::vector<std::string_view> examples =
      {};  // command lines: "warren fs notes ls -l"; a note after two spaces and '#'
};

// The long option that a word with one dash names; nullptr: the word is letters.
const Option* find_one_dash_option(const Command& command, std::string_view word);

// The parsed arguments. Only names from the command's table may be asked for.
class Arguments {
 public:
  bool has(std::string_view name) const { return values_.contains(name); }
  const std::string& get(std::string_view name) const;  // the last value given, or the default
  std::optional<std::string> find(std::string_view name) const;
  const std::vector<std::string>& all(std::string_view name) const;

  // Parsed by the option's kind; the parser has checked them.
  std::int64_t integer(std::string_view name) const;
  std::optional<std::uint64_t> find_size(std::string_view name) const;

  void add(std::string_view name, std::string value) { values_[std::string(name)].push_back(std::move(value)); }
  void add_first(std::string_view name, std::string value) {
    std::vector<std::string>& values = values_[std::string(name)];
    values.insert(values.begin(), std::move(value));
  }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// Whether the word is the name of a subcommand, and not a value of the command's optional positional: a known value
// comes first.
bool leaves_out(const Command& command, const Positional& positional, const Arguments& before, std::string_view word);

enum class Mistake {
  kUnknownCommand,
  kUnknownOption,
  kUnexpected,  // one positional too many
  kMissingCommand,
  kMissingArgument,
  kMissingValue,
  kUnwantedValue,  // --flag=value
  kBadValue,
  kRepeated,
};

// Everything that either dialect needs for its message (cli/syntax/usage_error.h).
struct UsageError {
  Mistake mistake;
  std::string subject;     // what was typed
  std::string suggestion;  // the nearest known word; may be empty
  std::string reason;      // for kBadValue
  const Option* option = nullptr;
  bool is_by_letter = false;                   // the option was typed as its letter
  std::vector<const Positional*> positionals;  // the missing ones, or the one with a bad value
  std::vector<const Command*> path;            // from the root to the command concerned
  // The word that stands where an ID is needed, if it is the name of a subcommand: "ls" in "fs ls /notes".
  std::optional<std::size_t> verb_at = std::nullopt;
  std::string_view verb = {};  // the subcommand that it means: "list" for "ls" in "kv ls"
  Arguments arguments = {};    // what was parsed before the mistake
};

struct Parsed {
  std::vector<const Command*> path;
  Arguments arguments;
  bool wants_help = false;  // then the words after --help were not parsed
  bool wants_version = false;
};

// Looks up an environment variable; nullopt if it is not set.
using Environment = std::optional<std::string> (*)(std::string_view name);

// Options of the root are accepted everywhere. `--` ends options; a value may be attached with '='
// (--limit=5) or to a letter (-n5).
std::variant<Parsed, UsageError> parse(const Command& root, std::span<const std::string> words,
                                       Environment environment);

Status check_value(ValueKind kind, std::string_view text);

}  // namespace warren::cli
