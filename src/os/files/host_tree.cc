#include "os/files/host_tree.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr int kDirFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr std::size_t kOpenDirs = 64;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPathPart = 2048;  // plus one name, below the kernel's limit for a path

constexpr std::uint64_t kDigestStart = 14695981039346656037U;  // FNV-1a: against accidents, not against an enemy
constexpr std::uint64_t kDigestPrime = 1099511628211U;

Error failed(std::string_view what, std::string_view path) {
  int number = errno;
  return system_error(number, fmt::format("{} {}", what, quote(path)));
}

int open_beneath(int top, const std::string& relative) {
  open_how how{};
  how.flags = kDirFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (int tries = 0;; ++tries) {
    long fd = ::syscall(SYS_openat2, top, relative.c_str(), &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN || tries == 100) return static_cast<int>(fd);  // EAGAIN: something moved meanwhile
  }
}

// In steps: a tree may be deeper than the longest path.
Result<Fd> open_deep(int top, std::string_view dir) {
  Fd at;
  while (!dir.empty()) {
    std::size_t end = dir.size() <= kPathPart ? dir.size() : std::min(dir.find('/', kPathPart), dir.size());
    std::string part(dir.substr(0, end));
    dir.remove_prefix(std::min(end + 1, dir.size()));
    int from = at.is_open() ? at.get() : top;
    Fd next(open_beneath(from, part));
    if (!next.is_open() && errno == ENOSYS) next = WARREN_TRY(open_host_dir_below(from, part));
    if (!next.is_open()) return failed("open directory", part);
    at = std::move(next);
  }
  return at;
}

Timestamp timestamp_of(const timespec& time) { return {time.tv_sec, static_cast<std::int32_t>(time.tv_nsec)}; }

timespec host_time(Timestamp time) { return {static_cast<time_t>(time.seconds), time.nanoseconds}; }

Result<std::size_t> read_part(int fd, off_t at, std::string& buffer) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    ssize_t count = ::pread(fd, buffer.data() + done, buffer.size() - done, at + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "read a file");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

bool is_foreign_xattr(std::string_view name) { return !name.starts_with("user."); }

}  // namespace

HostNode HostNode::of(const struct stat& info) {
  HostNode node{.device = info.st_dev, .inode = info.st_ino, .type = info.st_mode & S_IFMT, .size = 0, .mtime = {}};
  if (S_ISDIR(info.st_mode)) return node;
  node.size = static_cast<std::uint64_t>(info.st_size);
  node.mtime = timestamp_of(info.st_mtim);
  return node;
}

bool HostNode::is_same(const struct stat& info) const { return of(info) == *this; }

Result<std::unique_ptr<HostTree>> HostTree::open(const std::string& path) {
  Fd top = WARREN_TRY(open_host_dir(path));
  return std::unique_ptr<HostTree>(new HostTree(std::move(top)));
}

Status HostTree::lock() {
  if (::flock(top_.get(), LOCK_EX | LOCK_NB) == 0) return Ok{};
  if (errno == EWOULDBLOCK) return Error(Code::kBusy, "another apply to the same directory is under way");
  return system_error(errno, "lock the directory");
}

Result<int> HostTree::open_dir(std::string_view dir) {
  while (dir.starts_with('/')) dir.remove_prefix(1);
  if (dir.empty()) return top_.get();
  auto known = dirs_.find(dir);
  if (known != dirs_.end()) return known->second.get();
  Fd fd = WARREN_TRY(open_deep(top_.get(), dir));
  if (dirs_.size() >= kOpenDirs) dirs_.clear();
  int number = fd.get();
  dirs_.emplace(dir, std::move(fd));
  return number;
}

Result<HostTree::Place> HostTree::place(std::string_view path) {
  SplitParent parts = split_parent(path);
  WARREN_TRY(check_name(parts.name));
  int dir = WARREN_TRY(open_dir(parts.parent));
  return Place{dir, std::string(parts.name)};
}

Result<std::optional<struct stat>> HostTree::find(std::string_view path) {
  struct stat info {};
  if (path == "/") {
    if (::fstat(top_.get(), &info) != 0) return failed("stat", path);
    return std::optional(info);
  }
  Result<Place> at = place(path);
  if (!at.ok()) {
    Code code = at.error().code();
    bool is_missing = code == Code::kNotFound || code == Code::kNotDirectory || code == Code::kLoop;
    if (is_missing) return std::optional<struct stat>();
    return std::move(at).take_error();
  }
  if (::fstatat(at->dir, at->name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return std::optional(info);
  if (errno == ENOENT) return std::optional<struct stat>();
  return failed("stat", path);
}

Result<struct stat> HostTree::get(std::string_view path) {
  std::optional<struct stat> info = WARREN_TRY(find(path));
  if (!info) return Error(Code::kNotFound, fmt::format("{} does not exist", quote(path)));
  return *info;
}

Result<std::uint64_t> HostTree::get_mount(std::string_view path) {
  Place at{top_.get(), ""};
  if (path != "/") at = WARREN_TRY(place(path));
  struct statx info {};
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;
  if (::statx(at.dir, at.name.c_str(), flags, STATX_MNT_ID, &info) != 0) return failed("stat", path);
  return std::uint64_t{info.stx_mnt_id};
}

Status HostTree::check_writable(std::string_view dir) {
  int at = WARREN_TRY(open_dir(dir));
  if (::faccessat(at, ".", W_OK | X_OK, AT_EACCESS) != 0) return failed("write to", dir);
  return Ok{};
}

Status HostTree::rename(std::string_view from, std::string_view to, HostReplace replace) {
  struct stat info = WARREN_TRY(get(from));
  if (dirs_.size() + 2 > kOpenDirs) dirs_.clear();  // else opening the second could close the first
  Place source = WARREN_TRY(place(from));
  Place target = WARREN_TRY(place(to));
  unsigned flags = replace == HostReplace::kYes ? 0U : static_cast<unsigned>(RENAME_NOREPLACE);
  int done = ::renameat2(source.dir, source.name.c_str(), target.dir, target.name.c_str(), flags);
  if (done != 0 && errno == EINVAL && flags != 0) {
    // This filesystem does not support it. We check first; nobody else is expected to write here.
    struct stat there {};
    if (::fstatat(target.dir, target.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) errno = EEXIST;
    else done = ::renameat(source.dir, source.name.c_str(), target.dir, target.name.c_str());
  }
  if (done != 0) return failed("move to", to);
  if (S_ISDIR(info.st_mode)) dirs_.clear();
  return Ok{};
}

Status HostTree::exchange(std::string_view a, std::string_view b) {
  if (dirs_.size() + 2 > kOpenDirs) dirs_.clear();  // else opening the second could close the first
  Place first = WARREN_TRY(place(a));
  Place second = WARREN_TRY(place(b));
  int done = ::renameat2(first.dir, first.name.c_str(), second.dir, second.name.c_str(), RENAME_EXCHANGE);
  if (done != 0 && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
    return Error(Code::kUnsupported, fmt::format("{}: this filesystem cannot exchange names", quote(b)));
  }
  if (done != 0) return failed("exchange", b);
  dirs_.clear();  // either may be a directory
  return Ok{};
}

Status HostTree::link(std::string_view from, std::string_view to) {
  if (dirs_.size() + 2 > kOpenDirs) dirs_.clear();
  Place source = WARREN_TRY(place(from));
  Place target = WARREN_TRY(place(to));
  if (::linkat(source.dir, source.name.c_str(), target.dir, target.name.c_str(), 0) == 0) return Ok{};
  return failed("link", to);
}

Status HostTree::make_dir(std::string_view path, std::uint32_t mode) {
  Place at = WARREN_TRY(place(path));
  if (::mkdirat(at.dir, at.name.c_str(), mode) == 0) return Ok{};
  return failed("make directory", path);
}

Status HostTree::make_symlink(std::string_view path, std::string_view target) {
  Place at = WARREN_TRY(place(path));
  if (::symlinkat(std::string(target).c_str(), at.dir, at.name.c_str()) == 0) return Ok{};
  return failed("make link", path);
}

Status HostTree::make_special(std::string_view path, std::uint32_t mode, std::uint64_t rdev) {
  Place at = WARREN_TRY(place(path));
  if (::mknodat(at.dir, at.name.c_str(), mode, static_cast<dev_t>(rdev)) == 0) return Ok{};
  return failed("make", path);
}

Result<Fd> HostTree::create_file(std::string_view path) {
  Place at = WARREN_TRY(place(path));
  Fd fd(::openat(at.dir, at.name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.is_open()) return failed("make", path);
  return fd;
}

Result<Fd> HostTree::open_file(std::string_view path, int flags) {
  Place at = WARREN_TRY(place(path));
  // O_NONBLOCK: do not wait if a pipe has taken the file's place.
  Fd fd(::openat(at.dir, at.name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open()) return failed("open", path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return failed("stat", path);
  if (!S_ISREG(info.st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(path)));
  return fd;
}

Result<Fd> HostTree::open_despite_mode(std::string_view path, int access) {
  Result<Fd> plain = open_file(path, access);
  if (plain.ok() || plain.error().code() != Code::kDenied) return plain;
  Place at = WARREN_TRY(place(path));
  Fd node(::openat(at.dir, at.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  bool is_own = node.is_open() && ::fstat(node.get(), &info) == 0 && info.st_uid == ::geteuid();
  if (!is_own || !S_ISREG(info.st_mode)) return plain;
  std::string direct = fmt::format("/proc/self/fd/{}", node.get());
  if (::chmod(direct.c_str(), (info.st_mode & 07777U) | 0600U) != 0) return failed("set the mode of", path);
  Fd fd(::open(direct.c_str(), access | O_CLOEXEC));
  Error why = failed("open", path);
  if (::chmod(direct.c_str(), info.st_mode & 07777U) != 0) return failed("set the mode of", path);
  if (!fd.is_open()) return why;
  return fd;
}

Status HostTree::check_overwritable(std::string_view path) {
  Result<Fd> fd = open_file(path, O_RDWR);
  if (fd.ok()) return Ok{};
  struct stat info = WARREN_TRY(get(path));
  bool is_mode = fd.error().code() == Code::kDenied && S_ISREG(info.st_mode) && info.st_uid == ::geteuid();
  if (is_mode) return Ok{};
  return std::move(fd).take_error();
}

Result<std::string> HostTree::read_link(std::string_view path) {
  Place at = WARREN_TRY(place(path));
  return read_host_link_below(at.dir, at.name);
}

Status HostTree::remove_file(std::string_view path) {
  Place at = WARREN_TRY(place(path));
  if (::unlinkat(at.dir, at.name.c_str(), 0) == 0) return Ok{};
  return failed("remove", path);
}

Status HostTree::remove_dir(std::string_view path) {
  dirs_.clear();
  Place at = WARREN_TRY(place(path));
  if (::unlinkat(at.dir, at.name.c_str(), AT_REMOVEDIR) == 0) return Ok{};
  return failed("remove directory", path);
}

Status HostTree::remove_tree(std::string_view path) {
  std::optional<struct stat> info = WARREN_TRY(find(path));
  if (!info) return Ok{};
  if (!S_ISDIR(info->st_mode)) return remove_file(path);
  // A stack of directories: each is emptied, then removed on the second visit.
  std::vector<std::pair<std::string, bool>> pending{{std::string(path), false}};
  while (!pending.empty()) {
    auto [dir, is_emptied] = pending.back();
    if (is_emptied) {
      pending.pop_back();
      WARREN_TRY(remove_dir(dir));
      continue;
    }
    pending.back().second = true;
    int fd = WARREN_TRY(open_dir(dir));
    // A directory that even its owner may not write to could not be emptied otherwise.
    if (::faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) != 0) (void)::fchmod(fd, 0700);
    std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(fd));
    for (const HostEntry& entry : entries) {
      std::string child = join_path(dir, entry.name);
      if (S_ISDIR(entry.attributes.st_mode)) pending.emplace_back(std::move(child), false);
      else WARREN_TRY(remove_file(child));
    }
  }
  return Ok{};
}

Result<HostTree::TreeDigest> HostTree::digest(std::string_view path, const std::unordered_set<std::string>& skipped,
                                              DigestContent content) {
  struct stat info = WARREN_TRY(get(path));
  TreeDigest digest{.value = kDigestStart, .nodes = 1};
  auto add = [&](const void* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      digest.value = (digest.value ^ static_cast<const unsigned char*>(data)[i]) * kDigestPrime;
    }
  };
  auto add_node = [&](const std::string& at, const struct stat& node) -> Status {
    HostNode known = HostNode::of(node);
    std::optional<std::uint64_t> inside;
    if (content == DigestContent::kYes) inside = WARREN_TRY(digest_content(at, node));
    std::uint64_t numbers[] = {node.st_mode, known.size, static_cast<std::uint64_t>(known.mtime.seconds),
                               static_cast<std::uint64_t>(known.mtime.nanoseconds)};
    std::uint64_t written[] = {node.st_mode, inside.value_or(0)};
    if (inside) add(written, sizeof written);
    else add(numbers, sizeof numbers);
    return Ok{};
  };
  WARREN_TRY(add_node(std::string(path), info));
  std::vector<std::string> pending;
  if (S_ISDIR(info.st_mode)) pending.emplace_back(path);
  while (!pending.empty()) {
    std::string dir = std::move(pending.back());
    pending.pop_back();
    int fd = WARREN_TRY(open_dir(dir));
    std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(fd).within(quote(dir)));
    for (const HostEntry& entry : entries) {
      std::string child = join_path(dir, entry.name);
      if (!skipped.empty() && skipped.contains(child)) continue;
      ++digest.nodes;
      add(entry.name.data(), entry.name.size() + 1);
      WARREN_TRY(add_node(child, entry.attributes));
      if (S_ISDIR(entry.attributes.st_mode)) pending.push_back(std::move(child));
    }
  }
  if (digest.value == 0) digest.value = 1;
  return digest;
}

Result<HostTree::TreeDigest> HostTree::digest_tree(std::string_view path,
                                                   const std::unordered_set<std::string>& skipped) {
  return digest(path, skipped, DigestContent::kNo);
}

Result<std::uint64_t> HostTree::fingerprint_tree(std::string_view path,
                                                 const std::unordered_set<std::string>& skipped) {
  TreeDigest whole = WARREN_TRY(digest(path, skipped, DigestContent::kYes));
  return whole.value;
}

Result<std::optional<std::uint64_t>> HostTree::digest_content(const std::string& path, const struct stat& node) {
  std::uint64_t value = kDigestStart;
  if (S_ISLNK(node.st_mode)) {
    std::string target = WARREN_TRY(read_link(path));
    for (char c : target) value = (value ^ static_cast<unsigned char>(c)) * kDigestPrime;
    return std::optional(value);
  }
  if (!S_ISREG(node.st_mode)) return std::optional(value);
  Result<Fd> fd = open_file(path, O_RDONLY);
  if (!fd.ok() && fd.error().code() == Code::kDenied) return std::optional<std::uint64_t>();
  Fd file = WARREN_TRY(std::move(fd));
  value = WARREN_TRY(digest_host_content(file.get()).within(quote(path)));
  return std::optional(value);
}

Status HostTree::sync_dir(std::string_view path) {
  int fd = WARREN_TRY(open_dir(path));
  if (::fsync(fd) == 0) return Ok{};
  return failed("sync", path);
}

Status HostTree::sync_all(std::string_view dir) {
  int fd = WARREN_TRY(open_dir(dir));
  if (::syncfs(fd) == 0) return Ok{};
  return system_error(errno, "sync the filesystem");
}

Result<HostMetadata> HostTree::get_metadata(std::string_view path) {
  struct stat info = WARREN_TRY(get(path));
  HostMetadata metadata{.mode = info.st_mode & 07777U,
                        .uid = info.st_uid,
                        .gid = info.st_gid,
                        .atime = timestamp_of(info.st_atim),
                        .mtime = timestamp_of(info.st_mtim),
                        .xattrs = {}};
  std::string link = fmt::format("/proc/self/fd/{}", top_.get());
  if (path != "/") {
    Place at = WARREN_TRY(place(path));
    link = fmt::format("/proc/self/fd/{}/{}", at.dir, at.name);
  } else {
    link += "/.";
  }
  std::string names(limits::kXattrValueBytes, '\0');
  ssize_t length = ::llistxattr(link.c_str(), names.data(), names.size());
  std::string_view rest = std::string_view(names).substr(0, length < 0 ? 0 : static_cast<std::size_t>(length));
  while (!rest.empty()) {
    std::string name(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    std::string value(limits::kXattrValueBytes, '\0');
    ssize_t size = ::lgetxattr(link.c_str(), name.c_str(), value.data(), value.size());
    if (size < 0) continue;
    value.resize(static_cast<std::size_t>(size));
    metadata.xattrs.emplace(std::move(name), std::move(value));
  }
  return metadata;
}

Status HostTree::set_xattrs(const std::string& link, const HostXattrs& to, std::string_view path) {
  HostMetadata now = WARREN_TRY(get_metadata(path));
  for (const auto& [name, value] : now.xattrs) {
    if (to.contains(name) || is_foreign_xattr(name)) continue;
    if (::lremovexattr(link.c_str(), name.c_str()) != 0 && errno != ENODATA)
      return failed("remove an attribute of", path);
  }
  for (const auto& [name, value] : to) {
    auto there = now.xattrs.find(name);
    if (there != now.xattrs.end() && there->second == value) continue;
    if (::lsetxattr(link.c_str(), name.c_str(), value.data(), value.size(), 0) == 0) continue;
    if (is_foreign_xattr(name) || errno == ENOTSUP) continue;
    return failed("set an attribute of", path);
  }
  return Ok{};
}

Result<bool> HostTree::set_metadata(std::string_view path, const HostMetadata& to) {
  struct stat info = WARREN_TRY(get(path));
  Place at{top_.get(), "."};
  if (path != "/") at = WARREN_TRY(place(path));
  bool is_owned = info.st_uid == to.uid && info.st_gid == to.gid;
  if (!is_owned && ::fchownat(at.dir, at.name.c_str(), to.uid, to.gid, AT_SYMLINK_NOFOLLOW) == 0) is_owned = true;
  else if (!is_owned && errno != EPERM && errno != EINVAL) return failed("set the owner of", path);
  std::string link = fmt::format("/proc/self/fd/{}/{}", at.dir, at.name);
  WARREN_TRY(set_xattrs(link, to.xattrs, path));
  if (!S_ISLNK(info.st_mode)) {
    std::uint32_t mode = is_owned ? to.mode : to.mode & ~06000U;
    // Through a descriptor of the node itself: the name may have become a link meanwhile.
    Fd node(::openat(at.dir, at.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat found {};
    bool is_same = node.is_open() && ::fstat(node.get(), &found) == 0 && found.st_ino == info.st_ino;
    if (!is_same) return Error(Code::kConflict, fmt::format("{} was replaced meanwhile", quote(path)));
    std::string direct = fmt::format("/proc/self/fd/{}", node.get());
    if (::chmod(direct.c_str(), mode) != 0) return failed("set the mode of", path);
  }
  timespec times[2] = {host_time(to.atime), host_time(to.mtime)};
  if (::utimensat(at.dir, at.name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) return failed("set the times of", path);
  return is_owned;
}

Result<std::uint64_t> digest_host_content(int fd) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(errno, "stat a file");
  std::uint64_t value = kDigestStart;
  std::size_t words = static_cast<std::size_t>(info.st_size) / kWord + 2;  // more than the file has
  std::string buffer(std::min(limits::kCopyBytes, words * kWord), '\0');
  for (off_t at = 0;;) {
    off_t data = ::lseek(fd, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    if (data > at) at = data - data % static_cast<off_t>(kWord);
    ssize_t count = ::pread(fd, buffer.data(), buffer.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "read a file");
    if (count == 0) break;
    auto size = static_cast<std::size_t>(count);
    if (size > kWord && size < buffer.size()) size -= size % kWord;  // the rest is read again
    for (std::size_t i = 0; i < size; i += kWord) {
      std::uint64_t word = 0;
      std::memcpy(&word, buffer.data() + i, std::min(kWord, size - i));
      if (word == 0) continue;
      value = (value ^ (static_cast<std::uint64_t>(at) + i)) * kDigestPrime;
      value = (value ^ word ^ (value >> 29U)) * kDigestPrime;
    }
    at += static_cast<off_t>(size);
  }
  return value;
}

Result<bool> is_copy_of(int file, int source) {
  struct stat info {};
  struct stat whole {};
  if (::fstat(file, &info) != 0 || ::fstat(source, &whole) != 0) return system_error(errno, "stat a file");
  if (info.st_size == 0) return true;
  if (info.st_size != whole.st_size) return false;
  std::string there(limits::kCopyBytes, '\0');
  std::string expected(limits::kCopyBytes, '\0');
  const std::string zeros(kPageBytes, '\0');
  for (off_t at = 0; at < info.st_size;) {
    std::size_t count = WARREN_TRY(read_part(file, at, there));
    std::size_t wanted = WARREN_TRY(read_part(source, at, expected));
    if (count != wanted || count == 0) return false;
    for (std::size_t i = 0; i < count; i += kPageBytes) {
      std::size_t size = std::min(kPageBytes, count - i);
      std::string_view page = std::string_view(there).substr(i, size);
      bool is_known =
          page == std::string_view(expected).substr(i, size) || page == std::string_view(zeros).substr(0, size);
      if (!is_known) return false;
    }
    at += static_cast<off_t>(count);
  }
  return true;
}

Result<std::uint64_t> copy_host_content(int from, int to) {
  struct stat info {};
  if (::fstat(from, &info) != 0) return system_error(errno, "stat a file");
  if (::ftruncate(to, 0) != 0 || ::ftruncate(to, info.st_size) != 0) return system_error(errno, "set the size");
  std::string buffer(limits::kCopyBytes, '\0');
  off_t at = 0;
  while (at < info.st_size) {
    off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    if (data > at) at = data;
    ssize_t count = ::pread(from, buffer.data(), buffer.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "read a file");
    if (count == 0) break;
    for (ssize_t done = 0; done < count;) {
      ssize_t put = ::pwrite(to, buffer.data() + done, static_cast<std::size_t>(count - done), at + done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return system_error(errno, "write a file");
      done += put;
    }
    at += count;
  }
  return static_cast<std::uint64_t>(info.st_size);
}

}  // namespace warren
