#include "os/files/host_files.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/dir_reader.h"

namespace warren {
namespace {

Result<std::optional<struct stat>> found(int result, const struct stat& attributes, std::string_view path) {
  if (result == 0) return std::optional(attributes);
  if (errno == ENOENT || errno == ENOTDIR) return std::optional<struct stat>();
  return system_error(errno, fmt::format("stat {}", quote(path)));
}

}  // namespace

Result<std::optional<struct stat>> find_host_file(const std::string& path) {
  struct stat attributes {};
  return found(::stat(path.c_str(), &attributes), attributes, path);
}

Result<std::optional<struct stat>> find_host_link(const std::string& path) {
  struct stat attributes {};
  return found(::lstat(path.c_str(), &attributes), attributes, path);
}

Result<std::string> canonical_host_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return system_error(errno, fmt::format("resolve {}", quote(path)));
  std::string out(resolved);
  std::free(resolved);  // NOLINT: realpath's memory
  return out;
}

Result<std::string> read_host_file(const std::string& path, std::size_t size_bytes_max) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  std::string content;
  std::size_t done = 0;
  for (;;) {
    content.resize(done + 65536);
    std::size_t count = WARREN_TRY(read_full(fd.get(), as_mutable_bytes(content).subspan(done)).within(quote(path)));
    done += count;
    if (done > size_bytes_max) {
      return Error(Code::kTooLarge, fmt::format("{} has more than {} bytes", quote(path), size_bytes_max));
    }
    if (count < 65536) break;
  }
  content.resize(done);
  return content;
}

Status replace_host_file(const std::string& path, std::string_view content, std::uint32_t mode) {
  std::string draft = path + ".XXXXXX";
  Fd fd(::mkostemp(draft.data(), O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, fmt::format("write {}", quote(path)));
  Status done = write_all(fd.get(), as_bytes(content));
  if (done.ok() && ::fchmod(fd.get(), mode) != 0) done = system_error(errno, "set the mode");
  if (done.ok() && ::fsync(fd.get()) != 0) done = system_error(errno, "sync");
  if (done.ok() && ::rename(draft.c_str(), path.c_str()) != 0) done = system_error(errno, "rename");
  if (!done.ok()) ::unlink(draft.c_str());
  return std::move(done).within(fmt::format("write {}", quote(path)));
}

Status publish_host_file(const std::string& draft, const std::string& path) {
  // Some filesystems cannot rename without replacing; a hard link never replaces either.
  bool renamed = ::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0;
  if (!renamed && errno == EINVAL) renamed = ::link(draft.c_str(), path.c_str()) == 0 && ::unlink(draft.c_str()) == 0;
  if (!renamed && errno == EEXIST) return Error(Code::kExists, fmt::format("{} exists already", quote(path)));
  if (!renamed) return system_error(errno, fmt::format("make {}", quote(path)));
  return sync_host_dir(std::string(directory_of(path)));
}

Status sync_host_dir(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open() || ::fsync(fd.get()) != 0) return system_error(errno, fmt::format("sync {}", quote(path)));
  return Ok{};
}

Status make_host_dirs(const std::string& path, std::uint32_t mode) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      return system_error(errno, fmt::format("make directory {}", quote(part)));
    }
    if (end == path.npos) break;
  }
  std::optional<struct stat> there = WARREN_TRY(find_host_file(path));
  if (!there || !S_ISDIR(there->st_mode)) {
    return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(path)));
  }
  return Ok{};
}

Result<bool> remove_host_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  return system_error(errno, fmt::format("remove {}", quote(path)));
}

Status change_host_directory(const std::string& path) {
  if (::chdir(path.c_str()) == 0) return Ok{};
  return system_error(errno, fmt::format("change directory to {}", quote(path)));
}

Result<std::vector<HostEntry>> list_host_dir(int dir) {
  DirReader reader = WARREN_TRY(DirReader::open(dir));
  std::vector<HostEntry> entries;
  while (const DirReader::Entry* found = WARREN_TRY(reader.next())) {
    HostEntry entry{std::string(found->name), {}};
    if (::fstatat(dir, entry.name.c_str(), &entry.attributes, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return system_error(errno, fmt::format("stat {}", quote(entry.name)));
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

Result<Fd> open_host_dir(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, fmt::format("open directory {}", quote(path)));
  return fd;
}

Result<Fd> open_host_dir_below(int dir, std::string_view relative) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Fd current(::openat(dir, ".", kFlags));
  if (!current.is_open()) return system_error(errno, "open the directory");
  while (!relative.empty()) {
    std::size_t end = relative.find('/');
    std::string name(relative.substr(0, end));
    relative = end == relative.npos ? std::string_view() : relative.substr(end + 1);
    WARREN_TRY(check_name(name));
    Fd next(::openat(current.get(), name.c_str(), kFlags));
    if (!next.is_open())
      return system_error(errno, fmt::format("open directory {} (links are not followed)", quote(name)));
    current = std::move(next);
  }
  return current;
}

Result<Fd> open_host_file_below(int dir, std::string_view name) {
  // O_NONBLOCK: do not wait for a writer if a pipe has taken the file's place.
  Fd fd(::openat(dir, std::string(name).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open() && errno == ELOOP) {
    return Error(Code::kLoop, fmt::format("open {}: it is a symbolic link, which is not followed here", quote(name)));
  }
  if (!fd.is_open()) return system_error(errno, fmt::format("open {}", quote(name)));
  struct stat attributes {};
  if (::fstat(fd.get(), &attributes) != 0) return system_error(errno, fmt::format("stat {}", quote(name)));
  if (!S_ISREG(attributes.st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(name)));
  return fd;
}

Result<std::string> read_host_link_below(int dir, std::string_view name) {
  std::string target(PATH_MAX, '\0');
  ssize_t length = ::readlinkat(dir, std::string(name).c_str(), target.data(), target.size());
  if (length < 0) return system_error(errno, fmt::format("read link {}", quote(name)));
  target.resize(static_cast<std::size_t>(length));
  return target;
}

}  // namespace warren
