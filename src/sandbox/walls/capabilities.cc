#include "sandbox/walls/capabilities.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/error.h"

namespace warren {
namespace {

constexpr std::array<int, 8> kKept{CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID,
                                   CAP_SETUID, CAP_SETGID,       CAP_KILL,   CAP_NET_BIND_SERVICE};

bool is_kept(int capability) {
  return ::geteuid() == 0 && std::find(kKept.begin(), kKept.end(), capability) != kKept.end();
}

}  // namespace

Status drop_capabilities() {
  // EINVAL marks the end of the capabilities that the kernel knows.
  for (int capability = 0; capability < 64; ++capability) {
    if (is_kept(capability)) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno == EINVAL) break;
    return system_error(errno, "drop capabilities");
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  std::uint64_t mask = 0;
  for (int capability : kKept) {
    if (is_kept(capability)) mask |= std::uint64_t{1} << capability;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  for (std::size_t word = 0; word < data.size(); ++word) {
    auto bits = static_cast<std::uint32_t>(mask >> (32 * word));
    data[word] = {.effective = bits, .permitted = bits, .inheritable = 0};
  }
  if (::syscall(SYS_capset, &header, data.data()) != 0) return system_error(errno, "drop capabilities");
  return Ok{};
}

}  // namespace warren
