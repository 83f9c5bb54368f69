// The client's attachments, and waiting for mail.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "os/error.h"
#include "relay/attachments/attachment_store.h"
#include "relay/client/client.h"

namespace warren::relay {
namespace {

constexpr int kNames = 1000;                     // name, name-1, … until one is free
constexpr std::int64_t kPollNs = 5'000'000'000;  // even without an event

Result<std::string> hash_file(int file) {
  Sha256 digest;
  std::string buffer(limits::kCopyBytes, '\0');
  for (;;) {
    std::size_t got = WARREN_TRY(read_some(file, as_mutable_bytes(buffer)));
    if (got == 0) return hex_of(digest.finish());
    digest.update(as_bytes(buffer).first(got));
  }
}

bool has_content(int dir, const std::string& name, const std::string& hash, std::uint64_t size) {
  Fd file(::openat(dir, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  bool is_alike = file.is_open() && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) &&
                  static_cast<std::uint64_t>(info.st_size) == size;
  if (!is_alike) return false;
  Result<std::string> found = hash_file(file.get());
  return found.ok() && *found == hash;
}

// Renames the draft to the first free name, or removes it if a file with that content already exists.
Result<std::string> name_draft(int dir, const std::string& draft, const Attachment& attachment, std::uint64_t size) {
  std::string wanted = is_attachment_name(attachment.name) ? attachment.name : attachment.hash;
  for (int i = 0; i < kNames; ++i) {
    std::string name = i == 0 ? wanted : fmt::format("{}-{}", wanted.substr(0, limits::kNameBytes - 8), i);
    if (::renameat2(dir, draft.c_str(), dir, name.c_str(), RENAME_NOREPLACE) == 0) return name;
    if (errno != EEXIST) return system_error(errno, fmt::format("rename to {}", quote(name)));
    if (has_content(dir, name, attachment.hash, size)) {
      ::unlinkat(dir, draft.c_str(), 0);
      return name;
    }
  }
  return Error(Code::kExists, fmt::format("files {} to {}-{} already exist", quote(wanted), wanted, kNames - 1));
}

}  // namespace

Result<Attachment> Client::attach(int file) {
  Attachment out;
  if (root_.has_attachments() && !owner_ && !root_.is_confined(agent_)) {
    Result<Config> config = root_.read_config();
    std::uint64_t most = config.ok() ? config->attachment_bytes_max : Config().attachment_bytes_max;
    out.hash = WARREN_TRY(AttachmentStore(root_).add(file, most).within("attach"));
    return out;
  }
  // The relay takes it from the outbox. Its limit is not known here.
  if (::mkdirat(outbox_.get(), ".attachments", 0700) != 0 && errno != EEXIST) {
    return system_error(errno, "create 'outbox/.attachments'");
  }
  Fd dir = WARREN_TRY(open_below(outbox_.get(), ".attachments", O_RDONLY | O_DIRECTORY));
  out.hash =
      WARREN_TRY(AttachmentStore::in_agent_dir(dir.get(), owner_).add(file, limits::kFileBytes).within("attach"));
  return out;
}

Result<Attachment> Client::attach_path(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  Attachment out = WARREN_TRY(attach(file.get()).within(quote(path)));
  std::string name = path.substr(path.rfind('/') + 1);
  if (is_attachment_name(name)) out.name = std::move(name);
  return out;
}

Status Client::fetch(const Attachment& attachment, int out) {
  if (!is_attachment_hash(attachment.hash)) return Error(Code::kInvalid, "not a valid attachment hash");
  if (root_.has_attachments()) return AttachmentStore(root_).copy_to(attachment.hash, out);
  Fd dir = WARREN_TRY(open_below(inbox_.get(), ".attachments", O_RDONLY | O_DIRECTORY));
  return AttachmentStore::in_agent_dir(dir.get()).copy_to(attachment.hash, out);
}

Result<std::string> Client::save(const Attachment& attachment, int dir) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return system_error(errno, "get random bytes");
  std::string draft = fmt::format(".warren-{:016x}", random);
  Fd file(::openat(dir, draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.is_open()) return system_error(errno, fmt::format("create {}", quote(draft)));
  Status fetched = fetch(attachment, file.get());
  if (fetched.ok() && ::fsync(file.get()) != 0) fetched = system_error(errno, "sync");
  struct stat info {};
  ::fstat(file.get(), &info);
  Result<std::string> name = fetched.ok() ? name_draft(dir, draft, attachment, static_cast<std::uint64_t>(info.st_size))
                                          : Result<std::string>(fetched.error());
  if (!name.ok()) ::unlinkat(dir, draft.c_str(), 0);
  if (name.ok() && ::fsync(dir) != 0) return system_error(errno, "sync the directory");
  return name;
}

Result<bool> Client::wait_for_mail(std::chrono::milliseconds timeout, std::string_view after) {
  if (!mail_.is_open()) {
    Fd mail(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    std::string path = fmt::format("/proc/self/fd/{}", inbox_.get());
    if (!mail.is_open() || ::inotify_add_watch(mail.get(), path.c_str(), IN_MOVED_TO | IN_CREATE) < 0) {
      return system_error(errno, "watch the inbox");
    }
    mail_ = std::move(mail);
  }
  std::int64_t until = clock_.monotonic_ns() + std::chrono::nanoseconds(timeout).count();
  for (;;) {
    std::array<char, 4096> events;
    while (::read(mail_.get(), events.data(), events.size()) > 0) continue;  // before listing, so that none is missed
    std::vector<std::string> files = WARREN_TRY(list_inbox());
    if (!files.empty() && files.back() > after) return true;
    std::int64_t left_ns = until - clock_.monotonic_ns();
    if (left_ns <= 0) return false;
    left_ns = std::min(left_ns, kPollNs);
    timespec wait{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    pollfd mail{mail_.get(), POLLIN, 0};
    int ready = ::ppoll(&mail, 1, &wait, nullptr);
    if (ready < 0 && errno == EINTR) return false;
    if (ready < 0) return system_error(errno, "poll");
  }
}

}  // namespace warren::relay
