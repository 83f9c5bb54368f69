// `warren vfs … --host SOCKET`: the namespace through a host, as the agent that the command names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/syntax/args.h"
#include "host/host_client.h"

namespace warren::cli {

std::vector<Option> hosted_options();
inline bool is_hosted(const Arguments& args) { return args.has("host"); }
// kInvalid for options that are about an agent file that the command opens itself.
Result<std::unique_ptr<HostClient>> connect_host(const Arguments& args);

}  // namespace warren::cli
