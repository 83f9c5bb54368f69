// UTF-8 validation.
#pragma once

#include <cstddef>
#include <string_view>

namespace warren {

// The length of the well-formed UTF-8 sequence at the start of the bytes; 0 if there is none.
std::size_t utf8_length(std::string_view bytes);

bool is_utf8(std::string_view bytes);  // all of it

}  // namespace warren
