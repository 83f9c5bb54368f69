// Text in other encodings, as UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace warren {

// The text as UTF-8 without a byte order mark; nullopt if the bytes are not text, or nobody knows in which encoding. In
// this order: a byte order mark decides; bytes that are UTF-8 are UTF-8; `charset`, as a server names it (may be
// empty); what the text declares itself (declared_charset); what uchardet makes of it, if that is installed;
// windows-1252, for bytes that are mostly ASCII. The last two only for bytes without control characters.
std::optional<std::string> decode_text(std::string_view bytes, std::string_view charset = {});

// The encoding that an XML declaration or an HTML <meta> names at the beginning of the text; "" if none does.
std::string declared_charset(std::string_view bytes);

// Text in an old encoding has no control characters except those for layout and colours.
bool has_no_control_bytes(std::string_view bytes);

// Converts by iconv(3), with names as browsers understand them ("iso-8859-1" is windows-1252); nullopt for an unknown
// name or bytes that are not in that encoding.
std::optional<std::string> convert_to_utf8(std::string_view bytes, std::string_view charset);

}  // namespace warren
