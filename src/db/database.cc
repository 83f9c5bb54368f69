#include "db/database.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/check.h"
#include "base/must_keep.h"
#include "base/path.h"
#include "db/log_owner.h"
#include "db/sqlite_init.h"
#include "db/transaction.h"
#include "db/wal_signals.h"
#include "db/wal_vfs.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

Code code_of(int sqlite_code, int system_errno) {
  switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return Code::kBusy;
    case SQLITE_FULL: return Code::kNoSpace;
    case SQLITE_IOERR: return system_errno == ENOSPC || system_errno == EDQUOT ? Code::kNoSpace : Code::kIo;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Code::kCorrupt;
    case SQLITE_READONLY: return Code::kReadOnly;
    case SQLITE_CANTOPEN:
      return system_errno == ENOENT ? Code::kNotFound : system_errno == EACCES ? Code::kDenied : Code::kIo;
    case SQLITE_PERM:
    case SQLITE_AUTH: return Code::kDenied;
    case SQLITE_TOOBIG: return Code::kTooLarge;
    case SQLITE_CONSTRAINT: return Code::kConflict;
    case SQLITE_NOMEM: return Code::kLimit;
    default: return Code::kInternal;
  }
}

std::string_view hint_of(Code code, int sqlite_code) {
  if (code == Code::kNoSpace) return "free some space; nothing was changed";
  switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return "another process is writing to this agent; try again";
    case SQLITE_CORRUPT: return "`warren fsck` shows what is damaged; a backup may be intact";
    default: return {};
  }
}

bool exists(const std::string& path) {
  struct stat ignored {};
  return ::lstat(path.c_str(), &ignored) == 0;
}

// Whether the text after a statement is more than blanks, semicolons and comments.
bool holds_a_statement(sqlite3* handle, std::string_view text) {
  while (!text.empty()) {
    sqlite3_stmt* found = nullptr;
    const char* rest = nullptr;
    int code = sqlite3_prepare_v3(handle, text.data(), static_cast<int>(text.size()), 0, &found, &rest);
    sqlite3_finalize(found);
    auto taken = static_cast<std::size_t>(rest - text.data());
    if (code != SQLITE_OK || found != nullptr || taken == 0) return true;
    text.remove_prefix(taken);
  }
  return false;
}

// Where the index of the log is. In memory: nobody else can open the file.
enum class LogIndex { kShared, kInMemory };

bool is_exclusive(sqlite3* handle) {
  bool found = false;
  auto compare = [](void* out, int, char** values, char**) {
    *static_cast<bool*>(out) = values[0] != nullptr && std::string_view(values[0]) == "exclusive";
    return 0;
  };
  sqlite3_exec(handle, "PRAGMA locking_mode", compare, &found, nullptr);
  return found;
}

// Whether the disk of the open file has room for so many bytes more.
bool has_room(int file, std::uint64_t bytes) {
  struct statvfs disk {};
  if (::fstatvfs(file, &disk) != 0) return true;
  std::uint64_t blocks = ::geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  return blocks * disk.f_frsize >= bytes;
}

// What is passed to sqlite3_open_v2.
struct Request {
  std::string name;
  int flags;
};

// Reading a file in WAL mode creates -wal and -shm files beside it, and only a connection that may
// write removes them. So where we have write permission, a reader is a writer with query_only set. Where we
// have none and there is no -wal file, SQLite cannot change the file, and it is opened as immutable.
Request request_to_read(const std::string& path) {
  bool may_write = ::access(std::string(directory_of(path)).c_str(), W_OK) == 0 && ::access(path.c_str(), W_OK) == 0;
  if (may_write) return {uri_of(path, ""), SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI};
  return {uri_of(path, exists(path + "-wal") ? "?mode=ro" : "?mode=ro&immutable=1"),
          SQLITE_OPEN_READONLY | SQLITE_OPEN_URI};
}

Request request_for(const std::string& path, OpenMode mode) {
  if (path == ":memory:") return {path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE};
  if (mode == OpenMode::kReadOnly) return request_to_read(path);
  if (mode == OpenMode::kImmutable)
    return {uri_of(path, "?mode=ro&immutable=1"), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI};
  int create = mode == OpenMode::kCreate ? SQLITE_OPEN_CREATE : 0;
  return {uri_of(path, ""), SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI | create};
}

// SQLite cannot take a first page for its own unless the key has opened it.
Error damaged_or_wrong_key(int code) {
  if (code == SQLITE_NOTADB) {
    return {
        Code::kCorrupt, "it is encrypted, and its key does not fit or its first page is damaged",
        "if the key in its old place was replaced by a new one, put the old one back: `warren rekey` needs both, and "
        "takes the new one from another place"};
  }
  return {Code::kCorrupt, "it is encrypted, its key fits, and it is damaged: a part of it is missing, or was changed",
          "copy it again, or restore it from a backup"};
}

}  // namespace

Error Database::error(int code, std::string_view what) const {
  int system_errno = sqlite3_system_errno(handle_);
  Code kind = code_of(code, system_errno);
  std::string message = (code & 0xff) == SQLITE_BUSY ? "the agent file is locked by another process"
                        : kind == Code::kNoSpace     ? "the disk is full"
                                                     : sqlite3_errmsg(handle_);
  if ((code & 0xff) == SQLITE_IOERR && system_errno != 0) {
    message = system_error(system_errno, message).message();
  }
  Error error(kind, std::move(message), std::string(hint_of(kind, code)));
  return what.empty() ? error : std::move(error).within(what);
}

Result<std::unique_ptr<Database>> Database::open_once(const std::string& path, const DatabaseOptions& options) {
  bool in_memory = path == ":memory:";
  if (path.empty()) return Error(Code::kInvalid, "the path of the file is empty");  // to SQLite: a temporary file
  if (!in_memory && options.mode == OpenMode::kCreate && exists(path)) {
    return Error(Code::kExists, fmt::format("{} exists already", quote(path)));
  }
  bool read_only = options.mode == OpenMode::kReadOnly || options.mode == OpenMode::kImmutable;
  bool may_have_log = !in_memory && (options.mode == OpenMode::kReadOnly || options.mode == OpenMode::kReadWrite);
  auto attempt = [&](LogIndex index) -> Result<std::unique_ptr<Database>> {
    std::unique_ptr<Database> database = WARREN_TRY(open_handle(path, options, options.key));
    std::optional<std::string> salt;
    if (!in_memory && !options.key) {
      salt = WARREN_TRY(find_salt(database->handle_).within(fmt::format("open {}", quote(path))));
    }
    if (salt) {
      database.reset();
      database = WARREN_TRY(open_encrypted(path, options, *salt));
    }
    sqlite3* handle = database->handle_;
    if (!database->read_only_ && sqlite3_db_readonly(handle, "main") == 1) {
      // SQLite would open it for reading, and leave files behind that it may not remove.
      return Error(Code::kDenied, fmt::format("you do not have permission to write {}", quote(path)),
                   "give yourself write permission on the file and its directory");
    }
    if (may_have_log) {
      database->log_had_commits_ = has_logged_commits(sqlite3_db_filename(handle, "main"));
      WARREN_TRY(check_log_owner(sqlite3_db_filename(handle, "main"), read_only ? LogUse::kRead : LogUse::kWrite));
    }
    if (index == LogIndex::kInMemory) WARREN_TRY(database->execute("PRAGMA locking_mode=EXCLUSIVE"));
    database->wait_unless_replaced();
    Status configured = database->configure(options);
    if (!configured.ok() && configured.error().code() == Code::kCorrupt && salt) {
      configured = damaged_or_wrong_key(sqlite3_errcode(handle));
    }
    WARREN_TRY(std::move(configured).within(fmt::format("open {}", quote(path))));
    sqlite3_busy_timeout(handle, static_cast<int>(database->busy_wait_.count()));
    return database;
  };
  Result<std::unique_ptr<Database>> opened = attempt(LogIndex::kShared);
  // On a full disk there is no room for the file of the index. A reader can do without it, if it is alone.
  bool needs_room = !opened.ok() && opened.error().code() == Code::kNoSpace;
  return needs_room && may_have_log && read_only ? attempt(LogIndex::kInMemory) : std::move(opened);
}

// With a key, the file is encrypted or will be.
Result<std::unique_ptr<Database>> Database::open_handle(const std::string& path, const DatabaseOptions& options,
                                                        SharedDatabaseKey key) {
  Request request = request_for(path, options.mode);
  bool in_memory = path == ":memory:";
  bool read_only = options.mode == OpenMode::kReadOnly || options.mode == OpenMode::kImmutable;
  std::string cipher;
  bool needs_cipher = key || options.conversion == Conversion::kPossible;
  if (needs_cipher) cipher = WARREN_TRY(cipher_vfs(options.vfs));
  const char* below = needs_cipher ? cipher.c_str() : options.vfs;
  std::unique_ptr<WalVfs> vfs;
  if (!in_memory && !read_only) {
    CommitSync sync = options.durability == Durability::kPower ? CommitSync::kDisk : CommitSync::kSystem;
    vfs = WARREN_TRY(WalVfs::open(below, sync));
  }
  sqlite3* handle = nullptr;
  std::optional<FileId> found = find_file_id(path);
  int code =
      sqlite3_open_v2(request.name.c_str(), &handle, request.flags | SQLITE_OPEN_NOMUTEX, vfs ? vfs->name() : below);
  if (handle == nullptr) return Error(Code::kLimit, fmt::format("open {}: out of memory", quote(path)));
  std::unique_ptr<Database> database(new Database(path, std::move(vfs), handle));
  if (code != SQLITE_OK) return database->error(code, fmt::format("open {}", quote(path)));
  database->read_only_ = !in_memory && read_only;
  database->busy_wait_ = options.busy_wait;
  if (!in_memory) database->found_file_ = found;
  if (key) WARREN_TRY(set_key(handle, *key).within(fmt::format("open {}", quote(path))));
  database->key_ = std::move(key);
  return database;
}

Result<std::unique_ptr<Database>> Database::open_encrypted(const std::string& path, const DatabaseOptions& options,
                                                           std::string_view salt) {
  if (!options.find_key) {
    return Error(Code::kDenied, fmt::format("{} is encrypted, and its key is not known here", quote(path)));
  }
  SharedDatabaseKey key = WARREN_TRY(options.find_key(salt).within(fmt::format("open {}", quote(path))));
  WARREN_CHECK(key != nullptr);
  if (key->salt() != salt) {
    return Error(Code::kInvalid, fmt::format("open {}: the key is that of another file", quote(path)));
  }
  return open_handle(path, options, std::move(key));
}

KeyFinder Database::key_finder() const {
  if (!key_) return {};
  return [key = key_](std::string_view) -> Result<SharedDatabaseKey> { return key; };
}

Database::Database(std::string path, std::unique_ptr<WalVfs> vfs, sqlite3* handle)
    : path_(std::move(path)), vfs_(std::move(vfs)), handle_(handle) {}

// SQLite does not wait here if another connection writes to a file that is not in WAL mode yet.
Status Database::switch_to_wal(std::chrono::milliseconds wait) {
  constexpr std::chrono::milliseconds kStep{10};
  for (;; wait -= kStep) {
    int code = sqlite3_exec(handle_, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return Ok{};
    if ((code & 0xff) != SQLITE_BUSY || wait <= kStep || is_replaced()) return error(code, {});
    std::this_thread::sleep_for(kStep);
  }
}

Status Database::configure(const DatabaseOptions& options) {
  sqlite3_extended_result_codes(handle_, 1);
  // The file is untrusted input: no functions from its schema, no writes to the schema, no trust in views.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // Plans do not depend on bound values: otherwise SQLite parses a statement with `LIMIT ?` again at each bind.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_QPSG, 1, nullptr);
  auto pragma = [&](const std::string& text) -> Status {
    int code = sqlite3_exec(handle_, text.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return error(code, {});
    return Ok{};
  };
  bool is_new = options.mode == OpenMode::kCreate || options.mode == OpenMode::kDraft;
  if (is_new) WARREN_TRY(pragma(fmt::format("PRAGMA page_size={}", options.page_bytes)));
  WARREN_TRY(pragma(fmt::format("PRAGMA cache_size=-{}", options.cache_bytes / 1024)));
  WARREN_TRY(pragma("PRAGMA temp_store=MEMORY"));
  if (read_only_) {
    // query_only forbids temporary tables too. Without it, the caller's SQL must not write.
    if (options.temp_tables == TempTables::kNo) WARREN_TRY(pragma("PRAGMA query_only=1"));
  } else if (options.mode == OpenMode::kDraft) {
    WARREN_TRY(pragma("PRAGMA journal_mode=OFF"));
    WARREN_TRY(pragma("PRAGMA synchronous=FULL"));
  } else {
    WARREN_TRY(switch_to_wal(options.busy_wait));
    // Every commit then syncs the log, and WalVfs decides by our durability whether that reaches the disk.
    // "Full" marks a checkpoint's syncs, which always must.
    WARREN_TRY(pragma("PRAGMA synchronous=FULL"));
    WARREN_TRY(pragma("PRAGMA checkpoint_fullfsync=1"));
    if (options.log_bytes > 0) {
      WARREN_TRY(pragma(fmt::format("PRAGMA wal_autocheckpoint={}", options.log_bytes / options.page_bytes)));
    }
  }
  commits_ = options.commits;
  if (commits_ == Commits::kGrouped) {
    // A batch stays in memory until it is committed, so that none of its changes can fail half-way for lack
    // of space. The store's keeper runs checkpoints, in a thread of its own.
    WARREN_TRY(pragma("PRAGMA cache_spill=0"));
  }
  bool by_owner = commits_ == Commits::kGrouped || options.checkpoints == Checkpoints::kByOwner;
  if (by_owner) {  // replaces SQLite's own checkpoints
    auto note_commit = [](void* self, sqlite3*, const char*, int pages) {
      static_cast<Database*>(self)->log_pages_ = static_cast<std::uint32_t>(pages);
      ++static_cast<Database*>(self)->own_commits_;
      return SQLITE_OK;
    };
    sqlite3_wal_hook(handle_, note_commit, this);
  }
  WARREN_TRY(prepare_own_statements());
  WARREN_TRY(page_count_.find_integer());  // a first read of the file: SQLite creates the log if there is none
  if (path_ != ":memory:") signals_ = WalSignals::open(wal_path());
  batch_.set_signals(signals_.get());
  if (signals_) map_log_index();
  if (signals_ && !read_only_) {
    Result<NamedFile> file = NamedFile::open(sqlite3_db_filename(handle_, "main"));
    if (file.ok()) named_file_ = std::move(file).take_value();  // otherwise it was deleted just now
    mark_log(sqlite3_db_filename(handle_, "main"), *signals_);
  }
  return Ok{};
}

Status Database::prepare_own_statements() {
  begin_read_ = WARREN_TRY(prepare("BEGIN"));
  begin_write_ = WARREN_TRY(prepare("BEGIN IMMEDIATE"));
  commit_ = WARREN_TRY(prepare("COMMIT"));
  rollback_ = WARREN_TRY(prepare("ROLLBACK"));
  page_count_ = WARREN_TRY(prepare("PRAGMA page_count"));
  free_count_ = WARREN_TRY(prepare("PRAGMA freelist_count"));
  page_size_ = WARREN_TRY(prepare("PRAGMA page_size"));
  auto page_bytes = WARREN_TRY(page_size_.find_integer());
  page_bytes_ = page_bytes.value_or(page_bytes_);
  look_ = WARREN_TRY(prepare("PRAGMA data_version"));
  return Ok{};
}

Database::~Database() {
  // The observer may be destroyed already, and without the rows it keeps back a batch is incomplete: an observer ends
  // the batch while both exist. A batch that is still open is rolled back.
  if (observer_ == nullptr) end_batch().ignore("a caller that needs to know has called sync");
  for (Statement* statement :
       {&begin_read_, &begin_write_, &commit_, &rollback_, &page_count_, &free_count_, &page_size_, &look_}) {
    *statement = Statement();
  }
  if (is_overwritten_) sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  // Every Statement is a member of an object destroyed before its database; one left over is our bug.
  WARREN_CHECK(sqlite3_close(handle_) == SQLITE_OK);
}

Result<Statement> Database::prepare(Sql sql) {
  sqlite3_stmt* handle = nullptr;
  int code = sqlite3_prepare_v3(handle_, sql.text().data(), static_cast<int>(sql.text().size()),
                                SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  if (code != SQLITE_OK) return error(code, {});
  return Statement(*this, handle);
}

Result<Statement> Database::prepare(UserSql sql) {
  sqlite3_stmt* handle = nullptr;
  const char* rest = nullptr;
  if (sql.text.size() > std::size_t{1} << 20) return Error(Code::kTooLarge, "the SQL text is over 1 MiB");
  CipherSqlBan ban(handle_);
  int code = sqlite3_prepare_v3(handle_, sql.text.data(), static_cast<int>(sql.text.size()), 0, &handle, &rest);
  if (code != SQLITE_OK) return Error(Code::kInvalid, sqlite3_errmsg(handle_));
  Statement statement(*this, handle);
  if (handle == nullptr) return Error(Code::kInvalid, "there is no SQL statement in the text");
  std::string_view left = sql.text.substr(static_cast<std::size_t>(rest - sql.text.data()));
  if (holds_a_statement(handle_, left)) {
    return Error(Code::kInvalid, "more than one SQL statement", "run them one by one");
  }
  return statement;
}

Result<Statement> Database::prepare(const JoinedSql& sql) { return prepare_again(sql.text()); }

Result<Statement> Database::prepare_again(const std::string& sql) {
  sqlite3_stmt* handle = nullptr;
  int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), 0, &handle, nullptr);
  if (code != SQLITE_OK) return error(code, {});
  return Statement(*this, handle);
}

Status Database::execute(Sql sql) {
  int code = sqlite3_exec(handle_, sql.text().data(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code, {});
  return Ok{};
}

Status Database::execute(const JoinedSql& sql) {
  int code = sqlite3_exec(handle_, sql.text().c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code, {});
  return Ok{};
}

std::int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(handle_); }

std::int64_t Database::changes() const { return sqlite3_changes64(handle_); }

std::int64_t Database::total_changes() const { return sqlite3_total_changes64(handle_) + batch_.kept_back(); }

std::uint32_t Database::version() const {
  std::uint32_t version = 0;
  sqlite3_file_control(handle_, "main", SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

bool Database::was_rolled_back() const { return !deferred_ && sqlite3_get_autocommit(handle_) != 0; }

// The index begins with a header that each commit rewrites: counters, sizes, checksums.
void Database::map_log_index() {
  if (is_exclusive(handle_)) return;    // it is in memory, and asking for it would create the file
  constexpr int kRegionBytes = 32'768;  // SQLite's own: it returns the mapping it has
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(handle_, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK || file == nullptr) return;
  if (file->pMethods == nullptr || file->pMethods->iVersion < 2 || file->pMethods->xShmMap == nullptr) return;
  volatile void* mapped = nullptr;
  if (file->pMethods->xShmMap(file, 0, kRegionBytes, 0, &mapped) != SQLITE_OK) return;
  log_index_ = static_cast<const volatile std::byte*>(mapped);
}

// A copy torn by a concurrent commit equals no earlier one, and that is enough here.
Database::CommitMark Database::read_log_index() const {
  CommitMark header;
  for (std::size_t i = 0; i < header.size(); i += sizeof(std::uint64_t)) {
    // Another process may be writing it. std::atomic_ref does not take a const mapping.
    std::uint64_t word =
        __atomic_load_n(reinterpret_cast<const volatile std::uint64_t*>(log_index_ + i), __ATOMIC_ACQUIRE);
    std::memcpy(header.data() + i, &word, sizeof word);
  }
  return header;
}

// The index's second part, after two copies of its header: SQLite's WalCkptInfo.
Database::CheckpointMark Database::read_checkpoint_mark() const {
  constexpr std::size_t kSaltAt = 32;
  constexpr std::size_t kDoneAt = 96;
  constexpr std::size_t kAttemptedAt = 128;
  auto word_at = [this](std::size_t at) {
    return __atomic_load_n(reinterpret_cast<const volatile std::uint32_t*>(log_index_ + at), __ATOMIC_ACQUIRE);
  };
  return {
      .salt = {word_at(kSaltAt), word_at(kSaltAt + 4)}, .done = word_at(kDoneAt), .attempted = word_at(kAttemptedAt)};
}

// A checkpoint notes what it attempts before it writes, and what it has done after that. So if it explains the writes,
// the mark differs from the one before the last look, or says that a checkpoint is under way: at the beginning of this
// look or, for writes since then, at its end.
void Database::look_for_writes(const std::function<bool()>& was_written) {
  if (log_index_ == nullptr) return;
  std::lock_guard guard(checkpoint_mark_mutex_);
  CheckpointMark first = read_checkpoint_mark();
  bool has_writes = was_written();
  CheckpointMark last = read_checkpoint_mark();
  auto explains = [this](const CheckpointMark& mark) {
    return !checkpoint_mark_ || mark != *checkpoint_mark_ || mark.attempted != mark.done;
  };
  bool is_explained = explains(first) || explains(last);
  checkpoint_mark_ = first;
  if (!has_writes || is_explained || is_overwritten_) return;
  is_overwritten_ = true;
  remove_log_names();
}

Error Database::overwritten() const {
  return {
      Code::kStale,
      fmt::format("the agent file {} was overwritten while it was in use, so what was in it is lost",
                  quote(sqlite3_db_filename(handle_, "main"))),
      "it has what was written to it, and nothing else; unmount an agent before you replace its file, or use `warren "
      "restore`"};
}

std::optional<Database::CommitMark> Database::find_commit_mark() {
  bool is_alone = depth_ == 0 && !batch_.is_open();
  if (log_index_ == nullptr || !is_alone || is_batch_elsewhere(Access::kRead)) return std::nullopt;
  return read_log_index();
}

std::optional<std::uint32_t> Database::count_commits() const {
  if (log_index_ == nullptr) return std::nullopt;
  constexpr std::size_t kCommitsAt = 8;  // in the index's header: iChange, "incremented each transaction"
  const auto* commits = reinterpret_cast<const volatile std::uint32_t*>(log_index_ + kCommitsAt);
  return __atomic_load_n(commits, __ATOMIC_ACQUIRE);
}

std::optional<std::uint32_t> Database::count_foreign_commits() const {
  if (commits_ != Commits::kGrouped) return std::nullopt;
  std::optional<std::uint32_t> all = count_commits();
  if (all) *all -= own_commits_;
  return all;
}

std::uint64_t Database::foreign_epoch() {
  std::uint32_t now = version();
  if (now != seen_version_) {
    seen_version_ = now;
    ++foreign_epoch_;
  }
  return foreign_epoch_;
}

Result<DatabaseSize> Database::size() {
  auto guard = lock();
  auto pages = WARREN_TRY(page_count_.find_integer());
  auto free_pages = WARREN_TRY(free_count_.find_integer());
  auto bytes = WARREN_TRY(page_size_.find_integer());
  auto page_bytes = static_cast<std::uint64_t>(bytes.value_or(0));
  auto used_pages = static_cast<std::uint64_t>(pages.value_or(0) - free_pages.value_or(0));
  return DatabaseSize{.page_bytes = page_bytes,
                      .total_bytes = static_cast<std::uint64_t>(pages.value_or(0)) * page_bytes,
                      .used_bytes = used_pages * page_bytes};
}

std::string Database::wal_path() const {
  // SQLite's name is absolute: the working directory may have changed since path_ was given.
  return sqlite3_filename_wal(sqlite3_db_filename(handle_, "main"));
}

Status Database::sync() {
  if (path_ == ":memory:" || read_only_) return Ok{};
  {
    auto guard = lock();
    WARREN_TRY(end_batch());
  }
  Status synced = sync_log();
  Status named = check_name();  // the more important error: without its name everything is lost
  if (named.ok()) return synced;
  if (is_overwritten_) return named;
  // When it is closed, a deleted file is copied, and a moved one gets what is in the log. While there is no room for
  // that, it must not be closed.
  std::uint64_t needed = WARREN_TRY(size())
  .total_bytes;
  std::optional<std::string> moved = named_file_->find_new_name();
  std::optional<struct stat> file;
  if (moved) file = WARREN_TRY(find_host_file(*moved));
  if (file) needed -= std::min(needed, static_cast<std::uint64_t>(file->st_size));
  if (has_room(signals_->wal_fd(), needed)) return named;
  return Error(Code::kNoSpace, fmt::format("{}, and the disk has no room to save its content", named.error().message()),
               "free some space");
}

Status Database::check_name() {
  if (is_overwritten_) return overwritten();
  if (!named_file_) return Ok{};
  NamedFile::Name name = named_file_->look();
  if (name == NamedFile::Name::kOurs) return Ok{};
  if (name == NamedFile::Name::kNone) remove_log_names();
  return Error(Code::kStale, fmt::format("the agent file {} was deleted, moved or replaced while it was in use",
                                         quote(sqlite3_db_filename(handle_, "main"))));
}

void Database::remove_log_names() {
  if (log_is_nameless_.exchange(true)) return;
  std::string log = wal_path();
  remove_name_of(signals_->wal_fd(), log);
  // The index belongs to the log beside it. Only SQLite has it open, so it cannot be compared.
  if (!exists(log)) ::unlink((log.substr(0, log.size() - std::string_view("-wal").size()) + "-shm").c_str());
}

Result<std::optional<std::string>> Database::settle_moved_file() {
  std::optional<std::string> path;
  if (named_file_) path = named_file_->find_new_name();
  if (!path) return path;
  WARREN_TRY(empty_log());
  remove_log_names();
  return path;
}

Status Database::sync_log() {
  // Our own descriptor, which is safe for the -wal file: SQLite's locks are on the other two files. Without a -wal
  // file, or with an empty one, everything is in the database file and synced.
  if (!signals_) return Ok{};
  if (::fdatasync(signals_->wal_fd()) != 0) return system_error(errno, fmt::format("sync {}", quote(wal_path())));
  // SQLite creates the log each time the agent is opened, so its name in the directory is new too.
  if (!log_name_is_synced_) WARREN_TRY(sync_host_dir(std::string(directory_of(wal_path()))));
  log_name_is_synced_ = true;
  return Ok{};
}

Status Database::reserve(std::uint64_t bytes, Room room) {
  if (!is_grouped() || signals_ == nullptr) return Ok{};
  auto guard = lock();
  // Within a transaction that is not shared there is no batch: SQLite reports a full disk before anything is promised.
  if (depth_ > 0 && !batch_.is_open()) return Ok{};
  Status reserved = reserve_room(bytes, room);
  if (!reserved.ok() && MustKeep::is_on() && batch_.keep_without_room(bytes)) return Ok{};
  return reserved;
}

Status Database::reserve_room(std::uint64_t bytes, Room room) {
  if (batch_.failure() && room == Room::kUsual) return *batch_.failure();
  auto attempt = [&]() -> Result<bool> {
    LogState log{.page_bytes = page_bytes_, .pages = log_pages_, .is_checkpointed = log_is_checkpointed_};
    return batch_.reserve(bytes, room, log, free_count_);
  };
  if (WARREN_TRY(attempt())) return Ok{};
  if (depth_ == 0) {
    // Nearly full: a checkpoint lets the log reuse its space.
    WARREN_TRY(end_batch());
    WARREN_TRY(checkpoint());
    batch_.drop_reservations();  // those without an open batch belong to changes that never began
    if (WARREN_TRY(attempt())) return Ok{};
  }
  return Error(Code::kNoSpace, "the disk is full", "free some space; nothing was changed");
}

// Within a unit a batch cannot be ended, nor the log checkpointed, so both are done before it.
void Database::make_room_for_unit() {
  if (signals_ == nullptr || batch_.failure() || !batch_.is_tight()) return;
  end_batch().ignore("the batch stays open and is tried again; sync returns the error");
  if (!batch_.is_open()) checkpoint().ignore("there is as much room as before");
}

void Database::listen_for_commits() {
  auto guard = lock();
  if (signals_) signals_->listen();
}

std::uint32_t Database::take_seat() {
  auto guard = lock();
  if (seat_ == 0 && signals_) seat_ = signals_->take_seat();
  return seat_;
}

void Database::leave_seat() {
  auto guard = lock();
  if (signals_) signals_->leave_seat();
  seat_ = 0;
}

std::uint32_t Database::find_seat_after(std::uint32_t seat) {
  auto guard = lock();
  return signals_ ? signals_->find_seat_after(seat) : 0;
}

Result<std::uint32_t> Database::checkpoint() {
  auto guard = lock();
  if (before_checkpoint_) before_checkpoint_();
  if (is_overwritten_) return overwritten();
  int pages = 0;
  int moved = 0;
  int code = sqlite3_wal_checkpoint_v2(handle_, "main", SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
  if (code != SQLITE_OK && code != SQLITE_BUSY) return error(code, "checkpoint");
  log_is_checkpointed_ = code == SQLITE_OK && pages == moved;
  return static_cast<std::uint32_t>(std::max(moved, 0));
}

Status Database::empty_log() {
  auto guard = lock();
  if (is_overwritten_) return overwritten();
  int code = sqlite3_wal_checkpoint_v2(handle_, "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code, "checkpoint");
  return Ok{};
}

}  // namespace warren
