#include "db/named_file.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"

namespace warren {
namespace {

bool is_same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

}  // namespace

std::optional<FileId> find_file_id(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileId{found.st_dev, found.st_ino};
}

Result<NamedFile> NamedFile::open(const std::string& path) {
  Fd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!file.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  return NamedFile(std::move(file), path);
}

NamedFile::Name NamedFile::look() const {
  struct stat ours {};
  struct stat named {};
  if (::fstat(file_.get(), &ours) != 0) return Name::kOurs;
  if (::stat(path_.c_str(), &named) == 0) {
    if (is_same_file(ours, named)) return Name::kOurs;
  } else if (errno != ENOENT && errno != ENOTDIR) {
    return Name::kOurs;
  }
  return ours.st_nlink > 0 ? Name::kMoved : Name::kNone;
}

std::optional<std::string> NamedFile::find_new_name() const {
  std::array<char, 4097> name{};
  ssize_t length = ::readlink(fmt::format("/proc/self/fd/{}", file_.get()).c_str(), name.data(), name.size() - 1);
  struct stat ours {};
  struct stat named {};
  bool leads_to_it =
      length > 0 && ::fstat(file_.get(), &ours) == 0 && ::stat(name.data(), &named) == 0 && is_same_file(ours, named);
  return leads_to_it ? std::optional(std::string(name.data())) : std::nullopt;
}

bool NamedFile::is_open_elsewhere() const {
  struct stat ours {};
  if (::fstat(file_.get(), &ours) != 0) return false;
  std::string own = std::to_string(::getpid());
  std::error_code failed;
  std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc", failed); !failed && at != end; at.increment(failed)) {
    std::string process = at->path().filename();
    if (process == own || process.find_first_not_of("0123456789") != process.npos) continue;
    std::error_code hidden;
    for (std::filesystem::directory_iterator fd(at->path() / "fd", hidden); !hidden && fd != end;
         fd.increment(hidden)) {
      struct stat theirs {};
      if (::stat(fd->path().c_str(), &theirs) == 0 && is_same_file(ours, theirs)) return true;
    }
  }
  return false;
}

void remove_name_of(int file, const std::string& path) {
  struct stat ours {};
  struct stat named {};
  bool leads_to_it = ::fstat(file, &ours) == 0 && ::lstat(path.c_str(), &named) == 0 && is_same_file(ours, named);
  if (leads_to_it) ::unlink(path.c_str());
}

}  // namespace warren
