// Converts errno to an Error: the only table from errno values to our codes.
#pragma once

#include <string_view>

#include "base/result.h"

namespace warren {

// `what` names the operation and its object: "open 'a.db'".
Error system_error(int number, std::string_view what);

// The reverse, for doors that speak errno (the mount, the C ABI).
int errno_of(Code code);

}  // namespace warren
