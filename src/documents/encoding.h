// Text in other encodings, as UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace warren {

// The text as UTF-8 without a byte order mark; nullopt if the bytes are not text. A byte order mark decides; otherwise
// bytes that are UTF-8 are UTF-8. Only then `charset` is tried, as a server or a page names it (may be empty), and last
// windows-1252, for bytes that are mostly ASCII and have no control characters.
std::optional<std::string> decode_text(std::string_view bytes, std::string_view charset = {});

// Converts by iconv(3); nullopt for an unknown name or bytes that are not in that encoding.
std::optional<std::string> convert_to_utf8(std::string_view bytes, std::string_view charset);

}  // namespace warren
