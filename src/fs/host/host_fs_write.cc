// The changing calls of a HostFs that may be written to (HostFsOptions::is_writable).
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/host/host_fs.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::uint32_t kModeBits = 0777;  // no set-user-id bits: what is written here is used outside

Error only_files() {
  return {Code::kNotPermitted, "this folder takes only regular files and directories, with one name each"};
}

unsigned rename_flags(RenameMode mode) {
  switch (mode) {
    case RenameMode::kReplace: return 0;
    case RenameMode::kNoReplace: return RENAME_NOREPLACE;
    case RenameMode::kExchange: return RENAME_EXCHANGE;
  }
  return 0;
}

constexpr std::uint64_t kBlockBytes = 4096;

std::uint64_t whole_blocks(std::uint64_t bytes) {
  return bytes > std::numeric_limits<std::uint64_t>::max() - kBlockBytes
             ? bytes
             : (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

std::uint64_t bytes_on_disk(const struct stat& info) { return static_cast<std::uint64_t>(info.st_blocks) * 512; }

timespec as_timespec(const std::optional<SetTime>& time) {
  if (!time) return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
  if (!time->at) return {.tv_sec = 0, .tv_nsec = UTIME_NOW};
  return {.tv_sec = time->at->seconds, .tv_nsec = time->at->nanoseconds};
}

}  // namespace

// Root writes for whoever owns the folder.
Status HostFs::give_to_owner(int fd) const {
  if (::geteuid() != 0) return Ok{};
  struct stat folder {};
  if (::fstat(root_.get(), &folder) == 0 && ::fchown(fd, folder.st_uid, folder.st_gid) == 0) return Ok{};
  return system_error(errno, "set the owner of a new file");
}

// Counts what is added, and looks again when the rest is used up: others add and remove files too.
Status HostFs::take_space(std::uint64_t bytes, std::uint64_t nodes) {
  constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
  if (bytes_max_ == kAny && nodes_max_ == kAny) return Ok{};
  for (bool is_measured : {false, true}) {
    if (is_measured) {
      Usage used = WARREN_TRY(measure());
      std::lock_guard guard(space_mutex_);
      left_ = {.bytes = bytes_max_ - std::min(bytes_max_, used.bytes),
               .nodes = nodes_max_ - std::min(nodes_max_, used.nodes)};
    }
    std::lock_guard guard(space_mutex_);
    if (bytes > left_.bytes || nodes > left_.nodes) continue;
    left_.bytes -= bytes;
    left_.nodes -= nodes;
    return Ok{};
  }
  return Error(Code::kNoSpace,
               fmt::format("the folder is full: it may have {} bytes and {} files", bytes_max_, nodes_max_),
               "remove what is not needed any more");
}

Result<HostFs::Usage> HostFs::measure() {
  Usage used;
  WARREN_TRY(for_each_below([&](int, const HostEntry& entry) -> Status {
    used.bytes += bytes_on_disk(entry.attributes);
    ++used.nodes;
    return Ok{};
  }));
  std::vector<FdPtr> open;
  {
    std::lock_guard guard(mutex_);
    open = files_.list();
  }
  for (const FdPtr& fd : open) {
    struct stat info {};
    bool is_deleted = ::fstat(fd->get(), &info) == 0 && info.st_nlink == 0;
    if (is_deleted) used.bytes += bytes_on_disk(info);
  }
  return used;
}

// Everything in the folder. What is moved away meanwhile is left out.
Status HostFs::for_each_below(const std::function<Status(int dir, const HostEntry& entry)>& visit) const {
  std::vector<std::string> pending{""};
  while (!pending.empty()) {
    std::string dir = std::move(pending.back());
    pending.pop_back();
    Result<Fd> fd = open_host_dir_below(root_.get(), dir);
    bool is_gone = !fd.ok() && (fd.error().code() == Code::kNotFound || fd.error().code() == Code::kNotDirectory);
    if (is_gone) continue;
    Fd open = WARREN_TRY(std::move(fd));
    std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(open.get()));
    for (const HostEntry& entry : entries) {
      WARREN_TRY(visit(open.get(), entry));
      if (S_ISDIR(entry.attributes.st_mode)) pending.push_back(dir.empty() ? entry.name : dir + "/" + entry.name);
    }
  }
  return Ok{};
}

Result<Attributes> HostFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  if (!is_writable_) return read_only();
  WARREN_TRY(check_name(name));
  bool is_file = (node.mode & S_IFMT) == 0 || (node.mode & S_IFMT) == S_IFREG;
  if (!is_file) return only_files();
  WARREN_TRY(take_space(0, 1));
  std::lock_guard guard(mutex_);
  sweep();
  NodePtr dir = WARREN_TRY(find_dir(parent));
  FdPtr fd = WARREN_TRY(open_dir_fd(dir));
  std::string text(name);
  Fd made(::openat(fd->get(), text.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!made.is_open()) return system_error(errno, fmt::format("make {}", quote(name)));
  Status set = give_to_owner(made.get());
  if (set.ok() && ::fchmod(made.get(), node.mode & kModeBits) != 0) set = system_error(errno, "set a mode");
  Result<HostStat> info = set.ok() ? stat_at(made.get(), "") : Result<HostStat>(set.error());
  if (!info.ok()) {
    ::unlinkat(fd->get(), text.c_str(), 0);
    return std::move(info).take_error();
  }
  NodePtr known = know(dir, name, *info);
  files_.add(known->number, std::move(made));
  return shown(known, *info);
}

Result<Attributes> HostFs::create(Inode parent, std::string_view name, const NewNode& node) {
  Attributes made = WARREN_TRY(make_node(parent, name, node));
  WARREN_TRY(retain(made.inode));
  return made;
}

Result<Attributes> HostFs::make_dir(Inode parent, std::string_view name, const NewNode& node) {
  if (!is_writable_) return read_only();
  WARREN_TRY(check_name(name));
  WARREN_TRY(take_space(kBlockBytes, 1));
  std::lock_guard guard(mutex_);
  NodePtr dir = WARREN_TRY(find_dir(parent));
  FdPtr fd = WARREN_TRY(open_dir_fd(dir));
  std::string text(name);
  if (::mkdirat(fd->get(), text.c_str(), 0700) != 0) return system_error(errno, fmt::format("make {}", quote(name)));
  auto finish = [&]() -> Result<HostStat> {
    Fd made(::openat(fd->get(), text.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!made.is_open()) return system_error(errno, fmt::format("open {}", quote(name)));
    WARREN_TRY(give_to_owner(made.get()));
    if (::fchmod(made.get(), node.mode & kModeBits) != 0) return system_error(errno, "set a mode");
    return stat_at(made.get(), "");
  };
  Result<HostStat> info = finish();
  if (!info.ok()) {
    ::unlinkat(fd->get(), text.c_str(), AT_REMOVEDIR);
    return std::move(info).take_error();
  }
  return shown(know(dir, name, *info), *info);
}

Result<Attributes> HostFs::make_symlink(Inode, std::string_view, std::string_view, Owner) {
  return is_writable_ ? only_files() : read_only();
}

Result<Attributes> HostFs::link(Inode, Inode, std::string_view) { return is_writable_ ? only_files() : read_only(); }

Status HostFs::remove_name(Inode parent, std::string_view name, int flags) {
  if (!is_writable_) return read_only();
  WARREN_TRY(check_name(name));
  std::lock_guard guard(mutex_);
  NodePtr dir = WARREN_TRY(find_dir(parent));
  FdPtr fd = WARREN_TRY(open_dir_fd(dir));
  if (::unlinkat(fd->get(), std::string(name).c_str(), flags) == 0) return Ok{};
  return system_error(errno, fmt::format("remove {}", quote(name)));
}

Status HostFs::unlink(Inode parent, std::string_view name) { return remove_name(parent, name, 0); }
Status HostFs::remove_dir(Inode parent, std::string_view name) { return remove_name(parent, name, AT_REMOVEDIR); }

Status HostFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                      RenameMode mode) {
  if (!is_writable_) return read_only();
  WARREN_TRY(check_name(name));
  WARREN_TRY(check_name(new_name));
  std::lock_guard guard(mutex_);
  NodePtr from = WARREN_TRY(find_dir(parent));
  NodePtr to = WARREN_TRY(find_dir(new_parent));
  FdPtr from_fd = WARREN_TRY(open_dir_fd(from));
  FdPtr to_fd = WARREN_TRY(open_dir_fd(to));
  std::string old_text(name);
  std::string new_text(new_name);
  HostStat moved = WARREN_TRY(stat_at(from_fd->get(), old_text.c_str()));
  Result<HostStat> other = stat_at(to_fd->get(), new_text.c_str());
  if (::renameat2(from_fd->get(), old_text.c_str(), to_fd->get(), new_text.c_str(), rename_flags(mode)) != 0) {
    return system_error(errno, fmt::format("rename {} to {}", quote(name), quote(new_name)));
  }
  know(to, new_name, moved);
  if (mode == RenameMode::kExchange && other.ok()) know(from, name, *other);
  return Ok{};
}

Result<Attributes> HostFs::set_attributes(Inode node, const AttributeChanges& changes) {
  if (!is_writable_) return read_only();
  Attributes before = WARREN_TRY(get_attributes(node));
  bool changes_owner =
      (changes.uid && *changes.uid != before.owner.uid) || (changes.gid && *changes.gid != before.owner.gid);
  if (changes_owner || !before.is_file()) return Error(Code::kNotPermitted, "it keeps its owner and its mode here");
  FdPtr fd = WARREN_TRY(open_file(node));
  if (changes.size && ::ftruncate(fd->get(), static_cast<off_t>(*changes.size)) != 0) {
    return system_error(errno, "truncate a file");
  }
  if (changes.mode && ::fchmod(fd->get(), *changes.mode & kModeBits) != 0) return system_error(errno, "set a mode");
  std::array<timespec, 2> times{as_timespec(changes.atime), as_timespec(changes.mtime)};
  bool sets_time = changes.atime || changes.mtime;
  if (sets_time && ::futimens(fd->get(), times.data()) != 0) return system_error(errno, "set times");
  return get_attributes(node);
}

Status HostFs::write(Inode node, std::uint64_t offset, Bytes data) {
  if (!is_writable_) return read_only();
  FdPtr fd = WARREN_TRY(open_file(node));
  WARREN_TRY(take_space(whole_blocks(data.size())));
  std::size_t done = 0;
  while (done < data.size()) {
    ssize_t put = ::pwrite(fd->get(), data.data() + done, data.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error(errno, "write to a file");
    done += static_cast<std::size_t>(put);
  }
  return Ok{};
}

Result<std::uint64_t> HostFs::append(Inode node, Bytes data) {
  if (!is_writable_) return read_only();
  std::lock_guard guard(append_mutex_);
  FdPtr fd = WARREN_TRY(open_file(node));
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return system_error(errno, "stat a file");
  WARREN_TRY(write(node, static_cast<std::uint64_t>(info.st_size), data));
  return static_cast<std::uint64_t>(info.st_size);
}

Status HostFs::allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  if (!is_writable_) return read_only();
  FdPtr fd = WARREN_TRY(open_file(node));
  if (mode != AllocateMode::kPunchHole) WARREN_TRY(take_space(whole_blocks(length)));
  int how = 0;
  if (mode == AllocateMode::kKeepSize) how = FALLOC_FL_KEEP_SIZE;
  if (mode == AllocateMode::kPunchHole) how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (mode == AllocateMode::kZeroRange) how = FALLOC_FL_ZERO_RANGE;
  if (mode == AllocateMode::kZeroRangeKeepSize) how = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
  if (::fallocate(fd->get(), how, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0) return Ok{};
  return system_error(errno, "allocate space for a file");
}

Result<std::uint64_t> HostFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                         std::uint64_t length) {
  if (!is_writable_) return read_only();
  FdPtr source = WARREN_TRY(open_file(from));
  FdPtr target = WARREN_TRY(open_file(to));
  struct stat whole {};
  if (::fstat(source->get(), &whole) != 0) return system_error(errno, "stat a file");
  std::uint64_t size = static_cast<std::uint64_t>(whole.st_size);
  length = std::min(length, size - std::min(size, from_offset));
  WARREN_TRY(take_space(whole_blocks(length)));
  auto in = static_cast<off64_t>(from_offset);
  auto out = static_cast<off64_t>(to_offset);
  std::uint64_t done = 0;
  while (done < length) {
    std::size_t step = static_cast<std::size_t>(std::min<std::uint64_t>(length - done, limits::kCopyBytes));
    ssize_t copied = ::copy_file_range(source->get(), &in, target->get(), &out, step, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0) return system_error(errno, "copy between files");
    if (copied == 0) break;
    done += static_cast<std::uint64_t>(copied);
  }
  return done;
}

// Also of a file that the host has moved away: the relay may have taken the message before its program syncs it.
Status HostFs::sync(Inode node) {
  if (!is_writable_) return Ok{};
  if (node == kRootInode) return sync_tree();
  Fd dir;
  {
    std::lock_guard guard(mutex_);
    NodePtr found = WARREN_TRY(find_node(node));
    if (found->type == S_IFDIR) {
      FdPtr path = WARREN_TRY(open_dir_fd(found));
      dir = Fd(::openat(path->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!dir.is_open()) return system_error(errno, "open a directory");
    }
  }
  if (dir.is_open()) return ::fsync(dir.get()) == 0 ? Status(Ok{}) : Status(system_error(errno, "sync a directory"));
  FdPtr fd = WARREN_TRY(open_file(node));
  return ::fsync(fd->get()) == 0 ? Status(Ok{}) : Status(system_error(errno, "sync a file"));
}

// The folder alone: an agent must not be able to make the host sync its whole disk again and again.
Status HostFs::sync_tree() const {
  WARREN_TRY(for_each_below([](int dir, const HostEntry& entry) -> Status {
    bool is_dir = S_ISDIR(entry.attributes.st_mode);
    if (!is_dir && !S_ISREG(entry.attributes.st_mode)) return Ok{};
    Fd fd(::openat(dir, entry.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd.is_open()) return Ok{};  // moved away, or its mode forbids it
    return ::fsync(fd.get()) == 0 ? Status(Ok{}) : Status(system_error(errno, "sync a file"));
  }));
  Fd root(::openat(root_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return system_error(errno, "open a directory");
  return ::fsync(root.get()) == 0 ? Status(Ok{}) : Status(system_error(errno, "sync a directory"));
}

Status HostFs::set_xattr(Inode, std::string_view, Bytes, XattrMode) {
  return is_writable_ ? Error(Code::kUnsupported, "files here have no attributes of their own") : read_only();
}
Status HostFs::remove_xattr(Inode, std::string_view) {
  return is_writable_ ? Error(Code::kUnsupported, "files here have no attributes of their own") : read_only();
}

}  // namespace warren
