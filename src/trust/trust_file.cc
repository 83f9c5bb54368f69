#include "trust/trust_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kGrowingBytesMax = TrustState::kBytesMax - (std::size_t{4} << 20);  // revocations always fit

// Whoever can write there decides who is trusted.
Status check_ours(const std::string& path, const struct stat& info) {
  if (S_ISLNK(info.st_mode)) {
    return Error(Code::kDenied,
                 fmt::format("{} is a symbolic link; it decides who is trusted, so it must be a file", quote(path)),
                 "put the file itself there: others may be able to replace what a link names");
  }
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    return Error(Code::kDenied, fmt::format("{} is not a file", quote(path)), "remove it");
  }
  bool is_ours = info.st_uid == ::geteuid() || info.st_uid == 0;
  if (is_ours && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return Ok{};
  return Error(Code::kDenied,
               fmt::format("{} can be written by others, although it decides who is trusted", quote(path)),
               fmt::format("make it yours alone: chmod go-w {}", path));
}

Result<Fd> lock_folder(const std::string& folder) {
  std::string path = folder + "/lock";
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return system_error(errno, fmt::format("lock {}", quote(path)));
  }
  return lock;
}

}  // namespace

Result<TrustState> TrustFile::read() const {
  std::string file = path();
  std::optional<struct stat> there = WARREN_TRY(find_host_link(file));
  if (!there) return TrustState();
  WARREN_TRY(check_ours(file, *there));
  std::optional<struct stat> dir = WARREN_TRY(find_host_file(folder_));
  if (dir) WARREN_TRY(check_ours(folder_, *dir));
  std::string text = WARREN_TRY(read_host_file(file, TrustState::kBytesMax));
  return TrustState::parse(text).within(quote(file));
}

Status TrustFile::change(const std::function<Status(TrustState&)>& change) const {
  WARREN_TRY(make_host_dirs(folder_, 0700));
  std::optional<struct stat> dir = WARREN_TRY(find_host_file(folder_));
  if (dir) WARREN_TRY(check_ours(folder_, *dir));
  Fd lock = WARREN_TRY(lock_folder(folder_));
  TrustState before = WARREN_TRY(read());
  TrustState state = before;
  WARREN_TRY(change(state));
  if (state == before) return Ok{};
  std::string text = state.text();
  bool is_growing = state.manifests.size() + state.keys.size() > before.manifests.size() + before.keys.size();
  if (text.size() > (is_growing ? kGrowingBytesMax : TrustState::kBytesMax)) {
    return Error(Code::kLimit, fmt::format("{} would have {} bytes", quote(path()), text.size()),
                 "revoke agents that are not used any more");
  }
  WARREN_TRY(replace_host_file(path(), text, 0600));
  return sync_host_dir(folder_);
}

bool LiveTrust::Stamp::operator==(const Stamp& other) const {
  auto same = [](const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; };
  return inode == other.inode && size == other.size && folder_mode == other.folder_mode && same(mtime, other.mtime) &&
         same(ctime, other.ctime);
}

Result<std::optional<LiveTrust::Stamp>> LiveTrust::look() const {
  std::optional<struct stat> there = WARREN_TRY(find_host_link(file_.path()));
  if (!there) return std::optional<Stamp>();
  std::optional<struct stat> dir = WARREN_TRY(find_host_file(std::string(directory_of(file_.path()))));
  return std::optional(Stamp{.inode = there->st_ino,
                             .size = there->st_size,
                             .mtime = there->st_mtim,
                             .ctime = there->st_ctim,
                             .folder_mode = dir ? dir->st_mode : 0});
}

Result<LiveTrust::Current> LiveTrust::current() {
  std::lock_guard lock(mutex_);
  std::optional<Stamp> stamp = WARREN_TRY(look());
  if (!is_loaded_ || stamp != stamp_) {
    Result<TrustState> state = file_.read();
    is_loaded_ = true;
    stamp_ = stamp;
    if (state.ok()) {
      problem_.reset();
      current_ = {.state = std::make_shared<const TrustState>(std::move(state).take_value()),
                  .generation = current_.generation + 1};
    } else {
      problem_ = std::move(state).take_error();
    }
  }
  if (problem_) return *problem_;
  return current_;
}

}  // namespace warren
