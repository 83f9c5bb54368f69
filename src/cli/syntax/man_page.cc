#include "cli/syntax/man_page.h"

#include <fmt/format.h>

#include "cli/syntax/help.h"
#include "cli/version.h"

namespace warren::cli {
namespace {

// roff interprets '\', and '.' and '\'' at the start of a line; a plain '-' would become a hyphen.
std::string roff(std::string_view text) {
  std::string out;
  bool is_line_start = true;
  for (char c : text) {
    if (is_line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else out += c;
    is_line_start = c == '\n';
  }
  return out;
}

void add_item(std::string& out, std::string_view term, std::string_view text) {
  out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(term), roff(text));
}

void add_option(std::string& out, const Option& option) {
  std::string term = option.letter == '\0' ? spelled(option) : fmt::format("-{}, {}", option.letter, spelled(option));
  std::string text(option.help);
  for (std::size_t i = 0; i < option.choices.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? ": " : ", ", option.choices[i]);
  }
  if (!option.fallback.empty()) text += fmt::format(" [default: {}]", option.fallback);
  add_item(out, term, text);
}

void add_command(std::string& out, std::vector<const Command*>& path) {
  const Command& command = *path.back();
  if (command.handler != nullptr) {
    out += fmt::format(".SS {}\n{}.\n", roff(usage_line(path, Dialect::kWarren)), roff(command.summary));
    if (!command.details.empty()) out += fmt::format(".PP\n{}\n", roff(command.details));
    for (const Positional& positional : command.positionals) {
      if (positional.name != "ID") add_item(out, positional.name, positional.help);
    }
    for (const Option& option : command.options) add_option(out, option);
    if (!command.examples.empty()) out += ".PP\nExamples:\n.nf\n";
    for (std::string_view example : command.examples) out += fmt::format("    {}\n", roff(example));
    if (!command.examples.empty()) out += ".fi\n";
  }
  for (const Command& sub : command.subcommands) {
    if (sub.is_hidden) continue;
    path.push_back(&sub);
    add_command(out, path);
    path.pop_back();
  }
}

constexpr std::string_view kClosing = R"(.SH AGENTS
ID is the first of these that matches: ":memory:", an agent that exists only while the command runs; an id
(letters, digits, '\-' and '_') whose file .agentfs/ID.db is in the current directory; the path of an
agent's file.
.SH EXIT STATUS
0 on success, 1 on failure, 2 if the command line is invalid.
.SH ENVIRONMENT
.TP
\fBNO_COLOR\fR
If set and not empty, output is never coloured.
.SH FILES
.TP
\fB.agentfs/ID.db\fR
An agent: an SQLite database in the format of AgentFS 0.4.
)";

}  // namespace

std::string man_page(const Command& root) {
  std::string out = fmt::format(".TH WARREN 1 \"\" \"warren {}\" \"User Commands\"\n", kVersion);
  out += fmt::format(".SH NAME\nwarren \\- {}\n", roff(root.summary));
  out += ".SH SYNOPSIS\n.B warren\n[\\-C DIR] COMMAND [options] [arguments]\n";
  out += ".SH OPTIONS\n";
  for (const Option& option : root.options) add_option(out, option);
  add_item(out, "-h, --help", "print help for the command");
  out += ".SH COMMANDS\n";
  std::vector<const Command*> path{&root};
  add_command(out, path);
  out += kClosing;
  return out;
}

}  // namespace warren::cli
