#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/syntax/help.h"
#include "cli/syntax/man_page.h"
#include "cli/version.h"
#include "text/nearest.h"

namespace warren::cli {
namespace {

const Command* find_subcommand(const Command& command, const std::string& word) {
  auto found = std::ranges::find(command.subcommands, word, &Command::name);
  return found == command.subcommands.end() ? nullptr : &*found;
}

Result<Exit> run_help(Context& context, const Arguments& args) {
  std::vector<const Command*> path{&context.root};
  const std::vector<std::string>& words = args.all("COMMAND");
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const Command* next = find_subcommand(*path.back(), word);
    // `help fs notes ls`, as the command is written.
    bool is_value = next == nullptr && !path.back()->positionals.empty() && i + 1 < words.size() &&
                    find_subcommand(*path.back(), words[i + 1]) != nullptr;
    if (is_value) continue;
    if (next == nullptr) {
      std::vector<std::string_view> known;
      for (const Command& sub : path.back()->subcommands) known.push_back(sub.name);
      std::string meant = nearest(word, known);
      return refuse(context, fmt::format("unknown command {}{}", quote(word),
                                         meant.empty() ? "" : fmt::format("\nhint: did you mean {}?", quote(meant))));
    }
    path.push_back(next);
  }
  Dialect dialect = context.root.name == "agentfs" ? Dialect::kAgentFs : Dialect::kWarren;
  context.out.write(help_text(path, dialect, columns_of_output(context, context.out)));
  return Exit::kOk;
}

Result<Exit> run_version(Context& context, const Arguments& args) {
  if (args.has("json")) context.out.json({{"warren", kVersion}, {"schema", "0.4"}, {"agentfs", kAgentFsVersion}});
  else context.out.print("warren {}\n", kVersion);
  return Exit::kOk;
}

Result<Exit> run_man(Context& context, const Arguments&) {
  context.out.write(man_page(context.root));
  return Exit::kOk;
}

}  // namespace

Command make_help() {
  return {.name = "help",
          .summary = "Show help for a command",
          .details = "",
          .positionals = {{.name = "COMMAND", .help = "the command, and its subcommand if any", .times = Times::kAny}},
          .options = {},
          .subcommands = {},
          .handler = run_help};
}

Command make_version() {
  return {.name = "version",
          .summary = "Print the version",
          .details = "",
          .positionals = {},
          .options = {json_option()},
          .subcommands = {},
          .handler = run_version};
}

Command make_man() {
  return {.name = "man",
          .summary = "Print the manual page in roff format",
          .details = "To read it: `warren man | man -l -`.",
          .positionals = {},
          .options = {},
          .subcommands = {},
          .handler = run_man};
}

}  // namespace warren::cli
