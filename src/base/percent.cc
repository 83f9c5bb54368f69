#include "base/percent.h"

#include <charconv>
#include <cstdint>

#include "base/ascii.h"

namespace warren {

std::optional<std::string> decode_percent_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    std::string_view digits = text.substr(i + 1, 2);
    if (digits.size() != 2 || !is_hex_digit(digits[0]) || !is_hex_digit(digits[1])) return std::nullopt;
    std::uint8_t byte = 0;
    std::from_chars(digits.data(), digits.data() + 2, byte, 16);
    bytes += static_cast<char>(byte);
    i += 2;
  }
  return bytes;
}

}  // namespace warren
