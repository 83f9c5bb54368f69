// Sizes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace warren {

std::string format_size(std::uint64_t bytes);  // "1023 B", "1.5 MiB"

}  // namespace warren
