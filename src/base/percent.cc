#include "base/percent.h"

#include <charconv>
#include <cstdint>

#include <fmt/format.h>

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

std::string encode_percent(std::string_view bytes, std::string_view keep) {
  constexpr std::string_view kUnreserved = "-._~";
  std::string encoded;
  for (char c : bytes) {
    bool is_plain = is_letter(c) || is_digit(c) || kUnreserved.find(c) != kUnreserved.npos || keep.find(c) != keep.npos;
    if (is_plain) encoded += c;
    else encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace warren
