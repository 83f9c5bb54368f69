// What a command line may look like, as tables, and the parser that reads one.
//
// The same tables give the help texts, the man page and the shell completions, so that they cannot
// say anything the parser does not do.
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

// What the program's exit status tells a script.
enum class Exit { kOk = 0, kFailed = 1, kUsage = 2, kNotRunning = 3 };  // 3 as for systemd and LSB init scripts

// Checked while parsing, so that a mistake is a usage error and nothing has happened yet.
enum class ValueKind {
  kText,
  kInteger,  // any 64-bit integer
  kCount,    // 0 or more
  kUserId,   // of a user or a group
  kSize,     // bytes: 4096, 64K, 1.5G
  kSizeOrNone,
  kDuration,  // 30s, 5m, 2h, 1d
  kTime,      // Unix seconds, or 2026-01-31[T12:00:00[Z]]
};

// What a shell offers for an argument.
enum class Suggest { kNothing, kAgents, kHostFiles, kHostDirs };

struct Option {
  std::string_view name;  // without the dashes
  char letter = '\0';
  std::string_view value;  // how help calls it; empty: a flag
  std::string_view help;
  ValueKind kind = ValueKind::kText;
  std::vector<std::string_view> choices;
  std::string_view fallback;     // when it is not given
  std::string_view environment;  // or this variable, which goes before the fallback
  Suggest suggest = Suggest::kNothing;
  bool is_list = false;  // may be given again and again
};

enum class Times {
  kOnce,
  kOptional,
  kOnceOrMore,
  kAny,
  kCommand,     // once or more, and from the first one on nothing is ours: another program's command line
  kAnyCommand,  // the same, or none at all
};

struct Positional {
  std::string_view name;
  std::string_view help;
  Times times = Times::kOnce;
  Suggest suggest = Suggest::kNothing;
  ValueKind kind = ValueKind::kText;
  std::vector<std::string_view> choices;
  std::string_view fallback;
};

using Handler = Result<Exit> (*)(Context&, const Arguments&);

// A command has a handler or subcommands; with both, the handler is for no subcommand. Its positionals come before
// the subcommand's name.
struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view details;  // paragraphs for its own help page; may be empty
  std::vector<Positional> positionals;
  std::vector<Option> options;
  std::vector<Command> subcommands;
  Handler handler = nullptr;
};

// What was given. Asking for a name that the command's table does not have is our bug.
class Arguments {
 public:
  bool has(std::string_view name) const { return values_.contains(name); }
  const std::string& get(std::string_view name) const;  // the last one given, or the fallback
  std::optional<std::string> find(std::string_view name) const;
  const std::vector<std::string>& all(std::string_view name) const;

  // Parsed by the option's kind; checked already.
  std::int64_t integer(std::string_view name) const;
  std::optional<std::uint64_t> find_size(std::string_view name) const;

  void add(std::string_view name, std::string value) { values_[std::string(name)].push_back(std::move(value)); }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

enum class Mistake {
  kUnknownCommand,
  kUnknownOption,
  kUnexpected,  // a positional too many
  kMissingCommand,
  kMissingArgument,
  kMissingValue,
  kUnwantedValue,  // --flag=value
  kBadValue,
  kRepeated,
};

// Enough to say it in the words of either program (cli/usage_error.h).
struct UsageError {
  Mistake mistake;
  std::string subject;     // what was typed
  std::string suggestion;  // what was meant, perhaps
  std::string reason;      // of kBadValue
  const Option* option = nullptr;
  std::vector<const Positional*> positionals;  // the missing ones, or the bad one
  std::vector<const Command*> path;            // down to the command it is about
};

struct Parsed {
  std::vector<const Command*> path;
  Arguments arguments;
  bool wants_help = false;  // then nothing after it was looked at
  bool wants_version = false;
};

// One variable of the environment; nullopt when it is not set.
using Environment = std::optional<std::string> (*)(std::string_view name);

// Options of the root are accepted everywhere. `--` ends options; a value may be attached with '='
// (--limit=5) or to a letter (-n5).
std::variant<Parsed, UsageError> parse(const Command& root, std::span<const std::string> words,
                                       Environment environment);

// The nearest of `known` if it is near enough to be a typing error; else empty.
std::string nearest(std::string_view typed, const std::vector<std::string_view>& known);

Status check_value(ValueKind kind, std::string_view text);

}  // namespace warren::cli
