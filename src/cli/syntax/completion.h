// Shell completions, generated from the command tables.
#pragma once

#include <string>
#include <string_view>

#include "cli/syntax/args.h"

namespace warren::cli {

std::string bash_completion(const Command& root);
std::string zsh_completion(const Command& root);
std::string fish_completion(const Command& root);

}  // namespace warren::cli
