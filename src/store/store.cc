#include "store/store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <utility>

#include <sys/stat.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/tree_ops.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "store/ciphers/content_keys.h"
#include "store/files/sqlite_fs.h"
#include "store/history/history.h"
#include "store/keeper.h"
#include "store/record/audit_log.h"
#include "store/record/tool_calls.h"
#include "store/tables/kv.h"
#include "store/tables/usage.h"
#include "store/vacant.h"

namespace warren {
namespace {

// Before SQLite opens the file: it would turn an empty one into a database.
Status check_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return Error(Code::kNotFound, fmt::format("no agent file {}", quote(path)));
    return system_error(errno, fmt::format("open {}", quote(path)));
  }
  if (S_ISDIR(info.st_mode)) {
    return Error(Code::kIsDirectory, fmt::format("{} is a directory, not an agent file", quote(path)));
  }
  if (!S_ISREG(info.st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(path)));
  if (info.st_size == 0) {
    return Error(Code::kCorrupt, fmt::format("{} is empty: not an agent file", quote(path)),
                 "remove it and create a new agent with `warren init`, or restore a backup");
  }
  return Ok{};
}

Status check_chunk_bytes(std::uint32_t bytes) {
  if (bytes < limits::kChunkBytesMin || bytes > limits::kChunkBytesMax || (bytes & (bytes - 1)) != 0) {
    return Error(Code::kInvalid, fmt::format("{} bytes is not a valid chunk size", bytes),
                 fmt::format("use a power of two from {} to {}", limits::kChunkBytesMin, limits::kChunkBytesMax));
  }
  return Ok{};
}

// Measured (bench/): 4 KiB pages are best for 4 KiB chunks, 16 KiB pages for chunks of 64 KiB and more.
std::uint32_t page_bytes_for(std::uint32_t chunk_bytes) { return chunk_bytes >= 65'536 ? 16'384 : 4096; }

// Names are bytes, and only the UTF-8 encoding stores bytes unchanged.
Status check_encoding(Database& database) {
  Statement query = WARREN_TRY(database.prepare("PRAGMA encoding"));
  Rows rows = query.rows();
  if (WARREN_TRY(rows.next()) && rows.text(0) != "UTF-8") {
    return Error(Code::kUnsupported, fmt::format("its text is stored as {}; an agent file needs UTF-8", rows.text(0)));
  }
  return Ok{};
}

// All or nothing: created under a draft name and renamed when every table is in it.
Status create_file(const std::string& path, const StoreOptions& options, Clock& clock) {
  WARREN_TRY(check_chunk_bytes(options.chunk_bytes));
  Status vacant = check_vacant(path);
  if (!vacant.ok()) {
    // It is the log of a file that exists, perhaps since a moment ago.
    if (WARREN_TRY(find_host_file(path))) return Error(Code::kExists, fmt::format("{} already exists", quote(path)));
    return vacant;
  }
  std::random_device random;
  std::string draft = fmt::format("{}.new-{:08x}{:08x}", path, random(), random());
  auto fill = [&]() -> Status {
    auto database = WARREN_TRY(Database::open(draft, {.mode = OpenMode::kCreate,
                                                      .page_bytes = page_bytes_for(options.chunk_bytes),
                                                      .key = options.key,
                                                      .vfs = options.vfs}));
    {
      Transaction scope = WARREN_TRY(Transaction::begin(*database, Access::kWrite));
      WARREN_TRY(create_schema(*database, options.chunk_bytes, clock.now()));
      WARREN_TRY(scope.commit());
    }
    return database->empty_log();  // the log keeps the draft's name
  };
  Status made = fill();
  if (made.ok()) made = publish_host_file(draft, path);
  if (made.ok()) return Ok{};
  for (const char* suffix : {"", "-wal", "-shm"}) {
    remove_host_file(draft + suffix).ignore("the error that matters is why the file could not be created");
  }
  return made;
}

// An existing file is inspected before it is opened for writing, because opening alone would switch a foreign
// file to WAL mode. A file of an older schema is opened for reading.
Result<OpenMode> mode_for(const std::string& path, const StoreOptions& options) {
  WARREN_TRY(check_file(path));
  if (options.mode != OpenMode::kReadWrite) return options.mode;
  auto database =
      WARREN_TRY(Database::open(path, {.mode = OpenMode::kReadOnly, .find_key = options.find_key, .vfs = options.vfs}));
  Schema schema = WARREN_TRY(inspect_schema(*database).within(fmt::format("open {}", quote(path))));
  return schema.is_current() && schema.has_chunks ? OpenMode::kReadWrite : OpenMode::kReadOnly;
}

Result<std::unique_ptr<Database>> open_memory(const StoreOptions& options, Clock& clock) {
  WARREN_TRY(check_chunk_bytes(options.chunk_bytes));
  auto database = WARREN_TRY(
      Database::open(":memory:", {.mode = OpenMode::kCreate, .page_bytes = page_bytes_for(options.chunk_bytes)}));
  Transaction scope = WARREN_TRY(Transaction::begin(*database, Access::kWrite));
  WARREN_TRY(create_schema(*database, options.chunk_bytes, clock.now()));
  WARREN_TRY(scope.commit());
  return database;
}

// What had expired at a checkpoint is judged by the time at which it was taken.
class PastClock final : public Clock {
 public:
  PastClock(std::int64_t at_us, Clock& clock) : at_us_(at_us), clock_(clock) {}
  Timestamp now() override {
    std::int64_t seconds = at_us_ / 1'000'000 - (at_us_ % 1'000'000 < 0 ? 1 : 0);
    return {seconds, static_cast<std::int32_t>((at_us_ - seconds * 1'000'000) * 1000)};
  }
  std::int64_t monotonic_ns() override { return clock_.monotonic_ns(); }

 private:
  std::int64_t at_us_;
  Clock& clock_;
};

constexpr std::chrono::milliseconds kExpiryDelay{1};
constexpr std::chrono::milliseconds kExpiryLook{5000};

}  // namespace

Store::Store(std::unique_ptr<Database> database, Clock& clock) : clock_(clock), database_(std::move(database)) {}

Store::~Store() {
  if (keeper_) keeper_->stop();
  if (audit_ && !is_closed_) audit_->flush().ignore("close() returns it");
  if (fs_ && !is_closed_) fs_->leave().ignore("the next open of the agent collects what is left");
  // Without the rows that are kept here, the rest of the batch would be half of it.
  if (!database_->end_batch().ok()) database_->abandon_batch();
  seal();
  database_->observe(nullptr);
}

Status Store::close() {
  if (is_read_only() || std::exchange(is_closed_, true)) return Ok{};
  if (keeper_) keeper_->stop();
  if (keeper_) keeper_->look_at_file();
  if (database_->is_overwritten()) {
    database_->abandon_batch();
    return database_->check_name();
  }
  fs_->leave().ignore("the next open of the agent collects what is left");
  Status recorded = audit_->flush();
  Status stored = database_->end_batch();
  if (!stored.ok()) lost_.insert(journal_->nodes().begin(), journal_->nodes().end());
  if (stored.ok() && database_->lost_batches() > 0) stored = Error(Code::kIo, "they could not be written");
  if (!stored.ok()) stored = report_lost(stored.error());
  database_->abandon_batch();
  if (stored.ok()) stored = std::move(recorded);
  Status named = database_->check_name();
  if (named.ok()) return stored;
  Status rescued = rescue(named.error());
  if (stored.ok()) return rescued;
  return Error(stored.error().code(), fmt::format("{}; {}", rescued.error().message(), stored.error().message()),
               rescued.error().hint());
}

// What batches would have stored, by path. The whole tree may have to be searched, which only a failure is worth.
Status Store::report_lost(const Error& why) {
  constexpr std::size_t kNamed = 10;
  std::vector<std::string> paths;
  walk(*fs_, "/", [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (lost_.contains(entry.attributes.inode.value)) paths.push_back(quote(entry.path));
    return paths.size() == kNamed ? WalkNext::kStop : WalkNext::kContinue;
  }).ignore("what cannot be read cannot be named");
  std::string list;
  if (!paths.empty()) list = fmt::format("; of {}", fmt::join(paths, ", "));
  if (lost_.size() > paths.size()) list += " and others";
  return Error(why.code(), fmt::format("the latest changes could not be stored in {} and are lost: {}{}", quote(path()),
                                       why.message(), list));
}

Status Store::rescue(const Error& why) {
  constexpr int kNames = 1000;
  Result<std::optional<std::string>> moved = database_->settle_moved_file();
  if (moved.ok() && *moved) {
    return Error(Code::kStale, fmt::format("{}; it is {} now, with everything in it", why.message(), quote(**moved)),
                 "move it back to continue with it under its old name");
  }
  std::string log = database_->wal_path();
  std::string file = log.substr(0, log.size() - std::string_view("-wal").size());
  std::string dir(directory_of(file));
  // If its directory is gone too, in the nearest one that is left.
  for (struct stat info{}; dir != "/" && ::stat(dir.c_str(), &info) != 0;) dir = std::string(directory_of(dir));
  std::string stem(base_name(file));
  if (stem.ends_with(".db")) stem.resize(stem.size() - 3);
  for (int nth = 1;; ++nth) {
    std::string path = join_path(dir, nth == 1 ? stem + ".rescued.db" : fmt::format("{}.rescued-{}.db", stem, nth));
    Status copied = database_->backup_to(path);
    if (copied.ok()) {
      return Error(Code::kStale, fmt::format("{}; its whole content is now in {}", why.message(), quote(path)),
                   "rename that file to continue with it, or delete it if the content is not needed");
    }
    bool is_taken = copied.error().code() == Code::kExists || copied.error().code() == Code::kBusy;
    if (is_taken && nth < kNames) continue;
    if (!moved.ok()) {
      return Error(
          moved.error().code(),
          fmt::format("{}; its latest changes are still in {}: {}", why.message(), quote(log), moved.error().message()),
          "rename that log to the agent file's new name followed by `-wal`");
    }
    return Error(copied.error().code(),
                 fmt::format("{}, and its content is lost: {}", why.message(), copied.error().message()));
  }
}

Result<std::unique_ptr<Store>> Store::open(const std::string& path, const StoreOptions& options, Clock& clock) {
  std::string doing = fmt::format("open {}", quote(path));
  std::unique_ptr<Database> database;
  std::unique_ptr<PastClock> then;
  std::optional<Transaction> view;
  if (path == ":memory:") {
    database = WARREN_TRY(open_memory(options, clock));
  } else {
    StoreOptions existing = options;
    if (options.mode == OpenMode::kCreate) {
      WARREN_TRY(create_file(path, options, clock));
      existing.mode = OpenMode::kReadWrite;
      if (options.key) existing.find_key = [key = options.key](auto) -> Result<SharedDatabaseKey> { return key; };
    }
    OpenMode mode = WARREN_TRY(mode_for(path, existing));
    database = WARREN_TRY(Database::open(path, {.mode = options.checkpoint ? OpenMode::kReadOnly : mode,
                                                .temp_tables = options.checkpoint ? TempTables::kYes : TempTables::kNo,
                                                .durability = options.durability,
                                                .commits = options.checkpoint ? Commits::kEach : options.commits,
                                                .find_key = existing.find_key,
                                                .vfs = options.vfs}));
    if (options.checkpoint) {
      view.emplace(WARREN_TRY(Transaction::begin(*database, Access::kRead)));
      std::int64_t at_us = WARREN_TRY(show_checkpoint(*database, *options.checkpoint).within(doing));
      then = std::make_unique<PastClock>(at_us, clock);
    }
  }
  std::unique_ptr<Store> store(new Store(std::move(database), then ? *then : clock));
  store->past_clock_ = std::move(then);
  if (view) store->past_view_.emplace(*std::move(view));
  WARREN_TRY(store->assemble(options).within(doing));
  return store;
}

Status Store::assemble(const StoreOptions& options) {
  Commits commits = options.commits;
  database_->number_commits();
  schema_ = WARREN_TRY(inspect_schema(*database_));
  if (!schema_.has_chunks) {
    return Error(Code::kUnsupported, "its content is stored as AgentFS did before version 0.0 of the schema",
                 "`warren migrate` updates the file");
  }
  WARREN_TRY(check_encoding(*database_));
  bool lacks_tables =
      !schema_.has_all_extensions || !schema_.has_kv || !schema_.has_tool_calls || !schema_.has_symlinks;
  if (!is_read_only() && lacks_tables) {
    Transaction scope = WARREN_TRY(begin_write());
    WARREN_TRY(complete_schema(*database_));
    WARREN_TRY(scope.commit());
    schema_ = WARREN_TRY(inspect_schema(*database_));
  }
  if (!is_read_only()) journal_ = WARREN_TRY(Journal::open(*database_, schema_, clock_, options.author));
  audit_ = std::make_unique<AuditLog>(*database_, journal_.get(), clock_);
  usage_ = WARREN_TRY(Usage::open(*database_, schema_.has_extensions));
  content_keys_ = WARREN_TRY(ContentKeys::load(*database_, options.find_content_key));
  fs_ = WARREN_TRY(SqliteFs::open(*this));
  kv_ = WARREN_TRY(KeyValue::open(*this));
  tools_ = WARREN_TRY(ToolCalls::open(*this));
  keeps_history_ = WARREN_TRY(has_history(*database_));
  database_->observe(this);
  if (is_read_only()) return Ok{};
  if (commits == Commits::kGrouped) database_->take_seat();
  WARREN_TRY(fs_->collect_orphans());
  remove_expired().ignore("they are hidden; a full disk must not prevent opening the agent");
  if (commits == Commits::kGrouped)
    keeper_ = WARREN_TRY(Keeper::start(*database_, *journal_, [this] { return run_deferred_work(); }));
  expiry_changed();
  return Ok{};
}

// The wall clock decides what is due, and it can be set: the keeper looks now and then in any case.
void Store::expiry_changed() {
  if (keeper_) keeper_->has_work(kExpiryDelay);
}

void Store::expired(Inode parent, std::string_view name) {
  if (keeper_) keeper_->changed_here({.kind = ChangeKind::kEntry, .id = parent.value, .name = std::string(name)});
}

Result<std::optional<std::int64_t>> Store::next_expiry_ms() {
  std::optional<std::int64_t> file = WARREN_TRY(fs_->next_expiry_ms());
  std::optional<std::int64_t> key = WARREN_TRY(kv_->next_expiry_ms());
  return file && key ? std::min(file, key) : file ? file : key;
}

Status Store::remove_expired() {
  std::optional<std::int64_t> next = WARREN_TRY(next_expiry_ms());
  if (!next || *next > clock_.now_us() / 1000) return Ok{};
  WARREN_TRY(fs_->remove_expired());
  WARREN_TRY(kv_->purge_expired());
  return Ok{};
}

Result<bool> Store::run_deferred_work() {
  bool has_more = WARREN_TRY(fs_->collect_some());
  WARREN_TRY(remove_expired());
  std::optional<std::int64_t> next = WARREN_TRY(next_expiry_ms());
  std::int64_t now = clock_.now_us() / 1000;
  if (next) has_work(std::clamp(std::chrono::milliseconds(*next - now), kExpiryDelay, kExpiryLook));
  return has_more;
}

Status Store::before_commit() {
  WARREN_TRY(fs_->before_commit());
  WARREN_TRY(usage_->write());
  WARREN_TRY(audit_->before_commit());
  // Checkpoints rely on a row for each commit of ours, also if it changed only what they do not cover.
  bool needs_row = keeps_history_ && !journal_->has_row() && database_->total_changes() != changes_committed_;
  if (needs_row) journal_->note_row();
  return journal_->write();
}

void Store::after_commit() {
  changes_committed_ = database_->total_changes();
  journal_->forget_nodes();
  fs_->after_commit();
  audit_->after_commit();
  if (keeper_) keeper_->batch_ended();
  if (keeper_ && audit_->take_news()) keeper_->audited_here();
}

void Store::make_room() {
  if (keeper_) keeper_->make_room();
}

void Store::has_work(std::chrono::milliseconds delay) {
  if (keeper_) keeper_->has_work(delay);
}

void Store::batch_opened() {
  if (keeper_) keeper_->batch_opened();
}

void Store::change_began() {
  undo_.begin();
  journal_->begin_change();
  usage_->begin_change();
}

void Store::change_done() {
  undo_.end();
  audit_->change_done();
}

void Store::change_refused() {
  undo_.end();  // at most, rows were written back that earlier changes had kept
  audit_->change_undone();
  journal_->undo_change();
  usage_->undo_change();
}

void Store::change_undone() {
  ++rollbacks_;
  undo_.undo();
  journal_->undo_change();
  usage_->undo_change();
  kv_->after_rollback();
  audit_->change_undone();
  fs_->after_undo();
}

void Store::rows_replaced() {
  {
    auto guard = database_->lock();
    ++rollbacks_;
    usage_->forget();
    fs_->forget_rows();
    kv_->after_rollback();
  }
  has_work();
  if (keeper_) keeper_->everything_changed();
}

// An agent that has checkpoints goes on counting commits when it is opened again.
void Store::seal() {
  if (is_read_only()) return;
  Result<bool> has = has_history(*database_);
  if (has.ok() && *has) database_->seal_commits();
}

void Store::when_audited(std::function<void()> call) {
  if (keeper_) keeper_->when_audited(std::move(call));
}

Status Store::listen(Tree tree, ChangeListener* listener) {
  if (!keeper_) return Error(Code::kUnsupported, "this agent is not open in a mode that reports changes");
  keeper_->listen(tree, listener);
  return Ok{};
}

void Store::after_rollback() {
  ++rollbacks_;
  undo_.end();
  fs_->note_loss(journal_->nodes());
  bool was_batch = database_->lost_batches() != known_losses_;
  known_losses_ = database_->lost_batches();
  if (was_batch) lost_.insert(journal_->nodes().begin(), journal_->nodes().end());
  journal_->forget_nodes();
  journal_->discard();
  usage_->forget();
  audit_->after_rollback();
  fs_->after_rollback();
  kv_->after_rollback();
  if (keeper_) keeper_->everything_changed();
}

}  // namespace warren
