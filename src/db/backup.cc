// Database::backup_to: a copy of a database that appears under its name only when it is complete.
#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/path.h"
#include "db/database.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

Status remove_companions(const std::string& path) {
  for (const char* suffix : {"-wal", "-shm", "-journal"}) WARREN_TRY(remove_host_file(path + suffix));
  return Ok{};
}

constexpr std::string_view kDraftMark = ".partial-";
constexpr std::size_t kDraftDigits = 16;
constexpr int kDraftTries = 10;
constexpr std::int64_t kDraftSeconds = 60;  // a draft in use was written to lately, or is locked

// The target's name in a draft's name; nullopt if it is not one.
std::optional<std::string_view> target_of_draft(std::string_view name) {
  std::size_t mark = name.rfind(kDraftMark);
  if (mark == name.npos) return std::nullopt;
  std::string_view digits = name.substr(mark + kDraftMark.size());
  bool is_draft = digits.size() == kDraftDigits && digits.find_first_not_of("0123456789abcdef") == digits.npos;
  return is_draft ? std::optional(name.substr(0, mark)) : std::nullopt;
}

// A restore's target ends in the number of its process.
std::string_view without_number(std::string_view name) {
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

// Removes what killed processes left of copies with this name.
void remove_leftovers(const std::string& path) {
  std::string folder(directory_of(path));
  Result<Fd> dir = open_host_dir(folder);
  if (!dir.ok()) return;
  Result<std::vector<HostEntry>> entries = list_host_dir(dir->get());
  if (!entries.ok()) return;
  for (const HostEntry& entry : *entries) {
    std::optional<std::string_view> target = target_of_draft(entry.name);
    if (!target || without_number(*target) != without_number(base_name(path))) continue;
    std::string draft = join_path(folder, entry.name);
    Fd fd(::open(draft.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info {};
    bool is_old = fd.is_open() && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) &&
                  info.st_mtime + kDraftSeconds < ::time(nullptr);
    if (!is_old || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    remove_companions(draft).ignore("the next copy tries again");
    ::unlink(draft.c_str());
  }
}

// Shows others that the file is in use. False if somebody who removes leftovers got it first.
bool lock_new(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;  // other errors: without locks here
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_nlink > 0;
}

// The file that a copy is written to, new and with a name of its own: a file that exists already is somebody's. Removed
// unless it was published.
class CopyDraft {
 public:
  static Result<CopyDraft> open(const std::string& path, mode_t mode) {
    remove_leftovers(path);
    std::random_device random;
    for (int tries = 0; tries < kDraftTries; ++tries) {
      std::string draft = fmt::format("{}{}{:08x}{:08x}", path, kDraftMark, random(), random());
      Fd fd(::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
      if (!fd.is_open()) return system_error(errno, fmt::format("create {}", quote(draft)));
      if (lock_new(fd.get())) return CopyDraft(std::move(fd), std::move(draft));
      ::unlink(draft.c_str());
    }
    return Error(Code::kBusy, fmt::format("another program removes what is written to {}", quote(path)));
  }

  CopyDraft(CopyDraft&&) = default;
  CopyDraft& operator=(CopyDraft&&) = delete;
  ~CopyDraft() {
    if (!fd_.is_open() || is_published_) return;
    remove_companions(path_).ignore("the first error is the one to report");
    ::unlink(path_.c_str());
  }

  const std::string& path() const { return path_; }

  Status sync() {
    if (::fsync(fd_.get()) != 0) return system_error(errno, fmt::format("sync {}", quote(path_)));
    return Ok{};
  }

  Status publish(const std::string& path) {
    struct stat at_path {};
    struct stat ours {};
    Status done = publish_host_file(path_, path);
    is_published_ = ::fstat(fd_.get(), &ours) == 0 && ::lstat(path.c_str(), &at_path) == 0 &&
                    ours.st_ino == at_path.st_ino && ours.st_dev == at_path.st_dev;
    return done;
  }

 private:
  CopyDraft(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Fd fd_;
  std::string path_;
  bool is_published_ = false;
};

// Whoever may not read the original may not read a copy of it either. The umask is applied to the result.
Result<mode_t> mode_of_copy(const std::string& original) {
  constexpr mode_t kDefaultMode = 0644;  // of a database in memory
  std::optional<struct stat> file = WARREN_TRY(find_host_file(original));
  return file ? (file->st_mode & 0666) | 0600 : kDefaultMode;
}

// By the file alone: what a reader finds once it has its name.
Status check_copy(const std::string& path, std::int64_t pages, CopyOf source, const KeyFinder& find_key) {
  for (const char* suffix : {"-wal", "-journal"}) {
    if (!WARREN_TRY(find_host_link(path + suffix))) continue;
    return Error(Code::kBusy, fmt::format("another program has opened {}", quote(path)), "choose another name");
  }
  auto copy = WARREN_TRY(Database::open(path, {.mode = OpenMode::kImmutable, .find_key = find_key}));
  DatabaseSize size = WARREN_TRY(copy->size());
  std::optional<struct stat> file = WARREN_TRY(find_host_file(path));
  auto expected = static_cast<std::uint64_t>(pages) * size.page_bytes;
  auto found = file ? static_cast<std::uint64_t>(file->st_size) : 0;
  if (size.total_bytes != expected || found != expected) {
    return Error(Code::kIo, fmt::format("the copy has {} bytes instead of {}", found, expected));
  }
  if (source == CopyOf::kDamaged) return Ok{};
  Statement check = WARREN_TRY(copy->prepare("PRAGMA quick_check(1)"));
  Rows rows = check.rows();
  if (!WARREN_TRY(rows.next())) return Error(Code::kInternal, "SQLite did not check the copy");
  if (rows.text(0) == "ok") return Ok{};
  return Error(Code::kCorrupt, fmt::format("the copy is damaged: {}", rows.text(0)),
               "`warren fsck` shows whether the original is; `cp` copies a damaged file as it is");
}

}  // namespace

Status Database::backup_to(const std::string& path, CopyOf source, const SharedDatabaseKey& key) {
  SharedDatabaseKey copy_key = key ? key : key_;
  auto guard = lock();
  if (depth_ > 0 && writing_) return Error(Code::kBusy, "a backup would contain changes that are not committed yet");
  WARREN_TRY(end_batch());
  if (WARREN_TRY(find_host_link(path))) return Error(Code::kExists, fmt::format("{} exists already", quote(path)));
  mode_t mode = WARREN_TRY(mode_of_copy(path_));
  CopyDraft draft = WARREN_TRY(CopyDraft::open(path, mode));
  std::int64_t pages = WARREN_TRY(copy_to(draft.path(), copy_key));
  guard.unlock();
  WARREN_TRY(draft.sync());
  auto find_key = [&](std::string_view) -> Result<SharedDatabaseKey> { return copy_key; };
  WARREN_TRY(check_copy(draft.path(), pages, source, find_key));
  return draft.publish(path);
}

Result<std::int64_t> Database::copy_to(const std::string& path, const SharedDatabaseKey& key) {
  std::optional<std::int64_t> page_bytes = WARREN_TRY(page_size_.find_integer());
  // SQLite copies whole pages, so both have the same size.
  DatabaseOptions options{.mode = OpenMode::kDraft, .key = key};
  if (page_bytes) options.page_bytes = static_cast<std::uint32_t>(*page_bytes);
  std::unique_ptr<Database> copy = WARREN_TRY(open(path, options));
  sqlite3_backup* backup = sqlite3_backup_init(copy->handle_, "main", handle_, "main");
  if (backup == nullptr) return copy->error(sqlite3_errcode(copy->handle_), "back up");
  int code = sqlite3_backup_step(backup, -1);
  int pages = sqlite3_backup_pagecount(backup);
  int finished = sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE) return copy->error(code, "back up");
  if (finished != SQLITE_OK) return copy->error(finished, "back up");
  return pages;
}

Status Database::write_anew(const std::string& path, const SharedDatabaseKey& key) {
  auto guard = lock();
  if (depth_ > 0) return Error(Code::kBusy, "a copy cannot be made within a transaction");
  if (WARREN_TRY(find_host_link(path))) return Error(Code::kExists, fmt::format("{} exists already", quote(path)));
  CopyDraft draft = WARREN_TRY(CopyDraft::open(path, 0600));
  std::string sql = vacuum_into(draft.path(), key.get());
  int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  ::explicit_bzero(sql.data(), sql.size());
  // Not SQLite's own message: it may repeat the statement, which has the key.
  if (code != SQLITE_OK) {
    Code why = error(code, "").code();
    return Error(why, fmt::format("write the database anew: {}", sqlite3_errstr(code)));
  }
  std::optional<struct stat> file = WARREN_TRY(find_host_file(draft.path()));
  std::int64_t pages = file ? file->st_size / page_bytes_ : 0;
  guard.unlock();
  WARREN_TRY(draft.sync());
  auto find_key = [&](std::string_view) -> Result<SharedDatabaseKey> { return key; };
  WARREN_TRY(check_copy(draft.path(), pages, CopyOf::kSound, find_key));
  return draft.publish(path);
}

namespace {

// SQLite does not wait here. Commands that are just using the file end soon; a mount does not.
int leave_wal_mode(sqlite3* handle) {
  constexpr std::chrono::milliseconds kStep{10};
  constexpr int kSteps = 100;
  int code = SQLITE_OK;
  for (int steps = 0; steps < kSteps; ++steps) {
    code = sqlite3_exec(handle, "PRAGMA journal_mode=DELETE", nullptr, nullptr, nullptr);
    if ((code & 0xff) != SQLITE_BUSY && (code & 0xff) != SQLITE_LOCKED) break;
    std::this_thread::sleep_for(kStep);
  }
  return code;
}

}  // namespace

Status Database::hold_alone() {
  auto guard = lock();
  // A connection that leaves WAL mode has the whole file locked, and in this mode it keeps the lock.
  int code = sqlite3_exec(handle_, "PRAGMA locking_mode=EXCLUSIVE", nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) code = leave_wal_mode(handle_);
  if (code == SQLITE_OK) code = sqlite3_exec(handle_, "BEGIN EXCLUSIVE; COMMIT", nullptr, nullptr, nullptr);
  if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED) {
    return Error(Code::kBusy, fmt::format("{} is open in another process", quote(path_)),
                 "stop that process, then try again: `warren ps` shows mounts and runs");
  }
  if (code != SQLITE_OK) return error(code, fmt::format("lock {}", quote(path_)));
  log_index_ = nullptr;
  return Ok{};
}

// With exclusive locking SQLite keeps its journal, and removes it by its name when it closes the file: by then that is
// the journal of whoever opens the file that has taken the name.
Status Database::leave_no_journal() {
  auto guard = lock();
  int code = sqlite3_exec(handle_, "PRAGMA journal_mode=MEMORY", nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code, fmt::format("close the journal of {}", quote(path_)));
  WARREN_TRY(remove_host_file(fmt::format("{}-journal", sqlite3_db_filename(handle_, "main"))));
  return Ok{};
}

void Database::outwait_others() {
  constexpr std::chrono::milliseconds kLook{20};
  auto end = std::chrono::steady_clock::now() + limits::kBusyWait + std::chrono::seconds(1);
  while (named_file_ && named_file_->is_open_elsewhere() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace warren
