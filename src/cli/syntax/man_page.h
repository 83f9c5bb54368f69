// The manual page, generated from the command tables.
#pragma once

#include <string>

#include "cli/syntax/args.h"

namespace warren::cli {

std::string man_page(const Command& root);  // roff with the man macros

}  // namespace warren::cli
