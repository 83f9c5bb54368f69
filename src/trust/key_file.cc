#include "trust/key_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kKeyFileBytes = std::size_t{4} << 10;

Status write_new_file(const std::string& path, std::string_view content, mode_t mode) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.is_open() && errno == EEXIST) return Error(Code::kExists, fmt::format("{} exists already", quote(path)));
  if (!file.is_open()) return system_error(errno, fmt::format("make {}", quote(path)));
  Status done = write_all(file.get(), as_bytes(content));
  if (done.ok() && ::fsync(file.get()) != 0) done = system_error(errno, "sync");
  if (!done.ok()) ::unlink(path.c_str());
  return std::move(done).within(fmt::format("write {}", quote(path)));
}

}  // namespace

Result<Ed25519Private> read_key_file(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT)
    return Error(Code::kNotFound, fmt::format("there is no key file {}", quote(path)));
  if (!file.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  struct stat there {};
  if (::fstat(file.get(), &there) != 0) return system_error(errno, fmt::format("look at {}", quote(path)));
  if (!S_ISREG(there.st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a file", quote(path)));
  if ((there.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error(Code::kDenied, fmt::format("the key file {} is open to others", quote(path)),
                 fmt::format("make it yours alone: chmod 600 {}", path));
  }
  std::string text(kKeyFileBytes, '\0');
  std::size_t length = WARREN_TRY(read_full(file.get(), as_mutable_bytes(text)).within(quote(path)));
  text.resize(length);
  Result<Ed25519Private> key = Ed25519Private::parse_pem(text);
  ::explicit_bzero(text.data(), text.size());
  return std::move(key).within(quote(path));
}

Status write_key_files(const std::string& path, const Ed25519Private& key) {
  std::string public_path = path + ".pub";
  for (const std::string& one : {path, public_path}) {
    std::optional<struct stat> there = WARREN_TRY(find_host_link(one));
    if (there) return Error(Code::kExists, fmt::format("{} exists already", quote(one)));
  }
  std::string secret = key.pem();
  Status written = write_new_file(path, secret, 0600);
  ::explicit_bzero(secret.data(), secret.size());
  WARREN_TRY(std::move(written));
  Status published = write_new_file(public_path, key.public_key().text() + "\n", 0644);
  if (published.ok()) return sync_host_dir(std::string(directory_of(path)));
  ::unlink(path.c_str());
  return published;
}

}  // namespace warren
