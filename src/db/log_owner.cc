#include "db/log_owner.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "db/wal_signals.h"

namespace warren {
namespace {

constexpr std::string_view kLogSuffix = "-wal";
constexpr const char* kMarkName = "user.warren.log";
constexpr off_t kEmptyLogBytes = 32;  // its header: without a commit after it
// A process that is just opening or closing the file has only one of its two locks.
constexpr std::chrono::milliseconds kHolderPatience{2000};
constexpr std::chrono::milliseconds kHolderStep{10};

std::optional<struct stat> find_stat(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return info;
}

bool leads_to(const std::string& path, const struct stat& file) {
  std::optional<struct stat> info = find_stat(path);
  return info && info->st_dev == file.st_dev && info->st_ino == file.st_ino;
}

bool has_commits(const std::string& log) {
  std::optional<struct stat> info = find_stat(log);
  return info && info->st_size > kEmptyLogBytes;
}

// The names in /proc/PROCESS/fd. As many as can be read: the process may end meanwhile.
std::vector<std::string> list_descriptors(const std::string& process) {
  std::vector<std::string> names;
  std::error_code failed;
  std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc/" + process + "/fd", failed); !failed && at != end;
       at.increment(failed)) {
    names.push_back(at->path().filename());
  }
  return names;
}

// This process's descriptors of the file. Its locks belong to the process, and closing any other descriptor of the file
// would release them: so SQLite's own is used to ask for the locks of others.
struct OwnDescriptors {
  int readable = -1;
  int count = 0;
};

OwnDescriptors find_own_descriptors(const struct stat& file) {
  OwnDescriptors own;
  for (const std::string& name : list_descriptors("self")) {
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    struct stat info {};
    bool is_it = fd >= 0 && ::fstat(fd, &info) == 0 && info.st_dev == file.st_dev && info.st_ino == file.st_ino;
    if (!is_it) continue;
    ++own.count;
    if ((::fcntl(fd, F_GETFL) & O_PATH) == 0) own.readable = fd;
  }
  return own;
}

bool is_in_wal_mode(int file) {
  constexpr off_t kVersionsAt = 18;  // SQLite's file format: 2 for WAL, in both bytes
  std::array<char, 2> versions{};
  return ::pread(file, versions.data(), versions.size(), kVersionsAt) == 2 && versions[0] == 2 && versions[1] == 2;
}

// The process that has a lock in this range, if it is another one; 0 if it has no number here.
std::optional<pid_t> find_locker(int file, off_t begin, off_t length) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = begin;
  range.l_len = length;
  if (::fcntl(file, F_GETLK, &range) != 0 || range.l_type == F_UNLCK) return std::nullopt;
  return std::max(range.l_pid, 0);
}

// Each connection to a file in WAL mode, of any program, has a shared lock in this range of the file.
std::optional<pid_t> find_holder(int file) { return find_locker(file, 0x40000002, 510); }

// Each one also has a lock on a byte of the log's index, unless it keeps its index to itself (our reader on a full
// disk, a connection with PRAGMA locking_mode=EXCLUSIVE). A child asks: closing the index here would release the locks
// of a connection that another thread is opening. Only a process of another program gets us here.
bool is_index_locked(const std::string& index) {
  constexpr off_t kSharedByte = 128;  // WAL_DMS of SQLite
  const char* path = index.c_str();
  pid_t child = ::fork();
  if (child == 0) {
    int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ::_exit(fd >= 0 && find_locker(fd, kSharedByte, 1) ? 1 : 0);
  }
  if (child < 0) return true;  // unknown
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return true;
  }
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

struct Holders {
  bool is_file_open = false;  // by another connection, under whatever name
  bool is_log_open = false;   // the log beside it
  pid_t pid = 0;
};

Holders look_at_holders(const std::string& path, const struct stat& file) {
  OwnDescriptors own = find_own_descriptors(file);
  if (own.count > 1) return {.is_file_open = true, .is_log_open = true};  // this process has it open already
  if (own.readable < 0 || !is_in_wal_mode(own.readable)) return {};
  std::optional<pid_t> holder = find_holder(own.readable);
  Holders holders{.is_file_open = holder.has_value(),
                  .is_log_open = WalSignals::is_in_use(path + std::string(kLogSuffix)),
                  .pid = holder.value_or(0)};
  if (holder && !holders.is_log_open) holders.is_log_open = is_index_locked(path + "-shm");
  return holders;
}

// The name under which the process has the file open: of its logs, the one whose file is ours or is gone. Nothing if it
// uses the log beside the file, or cannot be examined.
std::optional<std::string> find_other_name(pid_t pid, const std::string& path, const struct stat& file) {
  std::optional<std::string> found;
  for (const std::string& fd : list_descriptors(std::to_string(pid))) {
    std::error_code unreadable;
    std::string name = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", pid, fd), unreadable);
    if (!name.ends_with(kLogSuffix)) continue;
    name.resize(name.size() - kLogSuffix.size());
    if (name == path) return std::nullopt;
    if (leads_to(name, file)) return name;
    if (!find_stat(name)) found = name;
  }
  return found;
}

std::string in_process(pid_t pid) { return pid > 0 ? fmt::format("in process {}", pid) : "in another process"; }

Error is_open_elsewhere(const std::string& path, const struct stat& file, pid_t pid) {
  std::optional<std::string> other = find_other_name(pid, path, file);
  if (!other) {
    return {
        Code::kBusy,
        fmt::format("{} is open {}, which does not share its log with others", quote(path), in_process(pid)),
        "try again when that process has ended; if the file was moved or got a second name while it was in use, use "
        "the name that it had"};
  }
  if (file.st_nlink > 1) {
    return {Code::kBusy, fmt::format("{} is open as {}, {}", quote(path), quote(*other), in_process(pid)),
            "both names lead to one file; use that name, or replace this one with a copy made by `warren backup`"};
  }
  return {Code::kBusy,
          fmt::format("{} was moved while it was in use: it is open as {}, {}", quote(path), quote(*other),
                      in_process(pid)),
          "its latest changes are not in it yet: end that process first (`warren ps` shows it, `warren umount` ends a "
          "mount), or move the file back"};
}

// Opening a pipe would wait, and SQLite would make nothing of it.
Status check_regular(const std::string& path) {
  std::optional<struct stat> info = find_stat(path);
  if (!info || S_ISREG(info->st_mode)) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(path)),
               "SQLite keeps the latest changes of the file beside it under that name: move what is there away");
}

Status check_log_files(const std::string& path) {
  WARREN_TRY(check_regular(path + std::string(kLogSuffix)));
  return check_regular(path + "-shm");
}

struct Mark {
  std::string token;
  std::string log;  // only in the mark of a database: where its log is
};

std::string read_mark(const std::string& path) {
  std::array<char, 8192> text{};
  ssize_t length = ::getxattr(path.c_str(), kMarkName, text.data(), text.size());
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : std::string();
}

Mark find_mark(const std::string& path) {
  std::string text = read_mark(path);
  std::size_t space = text.find(' ');
  if (space == text.npos) return {.token = std::move(text), .log = {}};
  return {.token = text.substr(0, space), .log = text.substr(space + 1)};
}

bool put_mark(const std::string& path, const std::string& text) {
  return read_mark(path) == text || ::setxattr(path.c_str(), kMarkName, text.data(), text.size(), 0) == 0;
}

// Nobody else has the file or its log open.
Status check_marks(const std::string& path, const struct stat& file) {
  Mark mark = find_mark(path);
  std::string log = path + std::string(kLogSuffix);
  if (has_commits(log)) {
    std::string token = find_mark(log).token;
    // A copy of both files has the mark of the original, with its path. For a reader too: one that may write the file
    // empties the log when it closes it, and then the mark would lead to the original's log.
    bool is_own = token == mark.token && !token.empty();
    if (is_own && mark.log != log) {
      std::string text = fmt::format("{} {}", token, log);
      (void)::fsetxattr(find_own_descriptors(file).readable, kMarkName, text.data(), text.size(), 0);
    }
    if (token.empty() || token == mark.token) return Ok{};
    return Error(
        Code::kConflict,
        fmt::format("{} is the log of another file that had this name, left by a process that was killed", quote(log)),
        fmt::format("`mv {} {}` moves it away; it has the latest changes of that other file", quote(log),
                    quote(log + ".old")));
  }
  bool is_elsewhere = !mark.token.empty() && !mark.log.empty() && mark.log != log && has_commits(mark.log) &&
                      find_mark(mark.log).token == mark.token;
  if (!is_elsewhere) return Ok{};
  return Error(Code::kConflict,
               fmt::format("{} is not complete: it was moved or copied while it was in use, and its latest changes are "
                           "in {}",
                           quote(path), quote(mark.log)),
               fmt::format("`mv {} {}` moves them to it, if no process uses them", quote(mark.log), quote(log)));
}

Status check_links(const std::string& path, const struct stat& file) {
  if (file.st_nlink < 2) return Ok{};
  return Error(Code::kConflict, fmt::format("{} has {} names (hard links)", quote(path), file.st_nlink),
               fmt::format("it can be read, but not written: a change would be in the file of each name, and a log "
                           "beside only one; make it a file of its own: `cp {0} {1} && mv {1} {0}`",
                           quote(path), quote(path + ".copy")));
}

std::string make_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

}  // namespace

Status check_log_owner(const std::string& path, LogUse use) {
  std::optional<std::string> refused_marks;
  for (auto waited = std::chrono::milliseconds(0);; waited += kHolderStep) {
    std::optional<struct stat> file = find_stat(path);
    if (!file || !S_ISREG(file->st_mode)) return Ok{};  // SQLite reports it
    WARREN_TRY(check_log_files(path));
    Holders holders = look_at_holders(path, *file);
    if (holders.is_file_open && holders.is_log_open) return Ok{};
    if (!holders.is_file_open && !holders.is_log_open) {
      Status checked = check_marks(path, *file);
      if (checked.ok()) return use == LogUse::kWrite ? check_links(path, *file) : Ok{};
      // A process that opened the file after we looked has marked both files, while we read one mark after the other.
      std::string marks = fmt::format("{}\n{}", read_mark(path), read_mark(path + std::string(kLogSuffix)));
      if (refused_marks == marks || waited >= kHolderPatience) return checked;
      refused_marks = std::move(marks);
    }
    bool is_one_open = holders.is_file_open || holders.is_log_open;
    if (waited >= kHolderPatience && is_one_open) {
      if (holders.is_file_open) return is_open_elsewhere(path, *file, holders.pid);
      return Error(Code::kBusy, fmt::format("a process still has the previous {} open", quote(path)),
                   "its log is beside this one: end that process first (`warren ps` shows it, `warren umount` ends a "
                   "mount)");
    }
    std::this_thread::sleep_for(kHolderStep);
  }
}

void mark_log(const std::string& path, WalSignals& signals) {
  std::string log = path + std::string(kLogSuffix);
  if (!signals.lock_mark()) return;
  std::string token = find_mark(log).token;
  bool is_marked = !token.empty();
  if (!is_marked) token = make_token();
  // The file first: a log that is not marked belongs to any file, one with another mark to none.
  if (put_mark(path, fmt::format("{} {}", token, log)) && !is_marked) put_mark(log, token);
  signals.unlock_mark();
}

bool has_logged_commits(const std::string& path) { return has_commits(path + std::string(kLogSuffix)); }

Status check_no_log(const std::string& path) {
  WARREN_TRY(check_log_files(path));
  std::string log = path + std::string(kLogSuffix);
  if (WalSignals::is_in_use(log)) {
    return Error(Code::kBusy, fmt::format("a process still has the previous {} open", quote(path)),
                 "end that process first: `warren ps` shows it, `warren umount` ends a mount");
  }
  if (!has_commits(log)) return Ok{};
  return Error(Code::kConflict,
               fmt::format("there is no {}, but {} was left by a process that was killed", quote(path), quote(log)),
               fmt::format("it has the latest changes of the file that was there; `mv {} {}` moves it away", quote(log),
                           quote(log + ".old")));
}

}  // namespace warren
