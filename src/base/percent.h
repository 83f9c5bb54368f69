// %XX in addresses.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace warren {

// The bytes that the text stands for, which may contain NUL; nullopt if a '%' is not followed by two hexadecimal
// digits.
std::optional<std::string> decode_percent_bytes(std::string_view text);
// Everything but letters, digits and -._~ and the bytes of `keep`.
std::string encode_percent(std::string_view bytes, std::string_view keep = {});

}  // namespace warren
