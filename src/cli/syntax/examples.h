// The examples at the end of each command's help, in one table.
#pragma once

#include "cli/syntax/args.h"

namespace warren::cli {

// Fills Command::examples below the root, except where a command's own table has some.
void add_examples_to(Command& root);

}  // namespace warren::cli
