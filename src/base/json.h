// JSON values that keep the order of their members. The only file that names the JSON library.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace warren {

using Json = nlohmann::ordered_json;

// An object with room for this many members: one that grows copies what it has, values and all.
Json json_object(std::size_t members);

// Parses one JSON document; the error says where it stops being JSON.
Result<Json> parse_json(std::string_view text);

// Checks the syntax without building the value.
bool is_json(std::string_view text);

// Never fails: bytes that are not UTF-8 are replaced, since JSON cannot carry them.
std::string dump_json(const Json& value);
std::string dump_json_pretty(const Json& value);

}  // namespace warren
