// Base64 with padding (RFC 4648), for bytes in JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace warren {

std::string encode_base64(Bytes bytes);

// nullopt unless it is exactly what encode_base64 returns for some bytes.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace warren
