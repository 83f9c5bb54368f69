// The subcommands of `context`, by what they are about.
#pragma once

#include <vector>

#include "cli/syntax/args.h"

namespace warren::cli {

std::vector<Command> make_context_items();    // list, read, write, …: each calls a tool
std::vector<Command> make_context_search();   // search, status, embed, reembed, chunks, rebuild
std::vector<Command> make_context_sources();  // add, refresh

}  // namespace warren::cli
