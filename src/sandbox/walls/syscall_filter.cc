#include "sandbox/walls/syscall_filter.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>

#include <linux/sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "os/error.h"

namespace warren {
namespace {

constexpr std::uint32_t kRefuse = SCMP_ACT_ERRNO(EPERM);
constexpr std::uint32_t kUnknown = SCMP_ACT_ERRNO(ENOSYS);
constexpr std::uint64_t kLowWord = 0xffffffff;  // the kernel reads only these bits of the arguments
constexpr std::uint64_t kTioclinux = 0x541c;

// Mounts and namespaces; keys; the kernel itself; the clock and the machine; ways to bypass names.
constexpr std::array kRefused{SCMP_SYS(mount),
                              SCMP_SYS(umount2),
                              SCMP_SYS(umount),
                              SCMP_SYS(pivot_root),
                              SCMP_SYS(open_tree),
                              SCMP_SYS(move_mount),
                              SCMP_SYS(fsopen),
                              SCMP_SYS(fsconfig),
                              SCMP_SYS(fsmount),
                              SCMP_SYS(fspick),
                              SCMP_SYS(mount_setattr),
                              SCMP_SYS(setns),
                              SCMP_SYS(chroot),
                              SCMP_SYS(keyctl),
                              SCMP_SYS(add_key),
                              SCMP_SYS(request_key),
                              SCMP_SYS(kexec_load),
                              SCMP_SYS(kexec_file_load),
                              SCMP_SYS(init_module),
                              SCMP_SYS(finit_module),
                              SCMP_SYS(delete_module),
                              SCMP_SYS(bpf),
                              SCMP_SYS(perf_event_open),
                              SCMP_SYS(userfaultfd),
                              SCMP_SYS(open_by_handle_at),
                              SCMP_SYS(acct),
                              SCMP_SYS(swapon),
                              SCMP_SYS(swapoff),
                              SCMP_SYS(reboot),
                              SCMP_SYS(settimeofday),
                              SCMP_SYS(clock_settime),
                              SCMP_SYS(clock_settime64),
                              SCMP_SYS(stime),
                              SCMP_SYS(iopl),
                              SCMP_SYS(ioperm),
                              SCMP_SYS(quotactl),
                              SCMP_SYS(quotactl_fd),
                              SCMP_SYS(lookup_dcookie),
                              SCMP_SYS(nfsservctl),
                              SCMP_SYS(sethostname),
                              SCMP_SYS(setdomainname),
                              SCMP_SYS(vhangup),
                              SCMP_SYS(io_uring_setup),
                              SCMP_SYS(io_uring_enter),
                              SCMP_SYS(io_uring_register),
                              SCMP_SYS(syslog),
                              SCMP_SYS(fanotify_init),
                              SCMP_SYS(kcmp),
                              SCMP_SYS(move_pages),
                              SCMP_SYS(vm86),
                              SCMP_SYS(vm86old),
                              SCMP_SYS(uselib)};

constexpr std::array<std::uint64_t, 8> kNamespaces{CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWIPC,
                                                   CLONE_NEWNET,  CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWTIME};

// Others lead around the network namespace (vsock, to the machine's host), or are rarely used and rarely examined.
constexpr std::array kFamilies{AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
constexpr int kFamiliesEnd = 64;  // the kernel knows fewer, and refuses the rest itself
constexpr std::uint32_t kNoFamily = SCMP_ACT_ERRNO(EAFNOSUPPORT);

struct Release {
  void operator()(void* context) const { ::seccomp_release(context); }
};
using Filter = std::unique_ptr<void, Release>;

Status check(int outcome, const char* what) {
  if (outcome == 0) return Ok{};
  return system_error(-outcome, fmt::format("filter system calls: {}", what));
}

// A call that an instruction set lacks needs no rule there.
Status refuse_where(const Filter& filter, int call, scmp_arg_cmp condition) {
  return check(::seccomp_rule_add_array(filter.get(), kRefuse, call, 1, &condition), "a rule");
}

Status add_architectures(const Filter& filter) {
#if defined(__x86_64__)
  WARREN_TRY(check(::seccomp_arch_add(filter.get(), SCMP_ARCH_X86), "32 bits"));
#elif defined(__aarch64__)
  WARREN_TRY(check(::seccomp_arch_add(filter.get(), SCMP_ARCH_ARM), "32 bits"));
#endif
  return check(::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, kUnknown), "other instruction sets");
}

// 32-bit x86 programs that open sockets through socketcall(2) open none: a filter cannot see its arguments.
Status refuse_families(const Filter& filter) {
  for (int family = 0; family < kFamiliesEnd; ++family) {
    if (std::find(kFamilies.begin(), kFamilies.end(), family) != kFamilies.end()) continue;
    scmp_arg_cmp is_it = SCMP_A0(SCMP_CMP_MASKED_EQ, kLowWord, static_cast<scmp_datum_t>(family));
    for (int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)}) {
      WARREN_TRY(check(::seccomp_rule_add_array(filter.get(), kNoFamily, call, 1, &is_it), "sockets"));
    }
  }
  return Ok{};
}

}  // namespace

Status filter_syscalls() {
  Filter filter(::seccomp_init(SCMP_ACT_ALLOW));
  if (!filter) return Error(Code::kIo, "filter system calls: cannot create a filter");
  WARREN_TRY(add_architectures(filter));
  for (int call : kRefused)
    WARREN_TRY(check(::seccomp_rule_add_array(filter.get(), kRefuse, call, 0, nullptr), "a rule"));
  // Its flags are in memory, which a filter cannot read, unlike clone's.
  WARREN_TRY(check(::seccomp_rule_add_array(filter.get(), kUnknown, SCMP_SYS(clone3), 0, nullptr), "clone3"));
  for (std::uint64_t flag : kNamespaces) {
    if (flag != CLONE_NEWTIME) {  // for clone it is part of the exit signal
      WARREN_TRY(refuse_where(filter, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)));
    }
    WARREN_TRY(refuse_where(filter, SCMP_SYS(unshare), SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)));
  }
  WARREN_TRY(refuse_families(filter));
  // Typing into the terminal of the user outside.
  for (std::uint64_t request : {std::uint64_t{TIOCSTI}, kTioclinux}) {
    WARREN_TRY(refuse_where(filter, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, kLowWord, request)));
  }
  // A lease on a file that can be read outside delays whoever opens it for writing there.
  for (int call : {SCMP_SYS(fcntl), SCMP_SYS(fcntl64)}) {
    WARREN_TRY(refuse_where(filter, call, SCMP_A1(SCMP_CMP_MASKED_EQ, kLowWord, F_SETLEASE)));
  }
  WARREN_TRY(check(::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_NNP, 0), "no_new_privs"));
  return check(::seccomp_load(filter.get()), "apply");
}

}  // namespace warren
