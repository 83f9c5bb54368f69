#include "cli/syntax/usage_error.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "cli/show/text.h"

namespace warren::cli {
namespace {

const std::vector<std::string_view>& choices_of(const UsageError& error) {
  static const std::vector<std::string_view> kNone;
  if (error.option != nullptr) return error.option->choices;
  return error.positionals.empty() ? kNone : error.positionals.front()->choices;
}

// As it was typed.
std::string option_of(const UsageError& error) {
  return error.is_by_letter ? fmt::format("'-{}'", error.option->letter) : fmt::format("'--{}'", error.option->name);
}

std::string message(const UsageError& error) {
  switch (error.mistake) {
    case Mistake::kUnknownCommand: return fmt::format("unknown command {}", quote(error.subject));
    case Mistake::kUnknownOption: return fmt::format("unknown option {}", quote(error.subject));
    case Mistake::kUnexpected: return fmt::format("unexpected argument {}", quote(error.subject));
    case Mistake::kMissingCommand: return fmt::format("{} needs a command", quote(error.path.back()->name));
    case Mistake::kMissingArgument: return fmt::format("missing argument {}", error.subject);
    case Mistake::kMissingValue: return option_of(error) + " needs a value";
    case Mistake::kUnwantedValue: return option_of(error) + " takes no value";
    case Mistake::kRepeated: return option_of(error) + " is given more than once";
    case Mistake::kBadValue: break;
  }
  std::string where = error.option != nullptr ? option_of(error) : std::string(error.positionals.front()->name);
  const auto& choices = choices_of(error);
  if (choices.empty()) return fmt::format("{}: {}", where, error.reason);
  if (choices.size() == 1)
    return fmt::format("{}: {}: must be {}", where, quote(error.subject), quote(choices.front()));
  return fmt::format("{}: {} is not one of {}", where, quote(error.subject), fmt::join(choices, ", "));
}

// Help is the program's command, and not one of every other.
std::string help_hint(const UsageError& error) {
  std::string words;
  for (std::size_t i = 1; i < error.path.size(); ++i) words += fmt::format(" {}", error.path[i]->name);
  return fmt::format("`{} help{}` shows the help", error.path.front()->name, words);
}

std::string hint(const UsageError& error) {
  if (error.mistake == Mistake::kUnknownCommand && error.subject == "help") return help_hint(error);
  if (!error.suggestion.empty()) return fmt::format("did you mean {}?", quote(error.suggestion));
  bool is_dashed = error.mistake == Mistake::kUnknownOption;
  if (is_dashed) return fmt::format("to pass {} as an argument, put '--' before it", quote(error.subject));
  if (error.mistake == Mistake::kMissingValue && !error.subject.empty()) {
    return fmt::format("write a value that begins with '-' as '--{}={}'", error.option->name, printable(error.subject));
  }
  if (error.mistake == Mistake::kMissingCommand) {
    std::vector<std::string_view> names;
    for (const Command& sub : error.path.back()->subcommands) {
      if (!sub.is_hidden) names.push_back(sub.name);
    }
    return fmt::format("choose one of {}", fmt::join(names, ", "));
  }
  return "";
}

std::string explain_warren(const UsageError& error, std::size_t columns) {
  std::string out = fmt::format("warren: {}\n", message(error));
  std::string advice = hint(error);
  if (!advice.empty()) out += fmt::format("hint: {}\n", advice);
  return out + wrapped_usage(error.path, columns);
}

std::string integer_problem(std::string_view text) {
  if (text.empty()) return "cannot parse integer from empty string";
  std::string_view digits = text.starts_with('-') || text.starts_with('+') ? text.substr(1) : text;
  bool is_number =
      !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) return "invalid digit found in string";
  return text.starts_with('-') ? "number too small to fit in target type" : "number too large to fit in target type";
}

std::string choices_line(const UsageError& error) {
  const auto& choices = choices_of(error);
  return choices.empty() ? "" : fmt::format("\n  [possible values: {}]", fmt::join(choices, ", "));
}

std::string message_clap(const UsageError& error) {
  std::string where = error.option != nullptr     ? spelled_clap(*error.option)
                      : error.positionals.empty() ? ""
                                                  : spelled(*error.positionals.front(), Dialect::kAgentFs);
  switch (error.mistake) {
    case Mistake::kUnknownCommand: return fmt::format("unrecognized subcommand {}", quote(error.subject));
    case Mistake::kUnknownOption:
    case Mistake::kUnexpected: return fmt::format("unexpected argument {} found", quote(error.subject));
    case Mistake::kMissingArgument: {
      std::string out = "the following required arguments were not provided:";
      for (const Positional* missing : error.positionals) out += "\n  " + spelled(*missing, Dialect::kAgentFs);
      return out;
    }
    case Mistake::kMissingValue:
      return fmt::format("a value is required for {} but none was supplied{}", quote(where), choices_line(error));
    case Mistake::kUnwantedValue:
      return fmt::format("unexpected value {} for {} found; no more were expected", quote(error.subject), quote(where));
    case Mistake::kRepeated: return fmt::format("the argument {} cannot be used multiple times", quote(where));
    case Mistake::kMissingCommand: return "";
    case Mistake::kBadValue: break;
  }
  std::string start = fmt::format("invalid value {} for {}", quote(error.subject), quote(where));
  if (!choices_of(error).empty()) return start + choices_line(error);
  return fmt::format("{}: {}", start, integer_problem(error.subject));
}

std::string tip_clap(const UsageError& error) {
  std::string_view what = error.mistake == Mistake::kUnknownCommand  ? "subcommand"
                          : error.mistake == Mistake::kUnknownOption ? "argument"
                                                                     : "value";
  if (!error.suggestion.empty()) return fmt::format("a similar {} exists: {}", what, quote(error.suggestion));
  bool takes_words = !error.path.back()->positionals.empty();
  if (error.mistake == Mistake::kUnknownOption && takes_words) {
    return fmt::format("to pass {} as a value, use {}", quote(error.subject), quote("-- " + error.subject));
  }
  return "";
}

std::string explain_agentfs(const UsageError& error) {
  if (error.mistake == Mistake::kMissingCommand) return help_text(error.path, Dialect::kAgentFs);
  std::string out = fmt::format("error: {}\n", message_clap(error));
  std::string tip = tip_clap(error);
  if (!tip.empty()) out += fmt::format("\n  tip: {}\n", tip);
  bool is_about_value = error.mistake == Mistake::kBadValue || error.mistake == Mistake::kMissingValue;
  if (!is_about_value) {
    bool is_missing = error.mistake == Mistake::kMissingArgument;
    out += fmt::format("\nUsage: {}\n", is_missing ? short_usage_line(error.path, Dialect::kAgentFs)
                                                   : usage_line(error.path, Dialect::kAgentFs));
  }
  return out + "\nFor more information, try '--help'.\n";
}

}  // namespace

std::string explain(const UsageError& error, Dialect dialect, std::size_t columns) {
  return dialect == Dialect::kWarren ? explain_warren(error, columns) : explain_agentfs(error);
}

}  // namespace warren::cli
