#include "store/keeper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include <poll.h>
#include <sys/eventfd.h>

#include "base/limits.h"
#include "db/transaction.h"
#include "os/error.h"

namespace warren {
namespace {

// The log is moved into the file when it has this many pages and nobody writes for a while; above the
// second number at once, by the side; above the third the writer waits for it, so that it cannot grow on.
constexpr std::uint32_t kPagesWhenIdle = 2048;
constexpr std::uint32_t kPagesBesides = 32'768;
constexpr std::uint32_t kPagesAtMost = 65'536;
constexpr int kIdleMilliseconds = 300;
constexpr std::size_t kRowsAtOnce = 1024;

}  // namespace

Result<std::unique_ptr<Keeper>> Keeper::start(Database& database, Journal& journal) {
  FileWatch watch = WARREN_TRY(FileWatch::open(database.wal_path()));
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return system_error(errno, "eventfd");
  std::unique_ptr<Keeper> keeper(new Keeper(database, journal, std::move(watch), std::move(wake)));
  {
    Transaction view = WARREN_TRY(Transaction::begin(database, Access::kRead));
    keeper->seen_seq_ = WARREN_TRY(journal.last_seq());
    keeper->seen_epoch_ = database.foreign_epoch();
  }
  keeper->keeping_ = std::thread([k = keeper.get()] { k->keep(); });
  keeper->checkpointing_ = std::thread([k = keeper.get()] { k->checkpoint_when_asked(); });
  return keeper;
}

Keeper::Keeper(Database& database, Journal& journal, FileWatch watch, Fd wake)
    : database_(database), journal_(journal), watch_(std::move(watch)), wake_(std::move(wake)) {}

Keeper::~Keeper() {
  ending_ = true;
  wake();
  checkpoint_asked_.notify_all();
  if (keeping_.joinable()) keeping_.join();
  {
    std::lock_guard guard(checkpoint_mutex_);
    wants_checkpoint_ = true;
  }
  checkpoint_asked_.notify_all();
  if (checkpointing_.joinable()) checkpointing_.join();
}

void Keeper::wake() { ::eventfd_write(wake_.get(), 1); }

void Keeper::listen(ChangeListener* listener) {
  std::lock_guard guard(listener_mutex_);
  listener_ = listener;
}

void Keeper::everything_changed() {
  everything_changed_ = true;
  wake();
}

void Keeper::batch_ended() {
  std::uint32_t pages = database_.log_pages();
  if (pages >= kPagesAtMost) database_.checkpoint().ignore("the log grows on, and the next batch tries again");
  else if (pages >= kPagesBesides) ask_for_checkpoint();
}

int Keeper::wait_milliseconds() const {
  if (auto since = database_.batch_opened_at()) {
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*since + limits::kBatchTime - std::chrono::steady_clock::now());
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  }
  return database_.log_pages() >= kPagesWhenIdle ? kIdleMilliseconds : -1;
}

void Keeper::keep() {
  std::array<pollfd, 2> sources{{{watch_.fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  while (!ending_) {
    int ready = ::poll(sources.data(), sources.size(), wait_milliseconds());
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
    FileWatch::Happened happened = watch_.take();
    auto since = database_.batch_opened_at();
    bool is_late = since && std::chrono::steady_clock::now() - *since >= limits::kBatchTime;
    if (since && (is_late || happened.touched)) {
      database_.want_batch_end();  // whoever has the lock now may do it first
      database_.end_batch().ignore("kept by the database, and told at the next sync");
    }
    if (happened.written || everything_changed_) tell_changes().ignore("the next change tries again");
    if (ready == 0 && !since && database_.log_pages() >= kPagesWhenIdle) ask_for_checkpoint();
  }
}

Status Keeper::tell_changes() {
  bool everything = everything_changed_.exchange(false);
  std::vector<Change> changes;
  {
    Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kSharedRead));
    std::optional<std::vector<JournalRow>> rows = WARREN_TRY(journal_.read_after(seen_seq_, kRowsAtOnce));
    std::uint64_t epoch = database_.foreign_epoch();
    bool others_wrote = epoch != seen_epoch_;
    seen_epoch_ = epoch;
    bool others_told = false;
    if (rows) {
      for (JournalRow& row : *rows) {
        seen_seq_ = row.seq;
        if (row.origin == journal_.origin()) continue;
        others_told = true;
        std::move(row.changes.begin(), row.changes.end(), std::back_inserter(changes));
      }
    } else {
      seen_seq_ = WARREN_TRY(journal_.last_seq());
    }
    // Somebody wrote who keeps no journal: another program than ours.
    if (!rows || (others_wrote && !others_told) || rows->size() == kRowsAtOnce) everything = true;
  }
  std::lock_guard guard(listener_mutex_);
  if (listener_ == nullptr) return Ok{};
  for (const Change& change : changes) {
    if (change.kind == ChangeKind::kEverything) everything = true;
    if (change.kind == ChangeKind::kEntry) listener_->entry_changed(Inode{change.id}, change.name);
    if (change.kind == ChangeKind::kData || change.kind == ChangeKind::kAttributes) {
      listener_->node_changed(Inode{change.id});
    }
  }
  if (everything) listener_->everything_changed();
  return Ok{};
}

void Keeper::ask_for_checkpoint() {
  {
    std::lock_guard guard(checkpoint_mutex_);
    wants_checkpoint_ = true;
  }
  checkpoint_asked_.notify_one();
}

void Keeper::checkpoint_when_asked() {
  std::unique_lock lock(checkpoint_mutex_);
  for (;;) {
    checkpoint_asked_.wait(lock, [this] { return wants_checkpoint_; });
    if (ending_) break;
    wants_checkpoint_ = false;
    lock.unlock();
    checkpoint().ignore("the log grows on, and the next batch tries again");
    lock.lock();
  }
}

// By a connection of its own, so that nobody waits for it.
Status Keeper::checkpoint() {
  if (!checkpointer_) checkpointer_ = WARREN_TRY(Database::open(database_.path(), {.mode = OpenMode::kReadWrite}));
  return checkpointer_->checkpoint();
}

}  // namespace warren
