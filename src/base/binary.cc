#include "base/binary.h"

namespace warren {

bool is_binary(std::string_view content) { return content.substr(0, 8000).find('\0') != std::string_view::npos; }

}  // namespace warren
