#include "db/wal_vfs.h"

#include <new>

#include <fmt/format.h>
#include <sqlite3.h>

namespace warren {
namespace {

// A larger commit is written in pieces. SQLite's own VFS takes less than 128 KiB in one
// write (it uses 17 bits of the size), and a page may have 64 KiB.
constexpr std::size_t kPendingBytes = std::size_t{96} << 10;

// An open log. SQLite allocates it, with the underlying VFS's file right after it.
struct LogFile {
  sqlite3_file handle;
  const WalVfs* vfs;
  std::string* pending;  // buffered writes
  sqlite3_int64 pending_at;
  bool buffers;

  sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

LogFile& log_of(sqlite3_file* file) { return *reinterpret_cast<LogFile*>(file); }

sqlite3_file* below(sqlite3_file* file) { return log_of(file).below(); }

int write_pending(LogFile& log) {
  if (log.pending->empty()) return SQLITE_OK;
  int code = log.below()->pMethods->xWrite(log.below(), log.pending->data(), static_cast<int>(log.pending->size()),
                                           log.pending_at);
  // After a failure the transaction is rolled back, and the next one writes to the same offsets.
  log.pending->clear();
  return code;
}

int close_log(sqlite3_file* file) {
  LogFile& log = log_of(file);
  int written = write_pending(log);
  int closed = log.below()->pMethods->xClose(log.below());
  delete log.pending;
  return written != SQLITE_OK ? written : closed;
}

int write_log(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  LogFile& log = log_of(file);
  if (!log.buffers) return below(file)->pMethods->xWrite(below(file), data, size, offset);
  bool follows = offset == log.pending_at + static_cast<sqlite3_int64>(log.pending->size());
  if (!follows || log.pending->size() + static_cast<std::size_t>(size) > kPendingBytes) {
    int code = write_pending(log);
    if (code != SQLITE_OK) return code;
  }
  if (log.pending->empty()) log.pending_at = offset;
  try {
    log.pending->append(static_cast<const char*>(data), static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {
    return SQLITE_IOERR_NOMEM;
  }
  return SQLITE_OK;
}

int sync_log(sqlite3_file* file, int flags) {
  LogFile& log = log_of(file);
  int code = write_pending(log);
  if (code != SQLITE_OK) return code;
  // checkpoint_fullfsync is on, so a checkpoint's syncs are "full" and a commit's are not.
  bool is_commit = (flags & 0x0F) != SQLITE_SYNC_FULL;
  if (is_commit && log.vfs->commit_sync() == CommitSync::kSystem) return SQLITE_OK;
  return log.below()->pMethods->xSync(log.below(), flags);
}

int read_log(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
  int code = write_pending(log_of(file));
  return code != SQLITE_OK ? code : below(file)->pMethods->xRead(below(file), out, size, offset);
}

int truncate_log(sqlite3_file* file, sqlite3_int64 size) {
  int code = write_pending(log_of(file));
  return code != SQLITE_OK ? code : below(file)->pMethods->xTruncate(below(file), size);
}

int size_of_log(sqlite3_file* file, sqlite3_int64* size) {
  int code = write_pending(log_of(file));
  return code != SQLITE_OK ? code : below(file)->pMethods->xFileSize(below(file), size);
}

int lock_log(sqlite3_file* file, int kind) { return below(file)->pMethods->xLock(below(file), kind); }
int unlock_log(sqlite3_file* file, int kind) { return below(file)->pMethods->xUnlock(below(file), kind); }
int check_lock(sqlite3_file* file, int* out) { return below(file)->pMethods->xCheckReservedLock(below(file), out); }
int control_log(sqlite3_file* file, int op, void* argument) {
  return below(file)->pMethods->xFileControl(below(file), op, argument);
}
int sector_size(sqlite3_file* file) { return below(file)->pMethods->xSectorSize(below(file)); }
int characteristics(sqlite3_file* file) { return below(file)->pMethods->xDeviceCharacteristics(below(file)); }

// Version 1: a log is neither shared memory nor mapped.
constexpr sqlite3_io_methods kLogMethods{.iVersion = 1,
                                         .xClose = close_log,
                                         .xRead = read_log,
                                         .xWrite = write_log,
                                         .xTruncate = truncate_log,
                                         .xSync = sync_log,
                                         .xFileSize = size_of_log,
                                         .xLock = lock_log,
                                         .xUnlock = unlock_log,
                                         .xCheckReservedLock = check_lock,
                                         .xFileControl = control_log,
                                         .xSectorSize = sector_size,
                                         .xDeviceCharacteristics = characteristics};

const WalVfs& vfs_of(sqlite3_vfs* vfs) { return *static_cast<const WalVfs*>(vfs->pAppData); }
sqlite3_vfs* base_of(sqlite3_vfs* vfs) { return &vfs_of(vfs).base(); }

int open_file(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  sqlite3_vfs* base = base_of(vfs);
  if ((flags & SQLITE_OPEN_WAL) == 0) return base->xOpen(base, name, file, flags, out_flags);
  auto* log =
      new (file) LogFile{.handle = {}, .vfs = &vfs_of(vfs), .pending = nullptr, .pending_at = 0, .buffers = false};
  int code = base->xOpen(base, name, log->below(), flags, out_flags);
  if (code != SQLITE_OK) return code;  // without methods SQLite does not close it
  log->pending = new (std::nothrow) std::string;
  if (log->pending == nullptr) {
    log->below()->pMethods->xClose(log->below());
    return SQLITE_NOMEM;
  }
  // If a write may damage neighbouring bytes of its sector, SQLite pads a commit and goes on writing after the
  // sync; others could then read pages that are still buffered.
  int traits = log->below()->pMethods->xDeviceCharacteristics(log->below());
  log->buffers = (traits & SQLITE_IOCAP_POWERSAFE_OVERWRITE) != 0;
  log->handle.pMethods = &kLogMethods;
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs* vfs, const char* name, int sync) {
  return base_of(vfs)->xDelete(base_of(vfs), name, sync);
}
int access_file(sqlite3_vfs* vfs, const char* name, int flags, int* out) {
  return base_of(vfs)->xAccess(base_of(vfs), name, flags, out);
}
int full_name(sqlite3_vfs* vfs, const char* name, int size, char* out) {
  return base_of(vfs)->xFullPathname(base_of(vfs), name, size, out);
}
void* open_library(sqlite3_vfs* vfs, const char* name) { return base_of(vfs)->xDlOpen(base_of(vfs), name); }
void library_error(sqlite3_vfs* vfs, int size, char* out) { base_of(vfs)->xDlError(base_of(vfs), size, out); }
void (*library_symbol(sqlite3_vfs* vfs, void* library, const char* symbol))() {
  return base_of(vfs)->xDlSym(base_of(vfs), library, symbol);
}
void close_library(sqlite3_vfs* vfs, void* library) { base_of(vfs)->xDlClose(base_of(vfs), library); }
int randomness(sqlite3_vfs* vfs, int size, char* out) { return base_of(vfs)->xRandomness(base_of(vfs), size, out); }
int sleep_for(sqlite3_vfs* vfs, int microseconds) { return base_of(vfs)->xSleep(base_of(vfs), microseconds); }
int current_time(sqlite3_vfs* vfs, double* out) { return base_of(vfs)->xCurrentTime(base_of(vfs), out); }
int last_error(sqlite3_vfs* vfs, int size, char* out) { return base_of(vfs)->xGetLastError(base_of(vfs), size, out); }
int current_time_ms(sqlite3_vfs* vfs, sqlite3_int64* out) { return base_of(vfs)->xCurrentTimeInt64(base_of(vfs), out); }

}  // namespace

WalVfs::WalVfs(sqlite3_vfs& base, CommitSync commit_sync)
    : name_(fmt::format("warren-{}", static_cast<const void*>(this))),
      base_(&base),
      commit_sync_(commit_sync),
      registered_(
          std::make_unique<sqlite3_vfs>(sqlite3_vfs{.iVersion = 2,
                                                    .szOsFile = static_cast<int>(sizeof(LogFile)) + base.szOsFile,
                                                    .mxPathname = base.mxPathname,
                                                    .pNext = nullptr,
                                                    .zName = name_.c_str(),
                                                    .pAppData = this,
                                                    .xOpen = open_file,
                                                    .xDelete = delete_file,
                                                    .xAccess = access_file,
                                                    .xFullPathname = full_name,
                                                    .xDlOpen = open_library,
                                                    .xDlError = library_error,
                                                    .xDlSym = library_symbol,
                                                    .xDlClose = close_library,
                                                    .xRandomness = randomness,
                                                    .xSleep = sleep_for,
                                                    .xCurrentTime = current_time,
                                                    .xGetLastError = last_error,
                                                    .xCurrentTimeInt64 = current_time_ms})) {}

Result<std::unique_ptr<WalVfs>> WalVfs::open(const char* base, CommitSync commit_sync) {
  sqlite3_vfs* below = sqlite3_vfs_find(base);
  if (below == nullptr || below->iVersion < 2) return Error(Code::kInternal, "SQLite has no such VFS");
  std::unique_ptr<WalVfs> vfs(new WalVfs(*below, commit_sync));
  if (sqlite3_vfs_register(vfs->registered_.get(), 0) != SQLITE_OK) return Error(Code::kLimit, "out of memory");
  return vfs;
}

WalVfs::~WalVfs() { sqlite3_vfs_unregister(registered_.get()); }

}  // namespace warren
