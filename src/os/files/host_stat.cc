#include "os/files/host_stat.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/fd.h"

namespace warren {
namespace {

constexpr std::uint64_t kNanoseconds = 1'000'000'000;
constexpr long kXfsMagic = 0x58465342;  // missing from older linux/magic.h

timespec time_of(const statx_timestamp& time) { return {time.tv_sec, time.tv_nsec}; }

int flags_for(const char* name) { return *name == '\0' ? AT_EMPTY_PATH : 0; }

// FNV-1a.
std::uint64_t hash(const unsigned char* bytes, std::size_t size) {
  std::uint64_t value = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < size; ++i) value = (value ^ bytes[i]) * 0x100000001b3ULL;
  return value;
}

}  // namespace

Result<HostStat> host_stat(int dir, const char* name) {
  struct statx from {};
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | flags_for(name);
  if (::statx(dir, name, flags, STATX_BASIC_STATS | STATX_BTIME, &from) != 0) {
    return system_error(errno, fmt::format("stat {}", quote(name)));
  }
  HostStat info;
  std::memset(static_cast<struct stat*>(&info), 0, sizeof(struct stat));
  info.st_dev = ::makedev(from.stx_dev_major, from.stx_dev_minor);
  info.st_ino = from.stx_ino;
  info.st_mode = from.stx_mode;
  info.st_nlink = from.stx_nlink;
  info.st_uid = from.stx_uid;
  info.st_gid = from.stx_gid;
  info.st_rdev = ::makedev(from.stx_rdev_major, from.stx_rdev_minor);
  info.st_size = static_cast<off_t>(from.stx_size);
  info.st_blksize = static_cast<blksize_t>(from.stx_blksize);
  info.st_blocks = static_cast<blkcnt_t>(from.stx_blocks);
  info.st_atim = time_of(from.stx_atime);
  info.st_mtim = time_of(from.stx_mtime);
  info.st_ctim = time_of(from.stx_ctime);
  bool has_birth = (from.stx_mask & STATX_BTIME) != 0;
  if (has_birth) {
    info.generation = (static_cast<std::uint64_t>(from.stx_btime.tv_sec) * kNanoseconds + from.stx_btime.tv_nsec) << 1U;
  }
  return info;
}

// The kernel's overlayfs reports the birth time of whichever layer currently has the node. A handle is stable only if
// the filesystem stores it: a FUSE server makes handles up.
GenerationSource find_generation_source(int dir, const char* name, const HostStat& info) {
  Fd node(*name == '\0' ? ::fcntl(dir, F_DUPFD_CLOEXEC, 0) : ::openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct statfs filesystem {};
  if (!node.is_open() || ::fstatfs(node.get(), &filesystem) != 0) return GenerationSource::kNone;
  long type = static_cast<long>(filesystem.f_type);
  if (type == OVERLAYFS_SUPER_MAGIC) return GenerationSource::kNone;
  if (info.generation != 0) return GenerationSource::kBirth;
  bool has_lasting_handles = type == EXT4_SUPER_MAGIC || type == kXfsMagic || type == NFS_SUPER_MAGIC;
  bool has_one = has_lasting_handles && generation_by_handle(dir, name) != 0;
  return has_one ? GenerationSource::kHandle : GenerationSource::kNone;
}

std::uint64_t generation_by_handle(int dir, const char* name) {
  alignas(file_handle) std::array<unsigned char, sizeof(file_handle) + MAX_HANDLE_SZ> space{};
  auto* handle = reinterpret_cast<file_handle*>(space.data());
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (::name_to_handle_at(dir, name, handle, &mount, flags_for(name)) != 0) return 0;
  return hash(handle->f_handle, handle->handle_bytes) | 1U;
}

}  // namespace warren
