#include "relay/root/registered.h"

#include <fcntl.h>

#include <fmt/format.h>

#include "base/path.h"
#include "relay/protocol/names.h"

namespace warren::relay {

Status check_is_registered(const Root& root, const std::string& agent, std::string_view hint) {
  WARREN_TRY(check_agent_name(agent));
  Result<Fd> home = open_below(root.agents(), agent, O_PATH | O_DIRECTORY);
  if (home.ok()) return Ok{};
  if (home.error().code() != Code::kNotFound) return std::move(home).take_error();
  return Error(Code::kNotFound, fmt::format("there is no agent {}", quote(agent)), std::string(hint));
}

}  // namespace warren::relay
