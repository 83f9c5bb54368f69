#include "store/keeper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>

#include "base/limits.h"
#include "db/transaction.h"
#include "os/error.h"

namespace warren {
namespace {

// The log is checkpointed when it has this many pages and nobody writes for a while; above the
// second number immediately, in the background; above the third large writes wait for that; above the fourth
// every write does, so that the log cannot grow any further.
constexpr std::uint32_t kPagesWhenIdle = 2048;
constexpr std::uint32_t kPagesBesides = 16'384;
constexpr std::uint32_t kPagesOfMuch = 49'152;
constexpr std::uint32_t kPagesAtMost = 131'072;
constexpr std::uint32_t kPagesOfLittle = 4096;
constexpr int kIdleMilliseconds = 300;
constexpr std::chrono::seconds kRoomWait{5};

// Commits are synced to the disk after this time even if nobody calls sync.
constexpr std::int64_t kSyncMilliseconds = 5000;
constexpr std::size_t kRowsAtOnce = 1024;

// Another program writes the log first, and its commit is visible later: we look again after the first
// interval, twice that, and so on up to the last.
constexpr int kFirstLookMilliseconds = 1;
constexpr int kLastLookMilliseconds = 256;

// What has failed, a look or deferred work, is tried again after this time.
constexpr int kRetryMilliseconds = 1000;
// Deferred work because of what others did.
constexpr std::chrono::milliseconds kWorkForOthers{300};
// Attempts to read the journal without a commit by somebody else in between. If all of them fail, everything may have
// changed.
constexpr int kQuietAttempts = 8;

std::int64_t now_milliseconds() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

Result<std::unique_ptr<Keeper>> Keeper::start(Database& database, Journal& journal,
                                              std::function<Result<bool>()> work) {
  FileWatch watch = WARREN_TRY(FileWatch::open(database.wal_path()));
  WARREN_TRY(watch.add_touches_of(database.path(), FileWatch::Writes::kNoticed));
  database.look_for_writes([&] { return watch.take().other_written; });
  database.listen_for_commits();
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return system_error(errno, "eventfd");
  std::unique_ptr<Keeper> keeper(new Keeper(database, journal, std::move(work), std::move(watch), std::move(wake)));
  {
    auto guard = database.lock();
    keeper->seen_commits_ = database.count_foreign_commits().value_or(0);
    Transaction view = WARREN_TRY(Transaction::begin(database, Access::kRead));
    keeper->seen_seq_ = WARREN_TRY(journal.last_seq());
    keeper->seen_epoch_ = database.foreign_epoch();
  }
  database.before_checkpoint([k = keeper.get()] { k->look_at_file(); });
  keeper->keeping_ = std::thread([k = keeper.get()] { k->keep(); });
  keeper->checkpointing_ = std::thread([k = keeper.get()] { k->checkpoint_when_asked(); });
  return keeper;
}

Keeper::Keeper(Database& database, Journal& journal, std::function<Result<bool>()> work, FileWatch watch, Fd wake)
    : database_(database),
      journal_(journal),
      work_(std::move(work)),
      watch_(std::move(watch)),
      wake_(std::move(wake)) {}

Keeper::~Keeper() {
  stop();
  auto guard = database_.lock();
  database_.before_checkpoint(nullptr);
}

void Keeper::stop() {
  ending_ = true;
  wake();
  checkpoint_asked_.notify_all();
  if (keeping_.joinable()) keeping_.join();
  {
    std::lock_guard guard(checkpoint_mutex_);
    wants_checkpoint_ = true;
  }
  checkpoint_asked_.notify_all();
  checkpoint_ended_.notify_all();
  if (checkpointing_.joinable()) checkpointing_.join();
}

void Keeper::has_work(std::chrono::milliseconds delay) {
  std::int64_t planned = work_at_;
  std::int64_t wanted = now_milliseconds() + delay.count();
  while (planned == 0 || wanted < planned) {
    if (!work_at_.compare_exchange_weak(planned, wanted)) continue;
    return wake();
  }
}

void Keeper::wake() { ::eventfd_write(wake_.get(), 1); }

void Keeper::listen(Tree tree, ChangeListener* listener) {
  std::lock_guard guard(listener_mutex_);
  listeners_.at(static_cast<std::size_t>(tree)) = listener;
}

void Keeper::everything_changed() {
  everything_changed_ = true;
  wake();
}

void Keeper::changed_here(Change change) {
  {
    std::lock_guard guard(changed_here_mutex_);
    changed_here_.push_back(std::move(change));
  }
  has_changed_here_ = true;
  wake();
}

void Keeper::look_at_file() {
  if (take_events()) wake();  // keep() may be waiting for what was taken here
}

// Returns whether there is something for keep() to handle.
bool Keeper::take_events() {
  std::lock_guard guard(watch_mutex_);
  FileWatch::Happened now;
  database_.look_for_writes([&] {
    now = watch_.take();
    return now.other_written;
  });
  unread_.written = unread_.written || now.written;
  unread_.touched = unread_.touched || now.touched;
  return unread_.written || unread_.touched;
}

void Keeper::batch_ended() {
  look_at_file();
  if (unsynced_since_ == 0) unsynced_since_ = now_milliseconds();
  std::uint32_t pages = database_.log_pages();
  if (pages < kPagesBesides) {
    moved_pages_ = 0;  // the log was restarted
    return;
  }
  std::unique_lock lock(checkpoint_mutex_);
  std::uint32_t unmoved = pages - std::min<std::uint32_t>(pages, moved_pages_);
  bool is_little = unmoved <= kPagesOfLittle && !checkpoint_runs_;
  if (!is_little && pages < kPagesAtMost) {
    wants_checkpoint_ = true;
    checkpoint_asked_.notify_one();
    return;
  }
  // The log restarts only if all of it is checkpointed while nobody writes: now. A checkpoint in the background must
  // end first, because two cannot run at once.
  checkpoint_ended_.wait(lock, [this] { return !checkpoint_runs_; });
  checkpoint_unwatched(database_).ignore("the log keeps growing, and the next batch tries again");
}

void Keeper::make_room() {
  if (database_.log_pages() < kPagesOfMuch) return;
  {
    std::unique_lock lock(checkpoint_mutex_);
    std::uint64_t before = checkpoints_;
    wants_checkpoint_ = true;
    checkpoint_asked_.notify_one();
    checkpoint_ended_.wait_for(lock, kRoomWait, [&] { return checkpoints_ != before || ending_; });
  }
  // Little was added while we waited; the end of the batch checkpoints that, and the log restarts.
  database_.end_batch().ignore("the batch stays open and is tried again; sync returns the error");
}

bool Keeper::wants_idle_checkpoint() const {
  std::uint32_t pages = database_.log_pages();
  return pages >= kPagesWhenIdle && pages != idle_checkpoint_of_;
}

int Keeper::wait_milliseconds() const {
  int wait = -1;
  auto at_most = [&](std::int64_t milliseconds) {
    int limit = static_cast<int>(std::max<std::int64_t>(milliseconds, 0));
    wait = wait < 0 ? limit : std::min(wait, limit);
  };
  if (std::int64_t at = work_at_; at != 0) at_most(at - now_milliseconds());
  if (look_at_ != 0) at_most(look_at_ - now_milliseconds());
  if (std::int64_t since = unsynced_since_; since != 0) at_most(since + kSyncMilliseconds - now_milliseconds());
  if (auto due = database_.batch().due_at()) {
    auto left = *due - std::chrono::steady_clock::now();
    at_most(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  } else if (wants_idle_checkpoint()) {
    at_most(kIdleMilliseconds);
  }
  return wait;
}

void Keeper::keep() {
  std::array<pollfd, 2> sources{{{watch_.fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  while (!ending_) {
    int ready = ::poll(sources.data(), sources.size(), wait_milliseconds());
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
    take_events();
    FileWatch::Happened happened = take_unread();
    if (happened.touched) database_.check_name().ignore("fsync and closing the store report it");
    auto due = database_.batch().due_at();
    bool is_late = due && std::chrono::steady_clock::now() >= *due;
    // While the disk does not take the batch, those who knock wait for the next attempt too.
    if (due && (is_late || (happened.touched && !database_.batch().has_failed()))) {
      database_.batch().request_end();  // the thread that holds the lock now may do it first
      database_.end_batch().ignore("the batch stays open and is tried again; sync returns the error");
    }
    work_when_due();
    if (std::int64_t at = unsynced_since_; at != 0 && now_milliseconds() - at >= kSyncMilliseconds) {
      unsynced_since_ = 0;
      ask_for(wants_sync_);
    }
    look_when_due(happened);
    if (ready == 0 && !due && look_at_ == 0 && wants_idle_checkpoint()) {
      idle_checkpoint_of_ = database_.log_pages();
      ask_for(wants_checkpoint_);
    }
  }
}

FileWatch::Happened Keeper::take_unread() {
  std::lock_guard guard(watch_mutex_);
  return std::exchange(unread_, {});
}

void Keeper::work_when_due() {
  std::int64_t at = work_at_;
  if (at == 0 || now_milliseconds() < at) return;
  work_at_ = 0;
  Result<bool> more = work_();
  if (more.ok() && !*more) return;
  // Threads that wait for the lock get a turn in between.
  has_work(std::chrono::milliseconds(more.ok() ? 1 : kRetryMilliseconds));
}

void Keeper::look_when_due(const FileWatch::Happened& happened) {
  bool is_due = look_at_ != 0 && now_milliseconds() >= look_at_;
  if (!happened.written && !happened.touched && !everything_changed_ && !has_changed_here_ && !has_audited_here_ &&
      !is_due)
    return;
  bool is_done = report_changes().ok();
  if (happened.written) look_interval_ = kFirstLookMilliseconds;
  else if (is_due) look_interval_ = look_interval_ < kLastLookMilliseconds ? look_interval_ * 2 : 0;
  if (!is_done) look_interval_ = kRetryMilliseconds;
  if (happened.written || is_due || !is_done) look_at_ = look_interval_ > 0 ? now_milliseconds() + look_interval_ : 0;
}

// Each commit of ours has a row in the journal, one with a checkpoint several. If others have committed more often than
// they left rows, a program that is not ours has changed something.
Result<Keeper::News> Keeper::read_news() {
  std::optional<std::vector<JournalRow>> rows;
  std::optional<std::uint32_t> commits;
  std::int64_t last_seq = 0;
  std::uint64_t epoch = 0;
  bool is_quiet = false;
  for (int attempt = 0; attempt < kQuietAttempts && !is_quiet; ++attempt) {
    auto guard = database_.lock();
    commits = database_.count_foreign_commits();
    Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kSharedRead));
    rows = WARREN_TRY(journal_.read_after(seen_seq_, kRowsAtOnce));
    last_seq = WARREN_TRY(journal_.last_seq());
    epoch = database_.foreign_epoch();
    is_quiet = database_.count_foreign_commits() == commits;
  }
  News news;
  std::uint32_t listed = 0;
  std::optional<std::int64_t> last_commit;
  for (JournalRow& row : rows ? *rows : std::vector<JournalRow>()) {
    if (row.origin == journal_.origin()) continue;
    if (!row.commit_number || row.commit_number != last_commit) ++listed;
    last_commit = row.commit_number;
    std::move(row.changes.begin(), row.changes.end(), std::back_inserter(news.changes));
  }
  bool is_listed = commits ? is_quiet && *commits - seen_commits_ == listed : epoch == seen_epoch_;
  news.is_everything = !rows || rows->size() == kRowsAtOnce || !is_listed;
  // They may have removed what we have open, or left it to us. Not at once: collecting would hold them up.
  if (epoch != seen_epoch_) has_work(kWorkForOthers);
  seen_seq_ = last_seq;
  seen_epoch_ = epoch;
  seen_commits_ = commits.value_or(0);
  return news;
}

Status Keeper::report_changes() {
  bool everything = everything_changed_.exchange(false);
  Result<News> news = read_news();
  if (!news.ok()) {
    if (everything) everything_changed_ = true;
    return std::move(news).error();
  }
  if (news->is_everything) everything = true;
  if (has_changed_here_.exchange(false)) {
    std::lock_guard guard(changed_here_mutex_);
    std::move(changed_here_.begin(), changed_here_.end(), std::back_inserter(news->changes));
    changed_here_.clear();
  }
  bool is_audited = has_audited_here_.exchange(false) || everything;
  for (const Change& change : news->changes) is_audited = is_audited || change.kind == ChangeKind::kAudit;
  std::lock_guard guard(listener_mutex_);
  if (is_audited && when_audited_) when_audited_();
  for (ChangeListener* listener : listeners_) {
    if (listener != nullptr) report(*listener, *news, everything);
  }
  return Ok{};
}

void Keeper::report(ChangeListener& listener, const News& news, bool everything) {
  for (const Change& change : news.changes) {
    if (change.kind == ChangeKind::kEverything || change.kind == ChangeKind::kBase) everything = true;
    if (change.kind == ChangeKind::kEntry) listener.entry_changed(Inode{change.id}, change.name);
    if (change.kind == ChangeKind::kData || change.kind == ChangeKind::kAttributes) {
      listener.node_changed(Inode{change.id});
    }
  }
  if (everything) listener.everything_changed();
}

void Keeper::audited_here() {
  if (!wants_audit_ || has_audited_here_.exchange(true)) return;
  wake();
}

void Keeper::when_audited(std::function<void()> call) {
  std::lock_guard guard(listener_mutex_);
  wants_audit_ = static_cast<bool>(call);
  when_audited_ = std::move(call);
}

void Keeper::ask_for(bool& what) {
  {
    std::lock_guard guard(checkpoint_mutex_);
    what = true;
  }
  checkpoint_asked_.notify_one();
}

void Keeper::checkpoint_when_asked() {
  std::unique_lock lock(checkpoint_mutex_);
  for (;;) {
    checkpoint_asked_.wait(lock, [this] { return wants_checkpoint_ || wants_sync_; });
    if (ending_) break;
    if (std::exchange(wants_sync_, false)) {
      lock.unlock();
      database_.sync_log().ignore("a program that needs to know calls fsync, which returns the error");
      lock.lock();
      continue;
    }
    wants_checkpoint_ = false;
    checkpoint_runs_ = true;
    lock.unlock();
    checkpoint().ignore("the log keeps growing, and the next batch tries again");
    lock.lock();
    checkpoint_runs_ = false;
    ++checkpoints_;
    checkpoint_ended_.notify_all();
  }
}

// On a connection of its own, so that nobody waits for it.
Status Keeper::checkpoint() {
  bool is_first = !checkpointer_;
  if (is_first) WARREN_TRY(database_.check_name());  // another file has the path: the log must not go there
  if (is_first)
    checkpointer_ = WARREN_TRY(
        Database::open(database_.path(), {.mode = OpenMode::kReadWrite, .find_key = database_.key_finder()}));
  moved_pages_ = WARREN_TRY(checkpoint_unwatched(*checkpointer_));
  return Ok{};
}

// Its own writes are not watched: each page would wake keep().
Result<std::uint32_t> Keeper::checkpoint_unwatched(Database& database) {
  look_at_file();
  if (database_.is_overwritten()) WARREN_TRY(database_.check_name());
  notice_writes(FileWatch::Writes::kIgnored);
  Result<std::uint32_t> moved = database.checkpoint();
  notice_writes(FileWatch::Writes::kNoticed);
  look_at_file();
  return moved;
}

void Keeper::notice_writes(FileWatch::Writes writes) {
  std::lock_guard guard(watch_mutex_);
  watch_.add_touches_of(database_.path(), writes).ignore("the file has lost its name, which is noticed anyway");
}

}  // namespace warren
