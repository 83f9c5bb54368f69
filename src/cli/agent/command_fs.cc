#include <iterator>

#include "cli/commands.h"

namespace warren::cli {

Command make_fs() {
  Command fs{.name = "fs",
             .summary = "Work with an agent's files",
             .details = "Paths are inside the agent and start at its root.",
             .positionals = {id_argument()},
             .options = {},
             .subcommands = {},
             .handler = nullptr};
  for (std::vector<Command> group : {make_fs_readers(), std::vector<Command>{make_fs_grep(), make_fs_edit()},
                                     make_fs_writers(), make_fs_transfers()}) {
    std::move(group.begin(), group.end(), std::back_inserter(fs.subcommands));
  }
  return fs;
}

}  // namespace warren::cli
