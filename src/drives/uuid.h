// Identifiers of items: UUIDs of version 7 (RFC 9562), which sort by the time when they were made.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace warren {

using UuidRandom = std::array<std::byte, 10>;
std::string make_uuid7(Timestamp now, const UuidRandom& random);  // "0190163d-8694-739b-aea5-966c26f8ad91"
std::string make_uuid7(Timestamp now);                            // with random bytes of the system

bool looks_like_uuid(std::string_view text);  // of any version, in lower or upper case

}  // namespace warren
