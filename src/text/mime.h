// What kind of content bytes are, by the bytes first and by the file's name for what they cannot tell.
#pragma once

#include <string_view>

namespace warren {

// Valid UTF-8 without NUL. kBeginning: of a longer content, so the last character may be incomplete.
enum class Extent { kWhole, kBeginning };
bool is_text(std::string_view bytes, Extent extent = Extent::kWhole);

// "image/png" by its first bytes, "text/markdown" by the name's ending if the bytes are text, otherwise "text/html",
// "text/plain" or "application/octet-stream". The name's ending never turns binary content into text or the other way
// round.
std::string_view mime_type_of(std::string_view name, std::string_view beginning);

// By the name's ending alone, for a file whose content is not read; "" if that says nothing.
std::string_view mime_type_by_name(std::string_view name);

}  // namespace warren
