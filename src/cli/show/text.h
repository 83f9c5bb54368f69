// Bytes that may be anything, made fit for a terminal or for JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"

namespace warren::cli {

bool is_utf8(std::string_view bytes);

// Control characters and broken UTF-8 as \xNN: a name cannot move someone's cursor.
std::string printable(std::string_view bytes);

// Sets object[key]; and object[key_hex], the bytes in hexadecimal, when JSON cannot carry them.
void set_bytes(Json& object, std::string_view key, std::string_view bytes);

std::string to_hex(std::string_view bytes);

std::size_t columns_of(std::string_view text);  // one for each UTF-8 character
std::string pad_right(std::string text, std::size_t columns);
std::string pad_left(std::string text, std::size_t columns);
// The first `columns` characters, the last three of them "..." when something was cut.
std::string shorten(std::string_view text, std::size_t columns);

}  // namespace warren::cli
