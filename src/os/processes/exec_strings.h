// The argument and environment arrays that exec and posix_spawn take.
#pragma once

#include <string>
#include <vector>

namespace warren {

// Pointers to the strings, then a null pointer. Valid until the strings change.
std::vector<char*> exec_strings(const std::vector<std::string>& strings);

// This process's environment with `variable` (NAME=VALUE) in place of any that has its name. Valid until either
// changes.
std::vector<char*> environment_with(const std::string& variable);

}  // namespace warren
