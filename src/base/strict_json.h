// JSON for documents that decide about rights: policies and manifests.
#pragma once

#include <string_view>

#include "base/json.h"

namespace warren {

// Like parse_json, but an object that has two members of one name is an error: one reader would take the first, another
// the second.
Result<Json> parse_strict_json(std::string_view text);

}  // namespace warren
