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

// Where the explanations begin, at most: behind a longer name they begin on the next line.
constexpr std::size_t kLeftColumnsMax = 30;

void add_section(std::string& out, std::string_view title, const std::vector<Row>& rows, std::size_t columns) {
  if (rows.empty()) return;
  std::size_t width = 0;
  for (const Row& row : rows) {
    std::size_t left = columns_of(row.left);
    if (left <= kLeftColumnsMax) width = std::max(width, left);
  }
  std::size_t indent = width + 4;
  out += fmt::format("\n{}:\n", title);
  for (const Row& row : rows) {
    bool is_wide = columns_of(row.left) > width;
    std::string left = is_wide ? fmt::format("{}\n{:{}}", row.left, "", indent) : pad_right(row.left, width) + "  ";
    out += fmt::format("  {}{}\n", left, wrap(row.right, columns, indent, indent));
  }
}

void add_examples(std::string& out, const Command& command) {
  if (command.examples.empty()) return;
  out += "\nexamples:\n";
  for (std::string_view example : command.examples) out += fmt::format("  {}\n", example);
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
    if (is_last && !command.subcommands.empty()) out += dialect == Dialect::kWarren ? " COMMAND" : " <COMMAND>";
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

std::string short_usage_line(std::span<const Command* const> path, Dialect dialect) {
  return usage(path, dialect, true);
}

std::string help_text(std::span<const Command* const> path, Dialect dialect, std::size_t columns) {
  const Command& command = *path.back();
  bool is_ours = dialect == Dialect::kWarren;
  if (!is_ours) columns = SIZE_MAX;  // its lines are those of the program that it stands for
  std::string out = fmt::format("{}\n\n{}: {}\n", wrap(command.summary, columns), is_ours ? "usage" : "Usage",
                                usage_line(path, dialect));
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
  add_examples(out, command);
  return out;
}

}  // namespace warren::cli
