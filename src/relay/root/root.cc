#include "relay/root/root.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/host_files.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::uint64_t kSmallFileBytes = 65'536;
constexpr int kDirectory = O_RDONLY | O_DIRECTORY;
// A killed relay may have left a forked child that has not closed its copy of the lock yet.
constexpr int kLockWaitMs = 2000;
constexpr int kLockStepMs = 20;

// Our own files may have become unreadable even for us: then their permissions are repaired first.
Result<Fd> open_or_permit(int parent, const std::string& name, int flags, mode_t mode,
                          std::vector<std::string>& repaired) {
  Result<Fd> opened = open_below(parent, name, flags);
  if (opened.ok() || opened.error().code() != Code::kDenied) return opened;
  Fd there = WARREN_TRY(open_below(parent, name, O_PATH));
  struct stat info {};
  bool is_ours = ::fstat(there.get(), &info) == 0 && (S_ISDIR(info.st_mode) || S_ISREG(info.st_mode));
  std::string path = fmt::format("/proc/self/fd/{}", there.get());
  if (!is_ours || ::chmod(path.c_str(), mode) != 0) return opened;
  repaired.push_back(name);
  return open_below(parent, name, flags);
}

// Opens a directory that only the owner may access, creating it if needed. Adds it to `repaired` if the mode was wrong.
Result<Fd> make_private_dir(int parent, const std::string& name, std::vector<std::string>& repaired) {
  if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_error(errno, fmt::format("create directory {}", quote(name)));
  }
  Fd dir = WARREN_TRY(open_or_permit(parent, name, kDirectory, 0700, repaired));
  struct stat info {};
  if (::fstat(dir.get(), &info) != 0) return system_error(errno, fmt::format("stat {}", quote(name)));
  if ((info.st_mode & 07777) != 0700) {
    if (::fchmod(dir.get(), 0700) != 0) return system_error(errno, fmt::format("set permissions of {}", quote(name)));
    repaired.push_back(name);
  }
  return dir;
}

// ext4 places the files of neighbouring directories close together, and syncing a file delays changes to its
// neighbours: a sender's sync delays the relay by 60 µs per file. FS_TOPDIR_FL makes ext4 spread the subdirectories of
// this one. Other filesystems neither support nor need it.
void keep_children_apart(const Fd& dir) {
  int flags = 0;
  if (::ioctl(dir.get(), FS_IOC_GETFLAGS, &flags) != 0 || (flags & FS_TOPDIR_FL) != 0) return;
  flags |= FS_TOPDIR_FL;
  ::ioctl(dir.get(), FS_IOC_SETFLAGS, &flags);
}

// Makes sure that only the owner may access a file. A missing file is fine: its writer creates it.
Status make_private_file(int dir, const char* name, std::vector<std::string>& repaired) {
  Result<Fd> file = open_or_permit(dir, name, O_RDONLY | O_NONBLOCK, 0600, repaired);
  if (!file.ok()) return file.error().code() == Code::kNotFound ? Status(Ok{}) : Status(std::move(file).take_error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0) return system_error(errno, fmt::format("stat {}", quote(name)));
  if (!S_ISREG(info.st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(name)));
  if ((info.st_mode & 07777) == 0600) return Ok{};
  if (::fchmod(file->get(), 0600) != 0) return system_error(errno, fmt::format("set permissions of {}", quote(name)));
  repaired.emplace_back(name);
  return Ok{};
}

// Retries, because a program that checks whether a relay is running holds the lock for a moment, too.
bool lock_patiently(int file) {
  for (int waited = 0;; waited += kLockStepMs) {
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK || waited >= kLockWaitMs) return false;
    ::poll(nullptr, 0, kLockStepMs);
  }
}

}  // namespace

Result<Fd> open_below(int dir, const std::string& relative, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
  how.mode = (flags & O_CREAT) != 0 ? 0600 : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (;;) {
    auto number = static_cast<int>(::syscall(SYS_openat2, dir, relative.c_str(), &how, sizeof how));
    if (number >= 0) return Fd(number);
    if (errno != EINTR && errno != EAGAIN) return system_error(errno, fmt::format("open {}", quote(relative)));
  }
}

Result<ReadFile> read_below(int dir, const std::string& relative, std::uint64_t size_bytes_max) {
  Fd file = WARREN_TRY(open_below(dir, relative, O_RDONLY | O_NONBLOCK));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error(errno, fmt::format("stat {}", quote(relative)));
  if (!S_ISREG(info.st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(relative)));
  auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > size_bytes_max) {
    return Error(Code::kTooLarge, fmt::format("{} bytes exceed the limit of {}", size, size_bytes_max));
  }
  ReadFile out;
  out.facts = {size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec, info.st_ino};
  out.content.resize(size + 1);  // one more, to detect a file that grew
  ssize_t first = ::read(file.get(), out.content.data(), out.content.size());
  auto got = static_cast<std::size_t>(std::max<ssize_t>(first, 0));
  if (got != size) {  // a short read may continue
    MutableBytes rest = as_mutable_bytes(out.content).subspan(got);
    got += WARREN_TRY(read_full(file.get(), rest).within(quote(relative)));
  }
  out.content.resize(got);
  if (got != size) return Error(Code::kBusy, fmt::format("{} changed while it was read", quote(relative)));
  return out;
}

Result<std::unique_ptr<Root>> Root::open(const std::string& path, MakeRoot make) {
  if (make == MakeRoot::kYes) WARREN_TRY(make_host_dirs(path, 0700));
  Result<Fd> dir = open_host_dir(path);
  if (!dir.ok() && dir.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, fmt::format("there is no relay at {}", quote(path)), "`warren relay up` creates one");
  }
  Fd opened = WARREN_TRY(std::move(dir));
  std::string absolute = WARREN_TRY(canonical_host_path(path));
  std::unique_ptr<Root> root(new Root(std::move(absolute), std::move(opened)));
  if (make == MakeRoot::kYes) {
    WARREN_TRY(root->make_dirs().within(fmt::format("prepare {}", quote(path))));
  } else {
    WARREN_TRY(root->open_dirs());
  }
  return root;
}

Status Root::open_dirs() {
  struct Part {
    Fd* fd;
    const char* name;
  };
  const Part parts[] = {
      {&agents_, "agents"}, {&archive_, "archive"}, {&attachments_, "attachments"}, {&deliveries_, "tmp/deliveries"}};
  for (const auto& [fd, name] : parts) {
    Result<Fd> opened = open_below(dir(), name, kDirectory);
    if (!opened.ok() && opened.error().code() == Code::kNotFound) {
      return Error(Code::kNotFound, fmt::format("the relay at {} has no directory {}", quote(path_), quote(name)),
                   "`warren relay up` creates missing directories");
    }
    *fd = WARREN_TRY(std::move(opened));
  }
  return Ok{};
}

Status Root::make_dirs() {
  struct stat info {};
  if (::fstat(dir(), &info) != 0) return system_error(errno, "stat");
  if ((info.st_mode & 07777) != 0700) {
    if (::fchmod(dir(), 0700) != 0) return system_error(errno, "set permissions");
    repaired_.emplace_back(".");
  }
  agents_ = WARREN_TRY(make_private_dir(dir(), "agents", repaired_));
  archive_ = WARREN_TRY(make_private_dir(dir(), "archive", repaired_));
  attachments_ = WARREN_TRY(make_private_dir(dir(), "attachments", repaired_));
  WARREN_TRY(make_private_dir(attachments(), ".pending", repaired_));
  WARREN_TRY(make_private_dir(attachments(), ".rejected", repaired_));
  Fd tmp = WARREN_TRY(make_private_dir(dir(), "tmp", repaired_));
  keep_children_apart(tmp);
  deliveries_ = WARREN_TRY(make_private_dir(tmp.get(), "deliveries", repaired_));
  WARREN_TRY(open_below(dir(), ".lock", O_RDWR | O_CREAT));
  WARREN_TRY(make_config());
  for (const char* name :
       {".lock", "config.json", "ledger.db", "ledger.db-wal", "ledger.db-shm", "audit.log", "relay.log"}) {
    WARREN_TRY(make_private_file(dir(), name, repaired_));
  }
  return sync_host_dir(path_);
}

// Atomic, also across a power cut: the next start would refuse an empty file.
Status Root::make_config() {
  if (WARREN_TRY(find_host_link(path_ + "/config.json"))) return Ok{};
  std::string draft = fmt::format(".config.json.{}", ::getpid());  // another relay may be starting, too
  Fd config = WARREN_TRY(open_below(dir(), draft, O_WRONLY | O_CREAT | O_TRUNC));
  WARREN_TRY(write_all(config.get(), as_bytes("{}\n")));
  if (::fsync(config.get()) != 0) return system_error(errno, "sync 'config.json'");
  if (::renameat2(dir(), draft.c_str(), dir(), "config.json", RENAME_NOREPLACE) == 0) return Ok{};
  int failed = errno;
  if (failed == EINVAL && ::renameat(dir(), draft.c_str(), dir(), "config.json") == 0) return Ok{};
  ::unlinkat(dir(), draft.c_str(), 0);
  if (failed == EEXIST) return Ok{};  // another relay created it first
  return system_error(failed, "create 'config.json'");
}

// Locks the directory as well: if `.lock` was removed, a second relay would create and lock a new one. Not all
// filesystems can lock directories (some network filesystems cannot), so the file is the main lock.
Status Root::lock() {
  Error taken(Code::kBusy, fmt::format("a relay is already running at {}", quote(path_)),
              "`warren relay down` stops it");
  bool is_free = ::flock(dir(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  if (!is_free && holder_is_alive()) return taken;
  if (!is_free && !lock_patiently(dir()) && errno == EWOULDBLOCK) return taken;
  Fd file = WARREN_TRY(open_below(dir(), ".lock", O_RDWR | O_CREAT));
  if (!lock_patiently(file.get())) {
    return errno == EWOULDBLOCK ? taken : system_error(errno, "lock '.lock'");
  }
  lock_ = std::move(file);
  return Ok{};
}

bool Root::has_lost_lock() const {
  struct stat info {};
  return lock_.is_open() && ::fstat(lock_.get(), &info) == 0 && info.st_nlink == 0;
}

bool Root::is_locked_by_other() const {
  if (lock_.is_open()) return false;
  Result<Fd> file = open_below(dir(), ".lock", O_RDONLY);
  if (!file.ok()) return false;
  return ::flock(file->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;  // released with the descriptor
}

Status Root::note_holder(const ProcessIdentity& who) const {
  if (::ftruncate(lock_.get(), 0) != 0 || ::lseek(lock_.get(), 0, SEEK_SET) != 0) {
    return system_error(errno, "truncate '.lock'");
  }
  std::string text =
      dump_json({{"boot", who.boot}, {"pid_namespace", who.pid_namespace}, {"pid", who.pid}, {"started", who.started}});
  return write_all(lock_.get(), as_bytes(text)).within("'.lock'");
}

Result<ProcessIdentity> Root::find_holder() const {
  ReadFile file = WARREN_TRY(read_below(dir(), ".lock", kSmallFileBytes));
  if (file.content.empty()) return Error(Code::kBusy, "the relay is still starting", "try again");
  Json json = WARREN_TRY(parse_json(file.content).within("'.lock'"));
  auto number = [&](const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_number_integer() ? json[key].get<std::int64_t>() : 0;
  };
  bool has_boot = json.is_object() && json.contains("boot") && json["boot"].is_string();
  if (!has_boot) return Error(Code::kCorrupt, "'.lock' does not name a process");
  return ProcessIdentity{json["boot"].get<std::string>(), number("pid_namespace"), number("pid"), number("started")};
}

// After a relay is killed, children it forked may hold its locks for a moment. Then it is dead, and waiting helps.
bool Root::holder_is_alive() const {
  Result<ProcessIdentity> holder = find_holder();
  return holder.ok() && liveness_of(*holder) == Liveness::kAlive;
}

Status Root::poke() const {
  Fd file = WARREN_TRY(open_below(dir(), ".lock", O_RDWR));
  if (::futimens(file.get(), nullptr) != 0) return system_error(errno, "touch '.lock'");
  return Ok{};
}

Result<Config> read_config_in(int dir) {
  Result<ReadFile> file = read_below(dir, "config.json", kSmallFileBytes);
  if (!file.ok() && file.error().code() == Code::kNotFound) return Config{};
  ReadFile read = WARREN_TRY(std::move(file).within("config.json"));
  return parse_config(read.content);
}

Result<std::vector<std::string>> Root::list_agents() const {
  std::vector<std::string> names;
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(agents()));
  for (HostEntry& entry : entries) {
    if (S_ISDIR(entry.attributes.st_mode) && is_agent_name(entry.name)) names.push_back(std::move(entry.name));
  }
  return names;
}

Result<std::vector<std::string>> Root::make_agent(std::string_view name) const {
  WARREN_TRY(check_agent_name(name));
  std::vector<std::string> repaired;
  Fd home = WARREN_TRY(make_private_dir(agents(), std::string(name), repaired));
  Fd outbox = WARREN_TRY(make_private_dir(home.get(), "outbox", repaired));
  WARREN_TRY(make_private_dir(outbox.get(), ".pending", repaired));
  Fd inbox = WARREN_TRY(make_private_dir(home.get(), "inbox", repaired));
  WARREN_TRY(make_private_dir(inbox.get(), ".done", repaired));
  return repaired;
}

Result<Fd> Root::open_outbox(std::string_view agent) const {
  return open_below(agents(), fmt::format("{}/outbox", agent), kDirectory);
}

Result<Fd> Root::open_inbox(std::string_view agent) const {
  return open_below(agents(), fmt::format("{}/inbox", agent), kDirectory);
}

Result<Fd> Root::make_archive(std::string_view date, std::string_view agent) const {
  Result<Fd> there = open_below(archive(), fmt::format("{}/{}", date, agent), kDirectory);
  if (there.ok() || there.error().code() != Code::kNotFound) return there;
  std::vector<std::string> repaired;
  Fd day = WARREN_TRY(make_private_dir(archive(), std::string(date), repaired));
  return make_private_dir(day.get(), std::string(agent), repaired);
}

bool is_shortage(const Error& error) { return error.code() == Code::kLimit || error.code() == Code::kNoSpace; }

}  // namespace warren::relay
