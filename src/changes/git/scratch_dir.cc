#include "changes/git/scratch_dir.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "os/error.h"

namespace warren {
namespace {

constexpr std::string_view kScratchPrefix = "warren-";
constexpr const char* kScratchLock = "/warren-lock";
constexpr const char* kLockDraft = "/warren-lock.new";

void remove_scratch(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// Under its name, the lock is always held by a process that lives: so it gets the name last.
Result<Fd> make_lock(const std::string& dir) {
  std::string draft = dir + kLockDraft;
  Fd lock(::open(draft.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  bool is_made = lock.is_open() && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0 &&
                 ::rename(draft.c_str(), (dir + kScratchLock).c_str()) == 0;
  if (!is_made) return system_error(errno, "lock a temporary directory");
  return lock;
}

bool is_abandoned(const std::string& dir) {
  struct stat info {};
  bool is_ours = ::lstat(dir.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
  if (!is_ours) return false;
  Fd lock(::open((dir + kScratchLock).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  return lock.is_open() && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

void remove_abandoned(const std::string& parent) {
  std::error_code failed;
  std::filesystem::directory_iterator entry(parent, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    const std::string path = entry->path().string();
    bool may_be = entry->path().filename().string().starts_with(kScratchPrefix);
    if (may_be && is_abandoned(path)) remove_scratch(path);
  }
}

}  // namespace

Result<ScratchDir> ScratchDir::make(std::string_view name) {
  const char* asked = std::getenv("TMPDIR");
  std::string parent = asked != nullptr && asked[0] == '/' ? asked : "/tmp";
  remove_abandoned(parent);
  std::string path = fmt::format("{}/{}{}-XXXXXX", parent, kScratchPrefix, name);
  if (::mkdtemp(path.data()) == nullptr) return system_error(errno, "create a temporary directory");
  Result<Fd> lock = make_lock(path);
  if (lock.ok()) return ScratchDir(std::move(path), std::move(lock).take_value());
  remove_scratch(path);
  return std::move(lock).take_error();
}

ScratchDir::~ScratchDir() {
  if (!path_.empty()) remove_scratch(path_);
}

}  // namespace warren
