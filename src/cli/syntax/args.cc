#include "cli/syntax/args.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/check.h"
#include "cli/syntax/values.h"
#include "text/nearest.h"

namespace warren::cli {
namespace {

bool has_subcommand(const Command& command, std::string_view word) {
  return std::ranges::find(command.subcommands, word, &Command::name) != command.subcommands.end();
}

// The subcommand that the word means, by its name or by a word for the same elsewhere; "" if there is none.
std::string_view meant_subcommand(const Command& command, std::string_view word) {
  static const std::vector<std::vector<std::string_view>> kSame{{"list", "ls"}, {"delete", "remove", "del", "rm"}};
  if (has_subcommand(command, word)) return word;
  for (const auto& words : kSame) {
    if (std::ranges::find(words, word) == words.end()) continue;
    auto found = std::ranges::find_if(words, [&](std::string_view one) { return has_subcommand(command, one); });
    if (found != words.end()) return *found;
  }
  return "";
}

class Parser {
 public:
  Parser(const Command& root, std::span<const std::string> words, Environment environment)
      : words_(words), environment_(environment) {
    parsed_.path.push_back(&root);
  }

  std::variant<Parsed, UsageError> run() {
    while (!error_ && next_ < words_.size()) {
      std::string_view word = words_[next_++];
      if (options_are_over_ || word == "-" || !word.starts_with('-')) {
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
    if (!error_ && !parsed_.wants_help && !parsed_.wants_version) finish();
    if (error_) {
      error_->path = parsed_.path;
      error_->verb_at = verb_at_;
      error_->verb = verb_;
      error_->arguments = parsed_.arguments;
      return *std::move(error_);
    }
    return std::move(parsed_);
  }

 private:
  const Command& command() const { return *parsed_.path.back(); }

  void fail(Mistake mistake, std::string subject, std::string suggestion = "") {
    error_ = UsageError{.mistake = mistake,
                        .subject = std::move(subject),
                        .suggestion = std::move(suggestion),
                        .reason = "",
                        .option = nullptr,
                        .is_by_letter = false,
                        .positionals = {},
                        .path = {},
                        .verb_at = std::nullopt,
                        .verb = {},
                        .arguments = {}};
  }

  void take_word(std::string_view word) {
    const std::vector<Positional>& wanted = command().positionals;
    bool is_left_out = filled_ < wanted.size() && leaves_out(command(), wanted[filled_], parsed_.arguments, word);
    if (filled_ < wanted.size() && !is_left_out) {
      const Positional& positional = wanted[filled_];
      if (positional.times == Times::kOnce || positional.times == Times::kOptional) ++filled_;
      bool is_command = positional.times == Times::kCommand || positional.times == Times::kAnyCommand;
      if (is_command) options_are_over_ = true;
      note_verb(word);
      add_positional(positional, word);
    } else if (!command().subcommands.empty()) {
      enter(word);
    } else {
      fail(Mistake::kUnexpected, std::string(word));
    }
  }

  // AgentFS does not know words of other commands.
  std::string_view meant_by(std::string_view word) const {
    bool is_agentfs = parsed_.path.front()->name == "agentfs";
    if (is_agentfs) return has_subcommand(command(), word) ? word : std::string_view();
    return meant_subcommand(command(), word);
  }

  void note_verb(std::string_view word) {
    std::string_view verb = meant_by(word);
    if (verb.empty()) return;
    verb_at_ = next_ - 1;
    verb_ = verb;
  }

  void enter(std::string_view word) {
    std::vector<std::string_view> known;
    for (const Command& sub : command().subcommands) {
      if (sub.name == word) {
        fill_defaults(command());
        parsed_.path.push_back(&sub);
        filled_ = 0;
        verb_at_.reset();
        return;
      }
      if (!sub.is_hidden) known.push_back(sub.name);
    }
    std::string meant(meant_by(word));
    if (meant.empty()) meant = nearest(word, known);
    if (meant.empty()) meant = in_the_other_order(word, known);
    fail(Mistake::kUnknownCommand, std::string(word), std::move(meant));
  }

  // "fs ls notes" for "fs notes ls": the line in the right order, if the word before is one of the commands; else "".
  std::string in_the_other_order(std::string_view word, const std::vector<std::string_view>& known) const {
    if (command().positionals.size() != 1 || parsed_.path.front()->name != "warren") return "";
    std::optional<std::string> before = parsed_.arguments.find(command().positionals.front().name);
    bool is_command = before && std::find(known.begin(), known.end(), *before) != known.end();
    if (!is_command) return "";
    std::string line;
    for (const Command* one : parsed_.path) line += std::string(one->name) + " ";
    return line + std::string(word) + " " + *before;
  }

  void add_positional(const Positional& positional, std::string_view word) {
    std::string reason = problem(positional.kind, positional.choices, word);
    if (!reason.empty()) {
      fail(Mistake::kBadValue, std::string(word), nearest(word, positional.choices));
      error_->reason = reason;
      error_->positionals = {&positional};
      return;
    }
    parsed_.arguments.add(positional.name, std::string(word));
  }

  static std::string problem(ValueKind kind, const std::vector<std::string_view>& choices, std::string_view text) {
    if (!choices.empty()) {
      return std::find(choices.begin(), choices.end(), text) == choices.end() ? "not one of them" : "";
    }
    Status checked = check_value(kind, text);
    return checked.ok() ? "" : checked.error().message();
  }

  template <class Matches>
  const Option* find_option(Matches matches) const {
    for (const Command* where : {parsed_.path.back(), parsed_.path.front()}) {
      for (const Option& option : where->options) {
        if (matches(option)) return &option;
      }
    }
    return nullptr;
  }

  void take_long(std::string_view word) {
    is_by_letter_ = false;
    std::size_t equals = word.find('=');
    std::string_view name = word.substr(0, equals);
    const Option* option = find_option([&](const Option& each) { return each.name == name; });
    if (option == nullptr) {
      if (name == "help") {
        parsed_.wants_help = true;
        next_ = words_.size();
        return;
      }
      std::vector<std::string_view> known{"help"};
      for (const Command* where : {parsed_.path.back(), parsed_.path.front()}) {
        for (const Option& each : where->options) known.push_back(each.name);
      }
      std::string meant = nearest(name, known);
      return fail(Mistake::kUnknownOption, fmt::format("--{}", name), meant.empty() ? "" : "--" + meant);
    }
    std::optional<std::string_view> attached;
    if (equals != word.npos) attached = word.substr(equals + 1);
    take_option(*option, attached);
  }

  // "-iname" of a command whose long options may have one dash.
  void fail_one_dash(std::string_view word) {
    std::vector<std::string_view> known;
    for (const Option& each : command().options) known.push_back(each.name);
    std::string meant = nearest(word, known);
    auto contains_it = [&](std::string_view name) { return name.find(word) != name.npos; };
    auto longer = std::ranges::find_if(known, contains_it);
    if (meant.empty() && longer != known.end()) meant = *longer;
    fail(Mistake::kUnknownOption, fmt::format("-{}", word), meant.empty() ? "" : "-" + meant);
  }

  void take_letters(const std::string_view word) {
    std::string_view letters = word;
    is_by_letter_ = true;
    while (!letters.empty() && !error_) {
      char letter = letters[0];
      letters.remove_prefix(1);
      const Option* option = find_option([&](const Option& each) { return each.letter == letter; });
      if (option == nullptr) {
        if (letter == 'h') {
          parsed_.wants_help = true;
          next_ = words_.size();
          return;
        }
        if (command().takes_one_dash && word.size() > 1 && letters.size() + 1 == word.size())
          return fail_one_dash(word.substr(0, word.find('=')));
        return fail(Mistake::kUnknownOption, fmt::format("-{}", letter));
      }
      if (option->value.empty()) {
        take_option(*option, std::nullopt);
        continue;
      }
      std::optional<std::string_view> attached;
      if (!letters.empty()) attached = letters.starts_with('=') ? letters.substr(1) : letters;
      return take_option(*option, attached);
    }
  }

  void take_option(const Option& option, std::optional<std::string_view> attached) {
    if (parsed_.arguments.has(option.name) && !option.is_list) return fail_option(Mistake::kRepeated, option, "");
    if (option.name == "version") {
      parsed_.wants_version = true;
      next_ = words_.size();
      return;
    }
    if (option.value.empty()) {
      if (attached) return fail_option(Mistake::kUnwantedValue, option, *attached);
      parsed_.arguments.add(option.name, "");
      return;
    }
    if (!attached) {
      // A word that begins with a dash is the next option, unless it is a lone dash, or a number for an option that
      // expects some kind of number: its check then says what is wrong.
      bool has_next = next_ < words_.size();
      std::string_view next = has_next ? std::string_view(words_[next_]) : std::string_view();
      bool is_text = option.kind == ValueKind::kText || option.kind == ValueKind::kNotEmpty;
      bool is_number = !is_text && next.size() > 1 && next[0] == '-' && is_digit(next[1]);
      bool is_value = has_next && (!next.starts_with('-') || next == "-" || is_number);
      if (!is_value) return fail_option(Mistake::kMissingValue, option, next);
      attached = next;
      ++next_;
    }
    std::string reason = problem(option.kind, option.choices, *attached);
    if (!reason.empty()) {
      fail_option(Mistake::kBadValue, option, *attached);
      error_->reason = reason;
      error_->suggestion = nearest(*attached, option.choices);
      return;
    }
    parsed_.arguments.add(option.name, std::string(*attached));
  }

  void fail_option(Mistake mistake, const Option& option, std::string_view subject) {
    fail(mistake, std::string(subject));
    error_->option = &option;
    error_->is_by_letter = is_by_letter_;
  }

  void fill_defaults(const Command& where) {
    for (const Option& option : where.options) {
      if (option.value.empty() || parsed_.arguments.has(option.name)) continue;
      std::optional<std::string> given;
      if (!option.environment.empty()) given = environment_(option.environment);
      if (given) parsed_.arguments.add(option.name, *given);
      else if (!option.fallback.empty()) parsed_.arguments.add(option.name, std::string(option.fallback));
    }
    for (const Positional& positional : where.positionals) {
      if (parsed_.arguments.has(positional.name) || positional.fallback.empty()) continue;
      parsed_.arguments.add(positional.name, std::string(positional.fallback));
    }
  }

  void finish() {
    std::vector<const Positional*> missing;
    for (const Positional& positional : command().positionals) {
      bool is_optional = positional.times == Times::kOptional || positional.times == Times::kAny ||
                         positional.times == Times::kAnyCommand;
      bool is_needed = !is_optional && positional.fallback.empty();
      if (is_needed && !parsed_.arguments.has(positional.name)) missing.push_back(&positional);
    }
    if (!missing.empty()) {
      fail(Mistake::kMissingArgument, std::string(missing.front()->name));
      error_->positionals = missing;
      return;
    }
    if (command().handler == nullptr) return fail(Mistake::kMissingCommand, "");
    fill_defaults(command());
    if (parsed_.path.size() > 1) fill_defaults(*parsed_.path.front());
  }

  std::span<const std::string> words_;
  Environment environment_;
  std::size_t next_ = 0;
  std::size_t filled_ = 0;              // positionals of the current command that have been filled
  std::optional<std::size_t> verb_at_;  // UsageError::verb_at
  std::string_view verb_;
  bool options_are_over_ = false;
  bool is_by_letter_ = false;  // how the current option was typed
  Parsed parsed_;
  std::optional<UsageError> error_;
};

}  // namespace

const std::string& Arguments::get(std::string_view name) const {
  auto found = values_.find(name);
  WARREN_CHECK(found != values_.end());
  return found->second.back();
}

std::optional<std::string> Arguments::find(std::string_view name) const {
  auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

const std::vector<std::string>& Arguments::all(std::string_view name) const {
  static const std::vector<std::string> kNone;
  auto found = values_.find(name);
  return found == values_.end() ? kNone : found->second;
}

std::int64_t Arguments::integer(std::string_view name) const {
  Result<std::int64_t> value = parse_integer(get(name));
  WARREN_CHECK(value.ok());
  return *value;
}

std::optional<std::uint64_t> Arguments::find_size(std::string_view name) const {
  std::optional<std::string> text = find(name);
  if (!text) return std::nullopt;
  Result<std::uint64_t> value = parse_size(*text);
  WARREN_CHECK(value.ok());
  return *value;
}

bool leaves_out(const Command& command, const Positional& positional, const Arguments& before, std::string_view word) {
  if (positional.times != Times::kOptional || !has_subcommand(command, word)) return false;
  return positional.is_known == nullptr || !positional.is_known(before, word);
}

const Option* find_one_dash_option(const Command& command, std::string_view word) {
  if (!command.takes_one_dash || word.size() < 3 || !word.starts_with('-')) return nullptr;
  std::string_view name = word.substr(1, word.find('=') - 1);
  auto found = std::ranges::find(command.options, name, &Option::name);
  return found == command.options.end() ? nullptr : &*found;
}

Status check_value(ValueKind kind, std::string_view text) {
  switch (kind) {
    case ValueKind::kText: break;
    case ValueKind::kNotEmpty:
      if (text.empty()) return Error(Code::kInvalid, "must not be empty");
      break;
    case ValueKind::kInteger: WARREN_TRY(parse_integer(text)); break;
    case ValueKind::kCount: WARREN_TRY(parse_count(text)); break;
    case ValueKind::kUserId: WARREN_TRY(parse_user_id(text)); break;
    case ValueKind::kSize: WARREN_TRY(parse_size(text)); break;
    case ValueKind::kSizeOrNone: WARREN_TRY(parse_size_or_none(text)); break;
    case ValueKind::kDuration: WARREN_TRY(parse_duration(text)); break;
    case ValueKind::kTime: WARREN_TRY(parse_time(text)); break;
  }
  return Ok{};
}

std::variant<Parsed, UsageError> parse(const Command& root, std::span<const std::string> words,
                                       Environment environment) {
  return Parser(root, words, environment).run();
}

}  // namespace warren::cli
