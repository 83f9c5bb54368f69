#include "relay/attachments/attachment_store.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "os/error.h"

namespace warren::relay {
namespace {

constexpr int kDirectory = O_RDONLY | O_DIRECTORY;
constexpr int kVerifyTries = 3;  // adding the same content again touches the file
constexpr std::string_view kRemoving = ".out";

std::int64_t ns_of(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

Result<struct stat> look(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(errno, "stat an attachment");
  return info;
}

Result<std::string> random_name() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return system_error(errno, "get random bytes");
  return fmt::format("{:016x}", random);
}

Status sync(int fd) {
  if (::fsync(fd) != 0) return system_error(errno, "sync");
  return Ok{};
}

// Reads and hashes `in`, and writes it to `out` unless that is negative. Stops soon after `size_max` bytes: a size
// above it means that there is more.
struct Streamed {
  std::string hash;
  std::uint64_t size = 0;
};
Result<Streamed> stream(int in, int out, std::uint64_t size_max, const std::atomic<bool>& stop) {
  std::string buffer(limits::kCopyBytes, '\0');
  Sha256 digest;
  Streamed done;
  while (done.size <= size_max) {
    if (stop) return Error(Code::kTimeout, "stopped");
    std::size_t got = WARREN_TRY(read_some(in, as_mutable_bytes(buffer)));
    if (got == 0) break;
    Bytes piece = as_bytes(buffer).first(got);
    digest.update(piece);
    if (out >= 0) WARREN_TRY(write_all(out, piece));
    done.size += got;
  }
  done.hash = hex_of(digest.finish());
  return done;
}

Status check_size(const Streamed& read, std::uint64_t size_bytes_max) {
  if (read.size <= size_bytes_max) return Ok{};
  return Error(Code::kTooLarge, fmt::format("it exceeds the limit of {} bytes", size_bytes_max));
}

// Unless the same content was added again. Without RENAME_NOREPLACE, which not all filesystems have, it is replaced.
void put_back(int from, const std::string& name, int to, const std::string& hash) {
  if (::renameat2(from, name.c_str(), to, hash.c_str(), RENAME_NOREPLACE) == 0 || errno != EINVAL) return;
  ::renameat(from, name.c_str(), to, hash.c_str());
}

}  // namespace

FileIdentity identity_of(const struct stat& info) {
  return {info.st_ino, static_cast<std::uint64_t>(info.st_size), ns_of(info.st_mtim), ns_of(info.st_ctim)};
}

std::string path_of_attachment(std::string_view hash) { return fmt::format("{}/{}", hash.substr(0, 2), hash); }

Result<AttachmentStore::Opened> AttachmentStore::open(std::string_view hash) const {
  Result<Fd> file = open_below(dir_, path_of(hash), O_RDONLY | O_NONBLOCK);
  if (!file.ok() && file.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, fmt::format("there is no attachment {}", reference_of(hash)));
  }
  bool is_link = !file.ok() && (file.error().code() == Code::kLoop || file.error().code() == Code::kNotDirectory);
  if (is_link) {
    return Error(Code::kDenied, fmt::format("attachment {} is behind a symbolic link", reference_of(hash)));
  }
  Opened out;
  out.file = WARREN_TRY(std::move(file));
  struct stat info = WARREN_TRY(look(out.file.get()));
  if (!S_ISREG(info.st_mode)) {
    return Error(Code::kDenied, fmt::format("attachment {} is not a regular file", reference_of(hash)));
  }
  if (info.st_nlink > 1) {
    return Error(Code::kDenied, fmt::format("attachment {} has several hard links", reference_of(hash)));
  }
  out.identity = identity_of(info);
  return out;
}

Status AttachmentStore::make_private(std::string_view hash) const {
  Fd dir = WARREN_TRY(open_below(dir_, prefix_of(hash), kDirectory));
  struct stat info = WARREN_TRY(look(dir.get()));
  if ((info.st_mode & 07777) != 0700 && ::fchmod(dir.get(), 0700) != 0) return system_error(errno, "set permissions");
  Opened opened = WARREN_TRY(open(hash));
  info = WARREN_TRY(look(opened.file.get()));
  if ((info.st_mode & 07777) == 0600 || ::fchmod(opened.file.get(), 0600) == 0) return Ok{};
  return system_error(errno, "set permissions");
}

Result<AttachmentStore::Verified> AttachmentStore::verify(std::string_view hash, const std::atomic<bool>& stop) const {
  for (int tries = 0; tries < kVerifyTries; ++tries) {
    Opened opened = WARREN_TRY(open(hash));
    Streamed read = WARREN_TRY(stream(opened.file.get(), -1, opened.identity.size, stop));
    struct stat info = WARREN_TRY(look(opened.file.get()));
    if (identity_of(info) != opened.identity || read.size != opened.identity.size) continue;
    return Verified{opened.identity, read.hash == hash};
  }
  return Error(Code::kBusy, fmt::format("attachment {} is being changed", reference_of(hash)));
}

Result<std::string> AttachmentStore::add(int file, std::uint64_t size_bytes_max, const std::atomic<bool>& stop) const {
  struct stat info = WARREN_TRY(look(file));
  if (S_ISDIR(info.st_mode)) return Error(Code::kIsDirectory, "a directory cannot be attached");
  if (!S_ISREG(info.st_mode)) return copy_in(file, size_bytes_max, stop);
  off_t start = ::lseek(file, 0, SEEK_CUR);
  Streamed read = WARREN_TRY(stream(file, -1, size_bytes_max, stop));
  WARREN_TRY(check_size(read, size_bytes_max));
  if (WARREN_TRY(renew(read.hash, read.size))) return read.hash;
  if (::lseek(file, start, SEEK_SET) != start) return system_error(errno, "seek");
  return copy_in(file, size_bytes_max, stop);
}

// If the content is in the store, makes it durable and defers its collection. Touches the file first and looks it up by
// name afterwards; remove() works in the opposite order, so that one of the two always notices the other.
Result<bool> AttachmentStore::renew(std::string_view hash, std::uint64_t size) const {
  Result<Opened> opened = open(hash);
  if (!opened.ok() || opened->identity.size != size) return false;
  if (::futimens(opened->file.get(), nullptr) != 0) return false;
  Result<Opened> again = open(hash);
  if (!again.ok() || again->identity.inode != opened->identity.inode) return false;
  Fd dir = WARREN_TRY(open_below(dir_, prefix_of(hash), kDirectory));
  WARREN_TRY(sync(opened->file.get()));
  WARREN_TRY(sync(dir.get()));
  WARREN_TRY(sync(dir_));
  return true;
}

Result<std::string> AttachmentStore::place(const std::function<Result<std::string>(int draft)>& fill) const {
  const char* drafts = is_flat_ ? "." : ".pending";
  if (!is_flat_ && ::mkdirat(dir_, drafts, 0700) != 0 && errno != EEXIST) {
    return system_error(errno, "create '.pending'");
  }
  Fd pending = WARREN_TRY(open_below(dir_, drafts, kDirectory));
  std::string name = "." + WARREN_TRY(random_name());
  Fd draft = WARREN_TRY(open_below(pending.get(), name, O_WRONLY | O_CREAT | O_EXCL));
  Result<std::string> hash = fill(draft.get());
  Status done = hash.ok() ? sync(draft.get()) : Status(hash.error());
  if (done.ok() && owner_ && ::fchown(draft.get(), owner_->uid, owner_->gid) != 0) {
    done = system_error(errno, "hand the attachment to the agent's user");
  }
  if (done.ok()) done = publish(pending.get(), name, *hash);
  if (!done.ok()) {
    ::unlinkat(pending.get(), name.c_str(), 0);
    return std::move(done).take_error();
  }
  return hash;
}

Result<std::string> AttachmentStore::copy_in(int file, std::uint64_t size_bytes_max,
                                             const std::atomic<bool>& stop) const {
  return place([&](int draft) -> Result<std::string> {
    Streamed read = WARREN_TRY(stream(file, draft, size_bytes_max, stop));
    WARREN_TRY(check_size(read, size_bytes_max));
    return read.hash;
  });
}

Status AttachmentStore::add_pieces(const std::string& hash, const std::function<Result<std::string>()>& next) const {
  WARREN_TRY(place([&](int draft) -> Result<std::string> {
    Sha256 digest;
    for (;;) {
      std::string piece = WARREN_TRY(next());
      if (piece.empty()) break;
      digest.update(as_bytes(piece));
      WARREN_TRY(write_all(draft, as_bytes(piece)));
    }
    if (hex_of(digest.finish()) == hash) return hash;
    return Error(Code::kCorrupt, fmt::format("the pieces of attachment {} do not match its hash", reference_of(hash)));
  }));
  return Ok{};
}

Status AttachmentStore::publish(int pending, const std::string& draft, const std::string& hash) const {
  std::string prefix = prefix_of(hash);
  if (::mkdirat(dir_, prefix.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_error(errno, fmt::format("create directory {}", quote(prefix)));
  }
  Fd dir = WARREN_TRY(open_below(dir_, prefix, kDirectory));
  if (::renameat(pending, draft.c_str(), dir.get(), hash.c_str()) != 0) return system_error(errno, "rename");
  WARREN_TRY(sync(dir.get()));
  return sync(dir_);
}

Status AttachmentStore::copy_to(std::string_view hash, int out, const std::atomic<bool>& stop) const {
  Opened opened = WARREN_TRY(open(hash));
  Streamed read = WARREN_TRY(stream(opened.file.get(), out, limits::kFileBytes, stop));
  if (read.hash == hash) return Ok{};
  return Error(Code::kCorrupt, fmt::format("the content of attachment {} does not match its hash", reference_of(hash)));
}

Status AttachmentStore::set_aside(const std::string& relative, std::string_view name) const {
  if (::mkdirat(dir_, ".rejected", 0700) != 0 && errno != EEXIST) return system_error(errno, "create '.rejected'");
  Fd rejected = WARREN_TRY(open_below(dir_, ".rejected", kDirectory));
  std::string random = WARREN_TRY(random_name());
  std::string parent(split_parent("/" + relative).parent.substr(1));
  Fd dir = WARREN_TRY(open_below(dir_, parent.empty() ? "." : parent, kDirectory));
  std::string from(split_parent("/" + relative).name);
  std::string to = fmt::format("{}-{}", name, random);
  if (::renameat(dir.get(), from.c_str(), rejected.get(), to.c_str()) == 0) return Ok{};
  return system_error(errno, fmt::format("move {} aside", quote(relative)));
}

Result<bool> AttachmentStore::remove(std::string_view hash, const FileIdentity& known) const {
  Fd dir = WARREN_TRY(open_below(dir_, prefix_of(hash), kDirectory));
  Fd pending = WARREN_TRY(open_below(dir_, ".pending", kDirectory));
  std::string name(hash);
  std::string removing = name + std::string(kRemoving);
  struct stat info {};
  if (::fstatat(dir.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (!identity_of(info).has_same_content_as(known)) return false;
  if (::renameat(dir.get(), name.c_str(), pending.get(), removing.c_str()) != 0) {
    if (errno == ENOENT) return false;
    return system_error(errno, "rename");
  }
  bool is_renewed = ::fstatat(pending.get(), removing.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                    !identity_of(info).has_same_content_as(known);
  if (is_renewed) put_back(pending.get(), removing, dir.get(), name);
  ::unlinkat(pending.get(), removing.c_str(), 0);
  return !is_renewed;
}

Status AttachmentStore::finish_removals() const {
  Fd pending = WARREN_TRY(open_below(dir_, ".pending", kDirectory));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(pending.get()));
  for (const HostEntry& entry : entries) {
    if (!entry.name.ends_with(kRemoving)) continue;
    std::string hash = entry.name.substr(0, entry.name.size() - kRemoving.size());
    if (!is_attachment_hash(hash)) continue;
    Result<Fd> dir = open_below(dir_, prefix_of(hash), kDirectory);
    if (dir.ok()) put_back(pending.get(), entry.name, dir->get(), hash);
    ::unlinkat(pending.get(), entry.name.c_str(), 0);
  }
  return Ok{};
}

Result<std::vector<HostEntry>> AttachmentStore::list(const std::string& prefix) const {
  Result<Fd> dir = open_below(dir_, prefix, kDirectory);
  if (!dir.ok() && dir.error().code() == Code::kNotFound) return std::vector<HostEntry>();
  Fd opened = WARREN_TRY(std::move(dir));
  return list_host_dir(opened.get());
}

std::uint64_t AttachmentStore::remove_strays(const std::string& prefix, const std::vector<HostEntry>& entries,
                                             std::int64_t ctime_ns) const {
  Result<Fd> dir = open_below(dir_, prefix, kDirectory);
  std::uint64_t removed = 0;
  for (const HostEntry& entry : entries) {
    bool belongs = is_attachment_hash(entry.name) && prefix_of(entry.name) == prefix;
    if (belongs || ns_of(entry.attributes.st_ctim) >= ctime_ns || !dir.ok()) continue;
    int flags = S_ISDIR(entry.attributes.st_mode) ? AT_REMOVEDIR : 0;  // only if empty
    if (::unlinkat(dir->get(), entry.name.c_str(), flags) == 0) ++removed;
  }
  return removed;
}

}  // namespace warren::relay
