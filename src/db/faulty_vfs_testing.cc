#include "db/faulty_vfs_testing.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/check.h"
#include "db/sqlite_init.h"

namespace warren::testing {
namespace {

constexpr std::size_t kSectorBytes = 512;

// One held-back call: a write, or a truncate when `cut_to` is set.
struct HeldCall {
  std::size_t offset = 0;
  std::string data;
  std::optional<std::size_t> cut_to;
};

// A file as the process sees it, and the calls that have not reached the disk yet.
struct HeldFile {
  std::string image;
  std::vector<HeldCall> pending;
};

struct PowerPlan {
  int after = 0;
  PowerLoss loss = PowerLoss::kDropped;
  std::uint64_t seed = 0;
};

}  // namespace

struct FaultyVfs::State {
  sqlite3_vfs vfs{};
  sqlite3_vfs* real = nullptr;
  std::string name;

  mutable std::mutex mutex;
  std::optional<FaultPlan> plan;
  std::optional<PowerPlan> power;
  bool fired = false;
  std::array<int, 6> counts{};
  bool holds_back = false;
  bool power_is_cut = false;
  std::map<std::string, HeldFile, std::less<>> held;

  // Counts the call; true if it must fail.
  bool meets_fault(DiskCall call);
  void after_call();
  void cut(PowerLoss loss, std::uint64_t seed);
};

namespace {

// What SQLite allocates for a file: ours, followed by the real one.
struct FaultyFile {
  sqlite3_file base;
  FaultyVfs::State* state;
  HeldFile* held;  // null when writes go straight through

  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

FaultyFile& self(sqlite3_file* file) { return *reinterpret_cast<FaultyFile*>(file); }
FaultyVfs::State& state_of(sqlite3_vfs* vfs) { return *static_cast<FaultyVfs::State*>(vfs->pAppData); }

void grow(std::string& image, std::size_t size) {
  if (image.size() < size) image.resize(size, '\0');
}

void put(int fd, std::size_t offset, std::string_view data) {
  while (!data.empty()) {
    ssize_t done = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    WARREN_CHECK(done > 0);
    data.remove_prefix(static_cast<std::size_t>(done));
    offset += static_cast<std::size_t>(done);
  }
}

// Uses SQLite's handle: closing a descriptor of our own would drop this process's locks
// on the file.
int apply(sqlite3_file* real, const HeldCall& call) {
  if (call.cut_to) return real->pMethods->xTruncate(real, static_cast<sqlite3_int64>(*call.cut_to));
  return real->pMethods->xWrite(real, call.data.data(), static_cast<int>(call.data.size()),
                                static_cast<sqlite3_int64>(call.offset));
}

// Each sector of the pending writes reaches the disk or not, at random. Locks no longer
// matter: every handle of ours is dead.
void tear(const std::string& path, const HeldFile& file, std::mt19937_64& random) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;  // deleted in the meantime
  for (const HeldCall& call : file.pending) {
    if (call.cut_to) {
      if (random() % 2 == 0) WARREN_CHECK(::ftruncate(fd, static_cast<off_t>(*call.cut_to)) == 0);
      continue;
    }
    for (std::size_t at = 0; at < call.data.size(); at += kSectorBytes) {
      if (random() % 2 == 0) put(fd, call.offset + at, std::string_view(call.data).substr(at, kSectorBytes));
    }
  }
  ::close(fd);
}

}  // namespace

bool FaultyVfs::State::meets_fault(DiskCall call) {
  if (power_is_cut) return true;
  if (call != DiskCall::kRead) ++counts[static_cast<std::size_t>(DiskCall::kAny)];
  ++counts[static_cast<std::size_t>(call)];
  if (!plan || (plan->call != call && (plan->call != DiskCall::kAny || call == DiskCall::kRead))) return false;
  int seen = counts[static_cast<std::size_t>(plan->call)];
  bool hit = seen == plan->nth || (plan->lasts == FaultLasts::kFromThenOn && seen > plan->nth);
  if (hit) fired = true;
  return hit;
}

void FaultyVfs::State::after_call() {
  if (power && !power_is_cut && counts[0] >= power->after) cut(power->loss, power->seed);
}

void FaultyVfs::State::cut(PowerLoss loss, std::uint64_t seed) {
  power_is_cut = true;
  std::mt19937_64 random(seed);
  for (const auto& [path, file] : held) {
    if (loss == PowerLoss::kTorn) tear(path, file, random);
  }
}

namespace {

int on_close(sqlite3_file* file) {
  sqlite3_file* real = self(file).real();
  return real->pMethods->xClose(real);
}

int on_read(sqlite3_file* file, void* out, int amount, sqlite3_int64 offset) {
  FaultyFile& me = self(file);
  std::lock_guard guard(me.state->mutex);
  if (me.state->meets_fault(DiskCall::kRead)) return SQLITE_IOERR_READ;
  if (me.held == nullptr) return me.real()->pMethods->xRead(me.real(), out, amount, offset);
  auto wanted = static_cast<std::size_t>(amount);
  auto from = std::min(static_cast<std::size_t>(offset), me.held->image.size());
  std::size_t there = std::min(wanted, me.held->image.size() - from);
  std::memcpy(out, me.held->image.data() + from, there);
  std::memset(static_cast<char*>(out) + there, 0, wanted - there);
  return there == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int write_through(FaultyFile& me, const char* data, int amount, sqlite3_int64 offset) {
  if (me.held == nullptr) return me.real()->pMethods->xWrite(me.real(), data, amount, offset);
  auto at = static_cast<std::size_t>(offset);
  auto size = static_cast<std::size_t>(amount);
  grow(me.held->image, at + size);
  me.held->image.replace(at, size, data, size);
  me.held->pending.push_back({.offset = at, .data = std::string(data, size), .cut_to = {}});
  return SQLITE_OK;
}

int on_write(sqlite3_file* file, const void* data, int amount, sqlite3_int64 offset) {
  FaultyFile& me = self(file);
  std::lock_guard guard(me.state->mutex);
  const auto* bytes = static_cast<const char*>(data);
  if (me.state->meets_fault(DiskCall::kWrite)) {
    if (me.state->power_is_cut) return SQLITE_IOERR_WRITE;
    write_through(me, bytes, amount / 2, offset);
    return me.state->plan->fault == DiskFault::kNoSpace ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  }
  int code = write_through(me, bytes, amount, offset);
  me.state->after_call();
  return code;
}

int on_truncate(sqlite3_file* file, sqlite3_int64 size) {
  FaultyFile& me = self(file);
  std::lock_guard guard(me.state->mutex);
  if (me.state->meets_fault(DiskCall::kTruncate)) return SQLITE_IOERR_TRUNCATE;
  int code = SQLITE_OK;
  if (me.held == nullptr) {
    code = me.real()->pMethods->xTruncate(me.real(), size);
  } else {
    me.held->image.resize(static_cast<std::size_t>(size), '\0');
    me.held->pending.push_back({.offset = 0, .data = {}, .cut_to = static_cast<std::size_t>(size)});
  }
  me.state->after_call();
  return code;
}

int on_sync(sqlite3_file* file, int /*flags*/) {
  FaultyFile& me = self(file);
  std::lock_guard guard(me.state->mutex);
  if (me.state->meets_fault(DiskCall::kSync)) return SQLITE_IOERR_FSYNC;
  int code = SQLITE_OK;
  // "The disk" is the real file as this process sees it: syncing it would only take time.
  if (me.held != nullptr) {
    for (const HeldCall& call : std::exchange(me.held->pending, {})) {
      if (code == SQLITE_OK) code = apply(me.real(), call);
    }
  }
  me.state->after_call();
  return code;
}

int on_file_size(sqlite3_file* file, sqlite3_int64* size) {
  FaultyFile& me = self(file);
  std::lock_guard guard(me.state->mutex);
  if (me.held == nullptr) return me.real()->pMethods->xFileSize(me.real(), size);
  *size = static_cast<sqlite3_int64>(me.held->image.size());
  return SQLITE_OK;
}

int on_lock(sqlite3_file* file, int level) { return self(file).real()->pMethods->xLock(self(file).real(), level); }
int on_unlock(sqlite3_file* file, int level) { return self(file).real()->pMethods->xUnlock(self(file).real(), level); }
int on_check_lock(sqlite3_file* file, int* reserved) {
  return self(file).real()->pMethods->xCheckReservedLock(self(file).real(), reserved);
}

int on_control(sqlite3_file* file, int op, void* argument) {
  // A hint to grow the real file would add bytes that the image does not have.
  if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE) return SQLITE_OK;
  return self(file).real()->pMethods->xFileControl(self(file).real(), op, argument);
}

int on_sector_size(sqlite3_file* file) { return self(file).real()->pMethods->xSectorSize(self(file).real()); }
int on_characteristics(sqlite3_file* file) {
  return self(file).real()->pMethods->xDeviceCharacteristics(self(file).real());
}
int on_shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
  return self(file).real()->pMethods->xShmMap(self(file).real(), page, size, extend, out);
}
int on_shm_lock(sqlite3_file* file, int offset, int count, int flags) {
  return self(file).real()->pMethods->xShmLock(self(file).real(), offset, count, flags);
}
void on_shm_barrier(sqlite3_file* file) { self(file).real()->pMethods->xShmBarrier(self(file).real()); }
int on_shm_unmap(sqlite3_file* file, int remove) {
  return self(file).real()->pMethods->xShmUnmap(self(file).real(), remove);
}

// Version 2: shared memory, but no xFetch. Memory-mapped reads would bypass us and see the real file.
const sqlite3_io_methods kMethods = {2,
                                     on_close,
                                     on_read,
                                     on_write,
                                     on_truncate,
                                     on_sync,
                                     on_file_size,
                                     on_lock,
                                     on_unlock,
                                     on_check_lock,
                                     on_control,
                                     on_sector_size,
                                     on_characteristics,
                                     on_shm_map,
                                     on_shm_lock,
                                     on_shm_barrier,
                                     on_shm_unmap,
                                     nullptr,
                                     nullptr};

std::string read_whole(sqlite3_file* real) {
  sqlite3_int64 size = 0;
  WARREN_CHECK(real->pMethods->xFileSize(real, &size) == SQLITE_OK);
  std::string image(static_cast<std::size_t>(size), '\0');
  if (size > 0) WARREN_CHECK(real->pMethods->xRead(real, image.data(), static_cast<int>(size), 0) == SQLITE_OK);
  return image;
}

// Temporary files have no name and pass straight through: they do not outlive the process.
HeldFile* hold(FaultyVfs::State& state, const char* name, sqlite3_file* real) {
  if (!state.holds_back || name == nullptr) return nullptr;
  auto [found, is_new] = state.held.try_emplace(name);
  if (is_new) found->second.image = read_whole(real);
  return &found->second;
}

int on_open(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  FaultyVfs::State& state = state_of(vfs);
  FaultyFile& me = self(file);
  me.base.pMethods = nullptr;  // if we fail, SQLite does not close it
  std::lock_guard guard(state.mutex);
  if (state.meets_fault(DiskCall::kOpen)) return SQLITE_CANTOPEN;
  int code = state.real->xOpen(state.real, name, me.real(), flags, out_flags);
  if (code != SQLITE_OK) return code;
  me.state = &state;
  me.held = hold(state, name, me.real());
  me.base.pMethods = &kMethods;
  state.after_call();
  return SQLITE_OK;
}

// Removing a file takes effect immediately: SQLite removes only files that it no longer needs.
int on_delete(sqlite3_vfs* vfs, const char* name, int sync_dir) {
  FaultyVfs::State& state = state_of(vfs);
  std::lock_guard guard(state.mutex);
  if (state.power_is_cut) return SQLITE_IOERR_DELETE;
  if (auto found = state.held.find(name); found != state.held.end()) found->second = HeldFile{};
  return state.real->xDelete(state.real, name, sync_dir);
}

int on_access(sqlite3_vfs* vfs, const char* name, int flags, int* out) {
  return state_of(vfs).real->xAccess(state_of(vfs).real, name, flags, out);
}
int on_full_path(sqlite3_vfs* vfs, const char* name, int size, char* out) {
  return state_of(vfs).real->xFullPathname(state_of(vfs).real, name, size, out);
}
int on_randomness(sqlite3_vfs* vfs, int size, char* out) {
  return state_of(vfs).real->xRandomness(state_of(vfs).real, size, out);
}
int on_sleep(sqlite3_vfs* vfs, int us) { return state_of(vfs).real->xSleep(state_of(vfs).real, us); }
int on_time(sqlite3_vfs* vfs, double* out) { return state_of(vfs).real->xCurrentTime(state_of(vfs).real, out); }
int on_time_ms(sqlite3_vfs* vfs, sqlite3_int64* out) {
  return state_of(vfs).real->xCurrentTimeInt64(state_of(vfs).real, out);
}
int on_last_error(sqlite3_vfs* vfs, int size, char* out) {
  return state_of(vfs).real->xGetLastError(state_of(vfs).real, size, out);
}

}  // namespace

FaultyVfs::FaultyVfs() : state_(std::make_unique<State>()) {
  initialise_sqlite();
  State& state = *state_;
  state.real = sqlite3_vfs_find(nullptr);
  state.name = fmt::format("faulty-{}", static_cast<const void*>(&state));
  state.vfs.iVersion = 2;
  state.vfs.szOsFile = static_cast<int>(sizeof(FaultyFile)) + state.real->szOsFile;
  state.vfs.mxPathname = state.real->mxPathname;
  state.vfs.zName = state.name.c_str();
  state.vfs.pAppData = &state;
  state.vfs.xOpen = on_open;
  state.vfs.xDelete = on_delete;
  state.vfs.xAccess = on_access;
  state.vfs.xFullPathname = on_full_path;
  state.vfs.xRandomness = on_randomness;
  state.vfs.xSleep = on_sleep;
  state.vfs.xCurrentTime = on_time;
  state.vfs.xGetLastError = on_last_error;
  state.vfs.xCurrentTimeInt64 = on_time_ms;
  WARREN_CHECK(sqlite3_vfs_register(&state.vfs, 0) == SQLITE_OK);
}

FaultyVfs::~FaultyVfs() { sqlite3_vfs_unregister(&state_->vfs); }

const char* FaultyVfs::name() const { return state_->name.c_str(); }

void FaultyVfs::fail(const FaultPlan& plan) {
  std::lock_guard guard(state_->mutex);
  state_->plan = plan;
  state_->fired = false;
  state_->counts = {};
}

void FaultyVfs::heal() {
  std::lock_guard guard(state_->mutex);
  state_->plan.reset();
  state_->fired = false;
  state_->counts = {};
}

bool FaultyVfs::fired() const {
  std::lock_guard guard(state_->mutex);
  return state_->fired;
}

int FaultyVfs::calls(DiskCall call) const {
  std::lock_guard guard(state_->mutex);
  return state_->counts[static_cast<std::size_t>(call)];
}

void FaultyVfs::hold_back() {
  std::lock_guard guard(state_->mutex);
  state_->holds_back = true;
}

void FaultyVfs::cut_power_after(int nth, PowerLoss loss, std::uint64_t seed) {
  std::lock_guard guard(state_->mutex);
  state_->counts = {};
  state_->power = PowerPlan{.after = nth, .loss = loss, .seed = seed};
}

void FaultyVfs::cut_power(PowerLoss loss, std::uint64_t seed) {
  std::lock_guard guard(state_->mutex);
  if (!state_->power_is_cut) state_->cut(loss, seed);
}

bool FaultyVfs::power_is_cut() const {
  std::lock_guard guard(state_->mutex);
  return state_->power_is_cut;
}

}  // namespace warren::testing
