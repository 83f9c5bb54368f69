// Columns of text, and arbitrary bytes in JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/printable.h"

namespace warren::cli {

bool is_utf8(std::string_view bytes);

// Sets object[key]. If the bytes are not UTF-8, also sets object[key_hex] to them in hexadecimal.
void set_bytes(Json& object, std::string_view key, std::string_view bytes);

std::string to_hex(std::string_view bytes);

std::size_t columns_of(std::string_view text);  // one column for each UTF-8 character
std::string pad_right(std::string text, std::size_t columns);
std::string pad_left(std::string text, std::size_t columns);
// At most `columns` characters; if text was cut, the last three are "...".
std::string shorten(std::string_view text, std::size_t columns);

// Breaks the text between words into lines of at most `columns`, of which all but the first begin with `indent` blanks.
// The first has `begun` columns already. Line ends in the text stay; a word that is too long has a line of its own.
std::string wrap(std::string_view text, std::size_t columns, std::size_t indent = 0, std::size_t begun = 0);

}  // namespace warren::cli
