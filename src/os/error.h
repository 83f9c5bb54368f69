// errno as an Error: the one table from the system's numbers to our codes.
#pragma once

#include <string_view>

#include "base/result.h"

namespace warren {

// `what` says what failed and on what: "open 'a.db'".
Error system_error(int number, std::string_view what);

// And back, for doors that speak errno (the mount, the C ABI).
int errno_of(Code code);

}  // namespace warren
