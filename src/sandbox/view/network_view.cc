#include "sandbox/view/network_view.h"

#include <cerrno>
#include <set>
#include <string>

#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/path.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"
#include "sandbox/view/mounts.h"

namespace warren {
namespace {

constexpr int kBacklog = 128;

bool is_net_dir(std::string_view dir) { return dir.starts_with("/sys/devices/") && base_name(dir) == "net"; }

}  // namespace

Status raise_loopback() {
  Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return system_error(errno, "open a socket");
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return system_error(errno, "bring the loopback device up");
  return Ok{};
}

Result<Fd> listen_for_proxy() {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.is_open()) return system_error(errno, "open a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kProxyPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool is_bound = ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!is_bound || ::listen(listener.get(), kBacklog) != 0) return system_error(errno, "listen for the proxy");
  return listener;
}

Status hide_host_devices() {
  constexpr const char* kClass = "/sys/class/net";
  std::set<std::string> dirs{kClass, "/sys/devices/virtual/net"};
  Result<Fd> listed = open_host_dir(kClass);
  if (!listed.ok()) return Ok{};  // no /sys, or one without networks
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(listed->get()));
  *listed = Fd();
  for (const HostEntry& entry : entries) {
    // A device's directory is in one called "net", of its bus.
    Result<std::string> device = canonical_host_path(join_path(kClass, entry.name));
    if (device.ok() && is_net_dir(split_parent(*device).parent)) dirs.emplace(split_parent(*device).parent);
  }
  for (const std::string& dir : dirs) {
    if (!WARREN_TRY(find_host_file(dir))) continue;
    Fd cover = WARREN_TRY(mounts::make_filesystem(
        "tmpfs", "mode=0555", mounts::kNoSuid | mounts::kNoDev | mounts::kNoExec | mounts::kReadOnly));
    WARREN_TRY(mounts::attach(cover, dir).within("hide the network devices"));
  }
  return Ok{};
}

}  // namespace warren
