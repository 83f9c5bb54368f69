#include "cli/syntax/help.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/show/text.h"

namespace warren::cli {
namespace {

struct Row {
  std::string left;
  std::string right;
};

// Where the explanations begin, at most: after a longer name they begin on the next line.
constexpr std::size_t kLeftColumnsMax = 30;
constexpr std::size_t kIndent = 2;

std::size_t longest_word_in(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    longest = std::max(longest, columns_of(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return longest;
}

// How wide the names are that have their explanations beside them: on a narrow terminal they leave most of the line,
// and the room for the longest word, to the explanations.
std::size_t left_columns(const std::vector<Row>& rows, std::size_t columns) {
  std::size_t most = std::min(kLeftColumnsMax, columns / 5 * 2);
  std::size_t width = 0;
  std::size_t longest = 0;
  for (const Row& row : rows) {
    std::size_t left = columns_of(row.left);
    if (left <= most) width = std::max(width, left);
    longest = std::max(longest, longest_word_in(row.right));
  }
  std::size_t around = longest + 2 * kIndent;
  return std::min(width, columns > around ? columns - around : 0);
}

// A name with its placeholder, which goes to the next line if it does not fit.
std::string fitted_name(std::string_view left, std::size_t columns) {
  std::size_t start = std::min(left.find_first_not_of(' '), left.size());  // an option without a letter is indented
  std::size_t begun = kIndent + start;
  return std::string(begun, ' ') + wrap(left.substr(start), columns, begun + kIndent, begun);
}

void add_section(std::string& out, std::string_view title, const std::vector<Row>& rows, std::size_t columns) {
  if (rows.empty()) return;
  std::size_t width = left_columns(rows, columns);
  std::size_t indent = width + 2 * kIndent;
  out += fmt::format("\n{}:\n", title);
  for (const Row& row : rows) {
    bool is_wide = columns_of(row.left) > width;
    std::string left = is_wide ? fmt::format("{}\n{:{}}", fitted_name(row.left, columns), "", indent)
                               : fmt::format("{:{}}{}{:{}}", "", kIndent, pad_right(row.left, width), "", kIndent);
    out += fmt::format("{}{}\n", left, wrap(row.right, columns, indent, indent));
  }
}

// A command stays on one line, to be copied; its note goes to lines above if there is no room for both.
void add_example(std::string& out, std::string_view example, std::size_t columns) {
  constexpr std::string_view kNote = "  # ";
  std::size_t note = example.find(kNote);
  if (note == example.npos || kIndent + columns_of(example) <= columns) {
    out += fmt::format("{:{}}{}\n", "", kIndent, example);
    return;
  }
  std::size_t room = columns - kNote.size();
  std::string lines = wrap(example.substr(note + kNote.size()), room);
  for (std::string_view rest = lines; !rest.empty();) {
    std::size_t end = std::min(rest.find('\n'), rest.size());
    out += fmt::format("{}{}\n", kNote, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  out += fmt::format("{:{}}{}\n", "", kIndent, example.substr(0, note));
}

void add_examples(std::string& out, const Command& command, std::size_t columns) {
  if (command.examples.empty()) return;
  out += "\nexamples:\n";
  for (std::string_view example : command.examples) add_example(out, example, columns);
}

std::string notes_on(const std::vector<std::string_view>& choices, std::string_view fallback) {
  std::string out;
  if (!choices.empty()) out += fmt::format(" ({})", fmt::join(choices, ", "));
  if (!fallback.empty()) out += fmt::format(" [default: {}]", fallback);
  return out;
}

Row row_of(const Option& option, Dialect dialect) {
  std::string letter = option.letter == '\0' ? "    " : fmt::format("-{}, ", option.letter);
  std::string name = dialect == Dialect::kWarren ? spelled(option) : spelled_clap(option);
  return {letter + name, fmt::format("{}{}", option.help, notes_on(option.choices, option.fallback))};
}

bool is_optional(const Positional& positional) {
  return positional.times == Times::kOptional || positional.times == Times::kAny ||
         positional.times == Times::kAnyCommand || !positional.fallback.empty();
}

std::string usage(std::span<const Command* const> path, Dialect dialect, bool is_short) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const Command& command = *path[i];
    bool is_last = i + 1 == path.size();
    if (!out.empty()) out += ' ';
    out += command.name;
    bool has_own_options = !command.options.empty() && i > 0;
    if (is_last && has_own_options && !is_short) out += dialect == Dialect::kWarren ? " [options]" : " [OPTIONS]";
    for (const Positional& positional : command.positionals) {
      bool is_shown_before_another = is_last || dialect == Dialect::kWarren;
      if (is_optional(positional) && (is_short || !is_shown_before_another)) continue;
      out += " " + spelled(positional, dialect);
    }
    bool takes_command = is_last && !command.subcommands.empty();
    if (takes_command && dialect == Dialect::kAgentFs) out += " <COMMAND>";
    else if (takes_command) out += command.handler == nullptr ? " COMMAND" : " [COMMAND]";
  }
  return out;
}

// The command's own and those of the program, unless the command has one of that name.
std::vector<Row> option_rows(std::span<const Command* const> path, Dialect dialect) {
  std::vector<Row> rows;
  const Command& command = *path.back();
  for (const Option& option : command.options) rows.push_back(row_of(option, dialect));
  if (path.size() > 1) {
    for (const Option& option : path.front()->options) {
      bool is_taken = std::ranges::find(command.options, option.name, &Option::name) != command.options.end();
      if (!is_taken) rows.push_back(row_of(option, dialect));
    }
  }
  rows.push_back({"-h, --help", dialect == Dialect::kWarren ? "print this help" : "Print help"});
  return rows;
}

}  // namespace

std::string spelled(const Option& option) {
  if (option.value.empty()) return fmt::format("--{}", option.name);
  return fmt::format("--{} {}", option.name, option.value);
}

std::string spelled_clap(const Option& option) {
  if (option.value.empty()) return fmt::format("--{}", option.name);
  return fmt::format("--{} <{}>", option.name, option.value);
}

std::string spelled(const Positional& positional, Dialect dialect) {
  bool is_many = positional.times == Times::kOnceOrMore || positional.times == Times::kAny ||
                 positional.times == Times::kCommand || positional.times == Times::kAnyCommand;
  std::string_view dots = is_many ? "..." : "";
  std::string_view name = positional.name;
  if (dialect == Dialect::kAgentFs) {
    return is_optional(positional) ? fmt::format("[{}]{}", name, dots) : fmt::format("<{}>{}", name, dots);
  }
  return is_optional(positional) ? fmt::format("[{}{}]", name, dots) : fmt::format("{}{}", name, dots);
}

std::string usage_line(std::span<const Command* const> path, Dialect dialect) { return usage(path, dialect, false); }

std::string wrapped_usage(std::span<const Command* const> path, std::size_t columns) {
  constexpr std::string_view kStart = "usage: ";
  return std::string(kStart) +
         wrap(usage_line(path, Dialect::kWarren), columns, kStart.size() + kIndent, kStart.size()) + "\n";
}

std::string short_usage_line(std::span<const Command* const> path, Dialect dialect) {
  return usage(path, dialect, true);
}

std::string help_text(std::span<const Command* const> path, Dialect dialect, std::size_t columns) {
  const Command& command = *path.back();
  bool is_ours = dialect == Dialect::kWarren;
  if (!is_ours) columns = SIZE_MAX;  // its lines are those of the program that it stands for
  std::string out = wrap(command.summary, columns) + "\n\n";
  out += is_ours ? wrapped_usage(path, columns) : fmt::format("Usage: {}\n", usage_line(path, dialect));
  if (!command.details.empty()) out += fmt::format("\n{}\n", wrap(command.details, columns));
  std::vector<Row> rows;
  for (const Command& sub : command.subcommands) {
    if (!sub.is_hidden) rows.push_back({std::string(sub.name), std::string(sub.summary)});
  }
  add_section(out, is_ours ? "commands" : "Commands", rows, columns);
  rows.clear();
  for (const Positional& positional : command.positionals) {
    rows.push_back({spelled(positional, dialect),
                    fmt::format("{}{}", positional.help, notes_on(positional.choices, positional.fallback))});
  }
  add_section(out, is_ours ? "arguments" : "Arguments", rows, columns);
  add_section(out, is_ours ? "options" : "Options", option_rows(path, dialect), columns);
  add_examples(out, command, columns);
  return out;
}

}  // namespace warren::cli
