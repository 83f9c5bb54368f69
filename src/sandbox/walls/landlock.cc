#include "sandbox/walls/landlock.h"

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/fd.h"

namespace warren {
namespace {

// Newer than Debian 12's header. From <linux/landlock.h> of Linux 7.1.
constexpr std::uint64_t kTruncate = std::uint64_t{1} << 14;             // ABI 3
constexpr std::uint64_t kResolveUnix = std::uint64_t{1} << 16;          // ABI 9
constexpr std::uint64_t kScopeAbstractSockets = std::uint64_t{1} << 0;  // ABI 6
struct Attributes {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;
  std::uint64_t scoped;
};

constexpr std::uint64_t kMakeAnything = LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                        LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                        LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                                        LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                                        LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;

std::uint64_t content_access(int abi) { return LANDLOCK_ACCESS_FS_WRITE_FILE | (abi >= 3 ? kTruncate : 0); }

Status allow_fd(int ruleset, int fd, std::uint64_t access, const std::string& name) {
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = fd;
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0) return Ok{};
  return system_error(errno, fmt::format("allow writing to {}", quote(name)));
}

Status allow_path(int ruleset, const std::string& path, std::uint64_t for_files, std::uint64_t for_dirs) {
  Fd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd.is_open()) return Ok{};  // a missing path needs no rule
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(errno, fmt::format("stat {}", quote(path)));
  return allow_fd(ruleset, fd.get(), S_ISDIR(info.st_mode) ? for_files | for_dirs : for_files, path);
}

// So that `> /dev/stderr` works, which reopens the stream that the user gave us.
Status allow_standard_streams(int ruleset, std::uint64_t access) {
  for (int fd : {0, 1, 2}) {
    struct stat info {};
    int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || ::fstat(fd, &info) != 0) continue;
    if (S_ISREG(info.st_mode) || S_ISCHR(info.st_mode)) WARREN_TRY(allow_fd(ruleset, fd, access, "a stream"));
  }
  return Ok{};
}

}  // namespace

int landlock_abi() {
  long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : static_cast<int>(version);
}

Status restrict_writing(const std::vector<std::string>& writable) {
  int abi = landlock_abi();
  if (abi < 2) return Ok{};
  std::uint64_t content = content_access(abi);
  std::uint64_t sockets = abi >= kNamedSocketsAbi ? kResolveUnix : 0;
  Attributes attributes{};
  attributes.handled_access_fs = content | sockets | kMakeAnything;
  // Signals are not scoped: commands that share a session must reach each other, and their pid namespace shows no one
  // else.
  if (abi >= kAbstractSocketsAbi) attributes.scoped = kScopeAbstractSockets;
  std::size_t size = abi >= kAbstractSocketsAbi ? sizeof attributes : sizeof attributes.handled_access_fs;
  Fd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!ruleset.is_open()) return system_error(errno, "create Landlock rules");
  for (const std::string& path : writable) {
    WARREN_TRY(allow_path(ruleset.get(), path, content | sockets, kMakeAnything));
  }
  // No names can be created there; the entries of /proc that are not a process's own are mounted read-only.
  for (const char* path : {"/dev", "/proc"}) WARREN_TRY(allow_path(ruleset.get(), path, content, 0));
  WARREN_TRY(allow_standard_streams(ruleset.get(), content));
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return system_error(errno, "apply Landlock rules");
  return Ok{};
}

}  // namespace warren
