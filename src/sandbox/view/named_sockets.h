// Unix sockets of the host that have a path.
//
// A read-only mount does not keep anyone from connecting to one, and Landlock does from Linux 7.1 on. Before that, the
// sockets that exist are covered.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

// The absolute paths in the kernel's list of sockets (/proc/net/unix), each once, as the programs gave them: one may be
// gone, or belong to another mount namespace. Sockets bound by a relative path cannot be found this way.
std::vector<std::string> parse_named_sockets(std::string_view text);

// Of our own network namespace. Empty if the list cannot be read.
std::vector<std::string> find_named_sockets();

}  // namespace warren
