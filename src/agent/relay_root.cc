#include "agent/relay_root.h"

#include <cstdlib>

#include "agent/sessions.h"
#include "base/path.h"

namespace warren {

Result<std::string> find_relay_root(const std::optional<std::string>& given) {
  if (given && !given->empty()) return *given;
  const char* usual = std::getenv("WARREN_RELAY_ROOT");
  if (usual != nullptr && *usual != '\0') return std::string(usual);
  std::string home = WARREN_TRY(home_directory());
  return join_path(home, ".agent-relay");
}

}  // namespace warren
