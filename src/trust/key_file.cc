#include "trust/key_file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/host_files.h"

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
  std::optional<struct stat> there = WARREN_TRY(find_host_file(path));
  if (!there) return Error(Code::kNotFound, fmt::format("there is no key file {}", quote(path)));
  if ((there->st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error(Code::kDenied, fmt::format("the key file {} is open to others", quote(path)),
                 fmt::format("make it yours alone: chmod 600 {}", path));
  }
  std::string text = WARREN_TRY(read_host_file(path, kKeyFileBytes));
  Result<Ed25519Private> key = Ed25519Private::parse_pem(text);
  std::fill(text.begin(), text.end(), '\0');
  return std::move(key).within(quote(path));
}

Status write_key_files(const std::string& path, const Ed25519Private& key) {
  std::string open_path = path + ".pub";
  for (const std::string& one : {path, open_path}) {
    std::optional<struct stat> there = WARREN_TRY(find_host_link(one));
    if (there) return Error(Code::kExists, fmt::format("{} exists already", quote(one)));
  }
  std::string secret = key.pem();
  Status written = write_new_file(path, secret, 0600);
  std::fill(secret.begin(), secret.end(), '\0');
  WARREN_TRY(std::move(written));
  Status published = write_new_file(open_path, key.public_key().text() + "\n", 0644);
  if (!published.ok()) ::unlink(path.c_str());
  return published;
}

}  // namespace warren
