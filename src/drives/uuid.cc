#include "drives/uuid.h"

#include "base/ascii.h"
#include "base/bytes.h"
#include "crypto/digest.h"
#include "crypto/hmac.h"

namespace warren {

std::string make_uuid7(Timestamp now, const UuidRandom& random) {
  std::array<std::byte, 16> bytes{};
  auto milliseconds =
      static_cast<std::uint64_t>(now.seconds) * 1000 + static_cast<std::uint64_t>(now.nanoseconds) / 1'000'000;
  for (int i = 0; i < 6; ++i)
    bytes.at(static_cast<std::size_t>(5 - i)) = static_cast<std::byte>(milliseconds >> (8 * i));
  for (std::size_t i = 0; i < random.size(); ++i) bytes.at(6 + i) = random.at(i);
  bytes[6] = (bytes[6] & std::byte{0x0F}) | std::byte{0x70};
  bytes[8] = (bytes[8] & std::byte{0x3F}) | std::byte{0x80};
  std::string text = hex_of(bytes);
  for (std::size_t dash : {20U, 16U, 12U, 8U}) text.insert(dash, "-");
  return text;
}

std::string make_uuid7(Timestamp now) {
  UuidRandom random{};
  fill_with_random(random);
  return make_uuid7(now, random);
}

bool looks_like_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? text[i] != '-' : !is_hex_digit(text[i])) return false;
  }
  return true;
}

}  // namespace warren
