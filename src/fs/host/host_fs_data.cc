#include "fs/host/host_fs.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "os/error.h"

namespace warren {
namespace {

constexpr std::size_t kUsualXattrBytes = 1024;  // tried first

// Attributes that an agent may see and keep. The others are meaningful only to the host.
bool is_shown_xattr(std::string_view name) { return name.starts_with("user.") || name == "security.capability"; }

}  // namespace

Result<HostFs::FdPtr> HostFs::open_file(Inode node) {
  std::lock_guard guard(mutex_);
  NodePtr found = WARREN_TRY(find_node(node));
  if (found->type == S_IFDIR) return Error(Code::kIsDirectory, "it is a directory");
  if (found->type != S_IFREG) return Error(Code::kInvalid, "it is not a regular file");
  if (FdPtr kept = files_.find(node)) {
    if (found->retained > 0) return kept;
    // Deleted or replaced on the host while we have it open: the node that was looked up is gone.
    HostStat info = WARREN_TRY(stat_at(kept->get(), ""));
    if (info.st_nlink > 0) return kept;
    files_.drop(node);
  }
  FdPtr dir = WARREN_TRY(open_dir_fd(found->parent));
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Fd fd;
  if (is_writable_) fd = Fd(::openat(dir->get(), found->name.c_str(), kFlags | O_RDWR));
  if (!fd.is_open()) fd = Fd(::openat(dir->get(), found->name.c_str(), kFlags | O_RDONLY | O_NOATIME));
  if (!fd.is_open() && errno == EPERM) fd = Fd(::openat(dir->get(), found->name.c_str(), kFlags | O_RDONLY));
  if (!fd.is_open()) {
    if (errno == ENOENT || errno == ELOOP) return stale(node);
    return system_error(errno, fmt::format("open {} in the base", quote(found->name)));
  }
  HostStat info = WARREN_TRY(stat_at(fd.get(), ""));
  if (is_other(*found, info)) return stale(node);
  return files_.add(node, std::move(fd));
}

Result<std::size_t> HostFs::read(Inode node, std::uint64_t offset, MutableBytes out) {
  FdPtr fd = WARREN_TRY(open_file(node));
  constexpr ssize_t kReadMost = 0x7ffff000;  // the most that one read returns
  std::size_t done = 0;
  while (done < out.size() && offset + done <= static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    ssize_t got = ::pread(fd->get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "read a file of the base");
    done += static_cast<std::size_t>(got);
    if (done < out.size() && got < kReadMost) break;  // the end
  }
  return done;
}

Result<Fd> HostFs::open_backing(Inode node) {
  if (is_writable_) return Error(Code::kUnsupported, "what is written here is counted");
  FdPtr fd = WARREN_TRY(open_file(node));
  Fd copy(::fcntl(fd->get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) return system_error(errno, "open a file of the base");
  return copy;
}

Result<std::uint64_t> HostFs::seek_data(Inode node, std::uint64_t offset) {
  FdPtr fd = WARREN_TRY(open_file(node));
  HostStat info = WARREN_TRY(host_stat(fd->get(), ""));
  Error none(Code::kNoData, "there is no data from this offset on");
  if (offset >= static_cast<std::uint64_t>(info.st_size)) return none;
  off_t at = ::lseek(fd->get(), static_cast<off_t>(offset), SEEK_DATA);
  if (at < 0 && errno == ENXIO) return none;
  if (at < 0) return offset;  // without support for holes everything is data
  return static_cast<std::uint64_t>(at);
}

Result<std::uint64_t> HostFs::seek_hole(Inode node, std::uint64_t offset) {
  FdPtr fd = WARREN_TRY(open_file(node));
  HostStat info = WARREN_TRY(host_stat(fd->get(), ""));
  std::uint64_t size = static_cast<std::uint64_t>(info.st_size);
  if (offset >= size) return Error(Code::kNoData, "the offset is beyond the end");
  off_t at = ::lseek(fd->get(), static_cast<off_t>(offset), SEEK_HOLE);
  return at < 0 ? size : static_cast<std::uint64_t>(at);
}

// The path of a name through its directory's descriptor: the xattr calls take no directory descriptor and must not
// follow a link.
Result<std::string> HostFs::path_by_fd(const NodePtr& node, FdPtr& keep) {
  keep = WARREN_TRY(open_dir_fd(node->type == S_IFDIR ? node : node->parent));
  if (node->type == S_IFDIR) return fmt::format("/proc/self/fd/{}/.", keep->get());
  return fmt::format("/proc/self/fd/{}/{}", keep->get(), node->name);
}

Result<std::string> HostFs::get_xattr(Inode node, std::string_view name) {
  Error none(Code::kNoData, fmt::format("no attribute {}", quote(name)));
  std::lock_guard guard(mutex_);
  NodePtr found = WARREN_TRY(find_node(node));
  if (!is_shown_xattr(name)) return none;
  FdPtr keep;
  std::string path = WARREN_TRY(path_by_fd(found, keep));
  std::string value(kUsualXattrBytes, '\0');
  std::string wanted(name);
  ssize_t length = ::lgetxattr(path.c_str(), wanted.c_str(), value.data(), value.size());
  if (length < 0 && errno == ERANGE) {
    value.resize(limits::kXattrValueBytes);
    length = ::lgetxattr(path.c_str(), wanted.c_str(), value.data(), value.size());
  }
  if (length < 0 && (errno == ENODATA || errno == EOPNOTSUPP || errno == EPERM)) return none;
  if (length < 0 && errno == ENOENT) return stale(node);
  if (length < 0) return system_error(errno, fmt::format("read the attribute {}", quote(name)));
  value.resize(static_cast<std::size_t>(length));
  return value;
}

Result<std::vector<std::string>> HostFs::list_xattrs(Inode node) {
  std::lock_guard guard(mutex_);
  NodePtr found = WARREN_TRY(find_node(node));
  FdPtr keep;
  std::string path = WARREN_TRY(path_by_fd(found, keep));
  std::string list(kUsualXattrBytes, '\0');
  ssize_t length = ::llistxattr(path.c_str(), list.data(), list.size());
  if (length < 0 && errno == ERANGE) {
    list.resize(limits::kXattrValueBytes);
    length = ::llistxattr(path.c_str(), list.data(), list.size());
  }
  if (length < 0 && errno == ENOENT) return stale(node);
  if (length < 0 && errno != EOPNOTSUPP) return system_error(errno, "list attributes");
  std::vector<std::string> names;
  std::string_view rest = std::string_view(list).substr(0, length < 0 ? 0 : static_cast<std::size_t>(length));
  while (!rest.empty()) {
    std::string_view name = rest.substr(0, rest.find('\0'));
    if (is_shown_xattr(name)) names.emplace_back(name);
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace warren
