// The home directories on this machine that a run's walls are about.
#pragma once

#include <string>
#include <vector>

namespace warren {

// `home`, and the one from the user database if that is another.
std::vector<std::string> homes_of_user(const std::string& home);
// Of people; the homes of system users are parts of the system.
std::vector<std::string> homes_of_others();

}  // namespace warren
