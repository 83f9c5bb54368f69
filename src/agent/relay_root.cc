#include "agent/relay_root.h"

#include "agent/sessions.h"
#include "base/path.h"

namespace warren {

Result<std::string> find_relay_root(const std::optional<std::string>& given, const std::optional<std::string>& usual) {
  if (given && !given->empty()) return *given;
  if (usual && !usual->empty()) return *usual;
  std::string home = WARREN_TRY(home_directory());
  return join_path(home, ".agent-relay");
}

}  // namespace warren
