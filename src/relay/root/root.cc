#include "relay/root/root.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::uint64_t kSmallFileBytes = 65'536;
constexpr int kDirectory = O_RDONLY | O_DIRECTORY;
constexpr mode_t kPassableMode = 0711;  // other users reach what is theirs, but cannot list
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

Result<struct stat> facts_of(int fd, std::string_view name) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(errno, fmt::format("stat {}", quote(name)));
  return info;
}

Status set_mode(int fd, mode_t mode, const std::string& name, std::vector<std::string>& repaired) {
  struct stat info = WARREN_TRY(facts_of(fd, name));
  if ((info.st_mode & 07777) == mode) return Ok{};
  if (::fchmod(fd, mode) != 0) return system_error(errno, fmt::format("set permissions of {}", quote(name)));
  repaired.push_back(name);
  return Ok{};
}

Result<Fd> open_or_make_dir(int parent, const std::string& name, std::vector<std::string>& repaired) {
  if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_error(errno, fmt::format("create directory {}", quote(name)));
  }
  return open_or_permit(parent, name, kDirectory, 0700, repaired);
}

// Opens a directory that only the owner may access, creating it if needed. Adds it to `repaired` if the mode was wrong.
Result<Fd> make_private_dir(int parent, const std::string& name, std::vector<std::string>& repaired) {
  Fd dir = WARREN_TRY(open_or_make_dir(parent, name, repaired));
  WARREN_TRY(set_mode(dir.get(), 0700, name, repaired));
  return dir;
}

Result<std::string> name_in_tmp() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return system_error(errno, "get random bytes");
  return fmt::format("made-{:016x}", random);
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
    if (errno == ELOOP) {
      return Error(Code::kLoop, fmt::format("open {}: it is a symbolic link, or below one", quote(relative)),
                   "links are not followed here: put the file itself in its place");
    }
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
  out.facts = {size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec, info.st_ino, info.st_uid,
               info.st_nlink};
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

namespace {

Error no_relay(const std::string& path) {
  return {Code::kNotFound, fmt::format("there is no relay at {}", quote(path)), "`warren relay up` creates one"};
}

}  // namespace

Result<std::unique_ptr<Root>> Root::open(const std::string& path, MakeRoot make) {
  if (make == MakeRoot::kYes) WARREN_TRY(make_host_dirs(path, 0700));
  Result<Fd> dir = open_host_dir(path);
  if (!dir.ok() && dir.error().code() == Code::kNotFound) return no_relay(path);
  if (!dir.ok() && dir.error().code() == Code::kDenied) {
    return std::move(dir).take_error().with_hint("this is for the relay's own user");
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

// Directories that this user may only pass through cannot be opened for reading.
Result<std::unique_ptr<Root>> Root::open_for_agent(const std::string& path) {
  Fd dir(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!dir.is_open() && errno == ENOENT) return no_relay(path);
  if (!dir.is_open()) return system_error(errno, fmt::format("open directory {}", quote(path)));
  std::string absolute = WARREN_TRY(canonical_host_path(path));
  std::unique_ptr<Root> root(new Root(std::move(absolute), std::move(dir)));
  root->agents_ = WARREN_TRY(open_below(root->dir(), "agents", O_PATH | O_DIRECTORY));
  Result<Fd> attachments = open_below(root->dir(), "attachments", kDirectory);
  if (attachments.ok()) root->attachments_ = std::move(attachments).take_value();
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
  agents_ = WARREN_TRY(open_or_make_dir(dir(), "agents", repaired_));
  mode_t mode = WARREN_TRY(note_owners())
  ? kPassableMode : 0700;
  WARREN_TRY(set_mode(dir(), mode, ".", repaired_));
  WARREN_TRY(set_mode(agents(), mode, "agents", repaired_));
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

namespace {

Result<std::string> read_config_text_in(int dir) {
  Result<ReadFile> file = read_below(dir, "config.json", kSmallFileBytes);
  if (!file.ok() && file.error().code() == Code::kLoop) {
    return Error(Code::kInvalid, "config.json is a symbolic link, and must be a regular file",
                 "copy the file that it leads to into the relay's directory");
  }
  ReadFile read = WARREN_TRY(std::move(file).within("config.json"));
  return std::move(read.content);
}

}  // namespace

Result<Config> read_config_in(int dir) {
  Result<std::string> text = read_config_text_in(dir);
  if (!text.ok() && text.error().code() == Code::kNotFound) return Config{};
  return parse_config(WARREN_TRY(std::move(text)));
}

Result<std::string> Root::read_config_text() const { return read_config_text_in(dir()); }

Result<std::vector<std::string>> Root::list_agents() const {
  std::vector<std::string> names;
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(agents()));
  for (HostEntry& entry : entries) {
    if (S_ISDIR(entry.attributes.st_mode) && is_agent_name(entry.name)) names.push_back(std::move(entry.name));
  }
  return names;
}

Result<bool> Root::note_owners() {
  std::lock_guard lock(mutex_);
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(agents()));
  for (const HostEntry& entry : entries) {
    bool is_other = S_ISDIR(entry.attributes.st_mode) && entry.attributes.st_uid != ::geteuid();
    if (is_other && is_agent_name(entry.name)) {
      owners_.insert_or_assign(entry.name, Owner{entry.attributes.st_uid, entry.attributes.st_gid});
    }
  }
  return !owners_.empty();
}

Status Root::let_users_in() {
  std::vector<std::string> changed;
  WARREN_TRY(set_mode(dir(), kPassableMode, ".", changed));
  return set_mode(agents(), kPassableMode, "agents", changed);
}

std::optional<Owner> Root::find_owner(std::string_view agent) const {
  std::lock_guard lock(mutex_);
  auto found = owners_.find(agent);
  return found == owners_.end() ? std::nullopt : std::optional(found->second);
}

bool Root::is_confined(std::string_view agent) const {
  if (find_owner(agent)) return true;
  return ::faccessat(agents(), fmt::format("{}/.confined", agent).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// `parent` may be a directory in which the owner can exchange names at any moment.
Result<Fd> Root::make_owned_dir(int parent, const std::string& name, const Owner& owner,
                                std::vector<std::string>& repaired) const {
  Result<Fd> dir = open_below(parent, name, kDirectory);
  if (!dir.ok() && dir.error().code() == Code::kNotFound) {
    Fd tmp = WARREN_TRY(open_below(this->dir(), "tmp", kDirectory));
    std::string made = WARREN_TRY(name_in_tmp());
    if (::mkdirat(tmp.get(), made.c_str(), 0700) != 0) return system_error(errno, "create a directory in 'tmp'");
    Fd own = WARREN_TRY(open_below(tmp.get(), made, kDirectory));
    bool is_given = ::fchown(own.get(), owner.uid, owner.gid) == 0;
    bool is_placed = is_given && ::renameat2(tmp.get(), made.c_str(), parent, name.c_str(), RENAME_NOREPLACE) == 0;
    if (is_given && !is_placed && errno == EINVAL) {  // not all filesystems have the flag
      is_placed = ::renameat(tmp.get(), made.c_str(), parent, name.c_str()) == 0;
    }
    int failed = errno;
    if (!is_placed) ::unlinkat(tmp.get(), made.c_str(), AT_REMOVEDIR);
    if (!is_placed && failed != EEXIST) {
      return system_error(failed, fmt::format("create directory {} for user {}", quote(name), owner.uid));
    }
    dir = open_below(parent, name, kDirectory);
  }
  Fd opened = WARREN_TRY(std::move(dir));
  struct stat info = WARREN_TRY(facts_of(opened.get(), name));
  if (info.st_uid != owner.uid) {
    return Error(Code::kDenied,
                 fmt::format("directory {} belongs to user {} instead of {}", quote(name), info.st_uid, owner.uid));
  }
  WARREN_TRY(set_mode(opened.get(), 0700, name, repaired));
  return opened;
}

Result<std::vector<std::string>> Root::make_agent(std::string_view name, std::optional<Owner> owner) {
  WARREN_TRY(check_agent_name(name));
  std::vector<std::string> repaired;
  std::string agent(name);
  struct stat info {};
  bool is_new = ::fstatat(agents(), agent.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0;
  Owner there = is_new ? owner.value_or(Owner{::geteuid(), ::getegid()}) : Owner{info.st_uid, info.st_gid};
  if (owner && owner->uid != there.uid) {
    return Error(Code::kExists, fmt::format("agent {} exists and belongs to user {}", quote(name), there.uid));
  }
  if (there.uid == ::geteuid()) {
    {
      std::lock_guard lock(mutex_);
      owners_.erase(agent);
    }
    Fd home = WARREN_TRY(make_private_dir(agents(), agent, repaired));
    Fd outbox = WARREN_TRY(make_private_dir(home.get(), "outbox", repaired));
    WARREN_TRY(make_private_dir(outbox.get(), ".pending", repaired));
    Fd inbox = WARREN_TRY(make_private_dir(home.get(), "inbox", repaired));
    WARREN_TRY(make_private_dir(inbox.get(), ".done", repaired));
    return repaired;
  }
  if (::geteuid() != 0) {
    return Error(Code::kDenied, fmt::format("agent {} belongs to user {}", quote(name), there.uid),
                 "only root can serve agents of several users");
  }
  Fd home = WARREN_TRY(make_owned_dir(agents(), agent, there, repaired));
  {
    std::lock_guard lock(mutex_);
    owners_.insert_or_assign(agent, there);
  }
  for (const char* box : {"outbox", "inbox"}) {
    Fd dir = WARREN_TRY(make_owned_dir(home.get(), box, there, repaired));
    for (const char* inner : {box == std::string_view("outbox") ? ".pending" : ".done", ".attachments"}) {
      WARREN_TRY(make_owned_dir(dir.get(), inner, there, repaired));
    }
  }
  WARREN_TRY(let_users_in());
  return repaired;
}

Status Root::make_attachment_dirs(std::string_view agent) {
  if (find_owner(agent)) return Ok{};  // make_agent() does
  std::vector<std::string> repaired;
  for (const char* box : {"outbox", "inbox"}) {
    Fd dir = WARREN_TRY(open_agent_dir(agent, box));
    WARREN_TRY(make_private_dir(dir.get(), ".attachments", repaired));
  }
  return Ok{};
}

Result<Fd> Root::open_agent_dir(std::string_view agent, std::string_view relative) const {
  Fd dir = WARREN_TRY(open_below(agents(), fmt::format("{}/{}", agent, relative), kDirectory));
  std::optional<Owner> owner = find_owner(agent);
  if (!owner) return dir;
  struct stat info = WARREN_TRY(facts_of(dir.get(), relative));
  if (info.st_uid == owner->uid) return dir;
  return Error(Code::kDenied, fmt::format("directory '{}/{}' belongs to user {} instead of {}", agent, relative,
                                          info.st_uid, owner->uid));
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
