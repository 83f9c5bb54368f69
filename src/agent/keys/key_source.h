// Where keys of the operator come from: variables, private files, commands. A key is never in an argument list, an
// agent file, a log or an error.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren {

// Of the environment; an empty one counts as missing.
std::optional<std::string> find_variable(const char* name);

// $XDG_CONFIG_HOME/warren or ~/.config/warren, which no run may reach. It may not exist.
Result<std::string> operator_directory();

// The output of a shell command that prints a key, within a minute. It runs in "/". Errors have nothing that it
// printed, which may be the key, also in its messages. `name` is for errors: "the command in X".
Result<std::string> run_key_command(const std::string& command, const std::string& name);

// kDenied, with `hint`, if others can read the file. kInvalid: not a regular file. kTooLarge. `purpose` is what it has:
// "the key of audit trails".
Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max, std::string_view purpose,
                                      const std::string& hint);

// nullopt if the text does not have exactly so many bytes as hexadecimal digits.
std::optional<std::string> bytes_of_hex(std::string_view text, std::size_t bytes);

}  // namespace warren
