// Which encoding bytes are in, by uchardet, which is loaded with the first question.
//
// Internal to this module: only its .cc files include this header.
#pragma once

#include <string>
#include <string_view>

namespace warren {

// A name for convert_to_utf8; "" if it cannot be told, or the library is not installed. Thread-safe.
std::string guess_charset(std::string_view bytes);

}  // namespace warren
