#include "os/files/rewrite_file.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/fd.h"

namespace warren {
namespace {

Status give_owner(int fd, const struct stat& as, std::uint32_t& mode) {
  struct stat made {};
  if (::fstat(fd, &made) != 0) return system_error(errno, "get the owner");
  if (made.st_uid != as.st_uid && ::fchown(fd, as.st_uid, as.st_gid) != 0) return system_error(errno, "keep its owner");
  bool is_other_group = made.st_uid == as.st_uid && made.st_gid != as.st_gid;
  if (is_other_group && ::fchown(fd, static_cast<uid_t>(-1), as.st_gid) != 0) mode &= ~070U;
  return Ok{};
}

}  // namespace

Status rewrite_host_file(const std::string& path, std::string_view content, const struct stat& as) {
  std::string draft = path + ".XXXXXX";
  Fd fd(::mkostemp(draft.data(), O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, fmt::format("write {}", quote(path)));
  std::uint32_t mode = as.st_mode & 07777U;
  Status done = give_owner(fd.get(), as, mode);
  if (done.ok()) done = write_all(fd.get(), as_bytes(content));
  if (done.ok() && ::fchmod(fd.get(), mode) != 0) done = system_error(errno, "set the mode");
  if (done.ok() && ::fsync(fd.get()) != 0) done = system_error(errno, "sync");
  if (done.ok() && ::rename(draft.c_str(), path.c_str()) != 0) done = system_error(errno, "rename");
  if (!done.ok()) ::unlink(draft.c_str());
  return std::move(done).within(fmt::format("write {}", quote(path)));
}

}  // namespace warren
