// Reads TOML. The only module that uses the TOML library.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace warren {

// The document as JSON: tables are objects; dates and times are their text. kInvalid: the message has the position.
Result<Json> parse_toml(std::string_view text);

}  // namespace warren
