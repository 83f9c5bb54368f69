// Whether an agent is registered, for those who must not register it by opening its mailbox.
#pragma once

#include <string>
#include <string_view>

#include "relay/root/root.h"

namespace warren::relay {

// kInvalid: not a name of agents; kNotFound, with the hint; kDenied: the root cannot be looked into.
Status check_is_registered(const Root& root, const std::string& agent, std::string_view hint);

}  // namespace warren::relay
