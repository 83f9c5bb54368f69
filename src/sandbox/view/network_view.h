// What a sandbox with a network namespace of its own sees of the network.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Where programs inside find the proxy, on their loopback device.
inline constexpr std::uint16_t kProxyPort = 3128;

// Listens on that port, in the network namespace of this process. Whoever gets the socket can accept connections from
// inside, wherever it runs itself: that is the only way out.
Result<Fd> listen_for_proxy();

// A new network namespace has a loopback device, which is down.
Status raise_loopback();

// /sys shows the network devices of the namespace in which it was mounted: covers them. Before the first command.
Status hide_host_devices();

}  // namespace warren
