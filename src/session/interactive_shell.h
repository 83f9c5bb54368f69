// Whether a command line starts a shell that asks for commands, and so shows a prompt.
#pragma once

#include <span>
#include <string>

namespace warren {

// True for bash, zsh, sh, dash, ksh or fish with any options but no script and no command (-c). Only the words are
// looked at: a shell whose standard input is no terminal runs that as a script all the same.
bool is_interactive_shell(std::span<const std::string> words);

}  // namespace warren
