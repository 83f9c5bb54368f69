#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace warren {

std::size_t utf8_length(std::string_view bytes) {
  auto is_next = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    if (i >= bytes.size()) return false;
    auto byte = static_cast<unsigned char>(bytes[i]);
    return byte >= low && byte <= high;
  };
  if (bytes.empty()) return 0;
  auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return is_next(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    unsigned low = lead == 0xE0 ? 0xA0 : 0x80;   // overlong
    unsigned high = lead == 0xED ? 0x9F : 0xBF;  // surrogates
    return is_next(1, low, high) && is_next(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    unsigned low = lead == 0xF0 ? 0x90 : 0x80;   // overlong
    unsigned high = lead == 0xF4 ? 0x8F : 0xBF;  // beyond U+10FFFF
    return is_next(1, low, high) && is_next(2) && is_next(3) ? 4 : 0;
  }
  return 0;
}

bool is_utf8(std::string_view bytes) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  while (!bytes.empty()) {
    std::uint64_t eight = kHighBits;  // most text is ASCII: eight bytes at a time
    if (bytes.size() >= sizeof eight) std::memcpy(&eight, bytes.data(), sizeof eight);
    if ((eight & kHighBits) == 0) {
      bytes.remove_prefix(sizeof eight);
      continue;
    }
    std::size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

}  // namespace warren
