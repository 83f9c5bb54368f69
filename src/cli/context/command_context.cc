#include "cli/commands.h"
#include "cli/context/context_commands.h"

namespace warren::cli {

Command make_context() {
  Command context{
      .name = "context",
      .summary = "Use the items on an agent's drives, and search its files",
      .details =
          "A drive is a folder below /context in the agent's namespace, and its items are the files there. An "
          "item is named by DRIVE:/PATH, by its id, or by the web address that it came from.",
      .positionals = {id_argument()},
      .options = {},
      .subcommands = {},
      .handler = nullptr};
  for (Command& one : make_context_sources()) context.subcommands.push_back(std::move(one));
  for (Command& one : make_context_items()) context.subcommands.push_back(std::move(one));
  for (Command& one : make_context_search()) context.subcommands.push_back(std::move(one));
  return context;
}

}  // namespace warren::cli
