#include "relay/upkeep/housekeeper.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "relay/upkeep/disk_watch.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kStatsNs = kSecondNs;
constexpr std::int64_t kCountShare = 100;  // counting takes at most 1/100 of a core
constexpr std::int64_t kSweepNs = 3600 * kSecondNs;
constexpr std::int64_t kSteadyNs = 3600 * kSecondNs;
constexpr std::int64_t kJumpUs = 3'600'000'000;
constexpr std::int64_t kDayUs = 86'400'000'000;
constexpr std::uint64_t kPaceFiles = 64;  // a pause after so many removed files
constexpr std::chrono::milliseconds kPace{5};
constexpr std::size_t kShownAgents = 50;
constexpr std::size_t kFinishedPage = 2000;

}  // namespace

Housekeeper::Housekeeper(Root& root, const Config& config, Clock& clock, Log& log, Metrics& metrics,
                         OpenLedger open_ledger)
    : root_(root),
      clock_(clock),
      log_(log),
      metrics_(metrics),
      open_ledger_(std::move(open_ledger)),
      clock_offset_us_(clock.now_us() - clock.boottime_ns() / 1000),
      archive_days_(config.archive_days),
      disk_alert_percent_(config.disk_alert_percent) {}

void Housekeeper::use(const Config& config) {
  archive_days_ = config.archive_days;
  disk_alert_percent_ = config.disk_alert_percent;
}

Result<std::unique_ptr<Housekeeper>> Housekeeper::start(Root& root, const Config& config, Clock& clock, Log& log,
                                                        Metrics& metrics, OpenLedger open_ledger) {
  std::unique_ptr<Housekeeper> keeper(new Housekeeper(root, config, clock, log, metrics, std::move(open_ledger)));
  WARREN_TRY(keeper->worker_.submit([raw = keeper.get()] { raw->work(); }).within("housekeeping"));
  keeper->is_started_ = true;
  return keeper;
}

Housekeeper::~Housekeeper() {
  worker_.stop();
  if (is_started_) write_stats();
}

void Housekeeper::note_change() {
  if (is_changed_.load(std::memory_order_relaxed)) return;
  is_changed_ = true;
  worker_.wake();
}

void Housekeeper::free_space() {
  must_make_room_ = true;
  worker_.wake();
}

std::vector<std::string> Housekeeper::take_finished(std::size_t limit) {
  std::lock_guard lock(mutex_);
  std::vector<std::string> taken;
  while (!finished_.empty() && taken.size() < limit) {
    taken.push_back(std::move(finished_.front()));
    finished_.pop_front();
  }
  has_finished_ = !finished_.empty();
  if (finished_.empty()) worker_.wake();
  return taken;
}

std::int64_t Housekeeper::next_due_ns() const {
  std::int64_t at = sweep_due_ns_;
  if (is_changed_) at = std::min(at, stats_due_ns_);
  if (must_count_) at = std::min(at, count_due_ns_);
  if (finished_from_us_ != 0 && !has_finished_) at = 0;
  return must_make_room_ ? 0 : at;
}

void Housekeeper::work() {
  while (!worker_.is_stopping()) {
    std::int64_t wait_ns = next_due_ns() - clock_.monotonic_ns();
    if (wait_ns > 0) worker_.sleep_until_woken(std::chrono::nanoseconds(wait_ns));
    else run_due_chores();
  }
}

void Housekeeper::note_failure(const char* what, const Status& status) {
  if (status.ok()) return;
  log_.note(Severity::kError, what, {{"error", status.error().message()}});
  ledger_ = nullptr;  // the next chore opens it again
}

void Housekeeper::run_due_chores() {
  std::int64_t now = clock_.monotonic_ns();
  bool is_changed = is_changed_ && now >= stats_due_ns_;
  if (is_changed) {
    is_changed_ = false;
    must_count_ = true;
    stats_due_ns_ = now + kStatsNs;
  }
  bool counts = must_count_ && now >= count_due_ns_;
  if (counts) note_failure("count_failed", count());
  if (is_changed || counts) write_stats();
  if (must_make_room_.exchange(false)) note_failure("make_room_failed", make_room());
  if (now >= sweep_due_ns_) {
    sweep_due_ns_ = now + kSweepNs;
    note_failure("sweep_failed", sweep());
  } else if (finished_from_us_ != 0 && !has_finished_) {
    note_failure("sweep_failed", find_finished());
  }
}

Status Housekeeper::ensure_ledger() {
  if (ledger_ == nullptr) ledger_ = WARREN_TRY(open_ledger_());
  return Ok{};
}

// The longer a count takes, the rarer it is: a small ledger is counted every second, one of millions now and then.
Status Housekeeper::count() {
  std::int64_t begun = clock_.monotonic_ns();
  must_count_ = false;
  count_due_ns_ = begun + kStatsNs;
  WARREN_TRY(ensure_ledger());
  Counts counts = WARREN_TRY(ledger_->count());
  auto waiting = WARREN_TRY(ledger_->count_waiting(kShownAgents));
  metrics_.set_ledger(std::move(counts), std::move(waiting));
  std::int64_t took = clock_.monotonic_ns() - begun;
  count_due_ns_ = begun + std::max(kStatsNs, took * kCountShare);
  return Ok{};
}

// Replaced atomically, so that readers never see half of it. Not synced: nobody needs it after a power cut.
void Housekeeper::write_stats() {
  Json json = {{"pid", ::getpid()}, {"written_at", static_cast<double>(clock_.now_us()) / 1e6}};
  json.update(stats_json(metrics_.take()));
  Result<Fd> file = open_below(root_.dir(), "stats.json.new", O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.ok()) return;
  Status written = write_all(file->get(), as_bytes(dump_json(json) + "\n"));
  if (written.ok() && ::renameat(root_.dir(), "stats.json.new", root_.dir(), "stats.json") == 0) return;
  ::unlinkat(root_.dir(), "stats.json.new", 0);
}

bool Housekeeper::pace() { return ++removed_ % kPaceFiles != 0 || worker_.sleep_for(kPace); }

// A clock that jumps ahead makes everything look old. So after a jump nothing is removed for an hour.
bool Housekeeper::clock_is_steady() {
  std::int64_t offset_us = clock_.now_us() - clock_.boottime_ns() / 1000;
  if (std::abs(offset_us - clock_offset_us_) > kJumpUs) {
    clock_offset_us_ = offset_us;
    steady_at_ns_ = clock_.monotonic_ns() + kSteadyNs;
    log_.note(Severity::kWarning, "clock_jumped", {{"retention", "waits for an hour"}});
  }
  return clock_.monotonic_ns() >= steady_at_ns_;
}

Status Housekeeper::sweep() {
  WARREN_TRY(ensure_ledger());
  Sweeper sweeper(root_, *ledger_, clock_, [this] { return pace(); });
  std::uint64_t leftovers = WARREN_TRY(sweeper.remove_leftovers());
  if (leftovers > 0) log_.note(Severity::kInfo, "leftovers_removed", {{"count", leftovers}});
  int days = archive_days_;
  if (days == 0 || !clock_is_steady()) return Ok{};
  std::string date = date_before(clock_, days);
  std::uint64_t archived = WARREN_TRY(sweeper.sweep_archive(date, [] { return false; }));
  std::uint64_t done = WARREN_TRY(sweeper.sweep_done(clock_.now().seconds - days * kDayUs / 1'000'000));
  metrics_.add(Tally::kArchiveRemoved, archived);
  metrics_.add(Tally::kDoneRemoved, done);
  if (archived + done > 0) {
    log_.note(Severity::kInfo, "swept", {{"before", date}, {"archive_files", archived}, {"done_files", done}});
  }
  finished_from_us_ = INT64_MIN;
  return find_finished();
}

// Reads the next page of messages that the relay may remove from the ledger.
Status Housekeeper::find_finished() {
  int days = archive_days_;
  if (days == 0) {  // since the search began
    finished_from_us_ = 0;
    return Ok{};
  }
  WARREN_TRY(ensure_ledger());
  std::int64_t before_us = clock_.now_us() - days * kDayUs;
  std::vector<Finished> page = WARREN_TRY(ledger_->list_finished(before_us, finished_from_us_, kFinishedPage));
  finished_from_us_ = page.size() < kFinishedPage ? 0 : page.back().discovered_at_us;
  if (page.empty()) return Ok{};
  std::lock_guard lock(mutex_);
  for (Finished& one : page) finished_.push_back(std::move(one.message_id));
  has_finished_ = true;
  return Ok{};
}

Status Housekeeper::make_room() {
  if (!clock_is_steady()) return Ok{};
  WARREN_TRY(ensure_ledger());
  Sweeper sweeper(root_, *ledger_, clock_, [this] { return pace(); });
  auto is_enough = [this] {
    Result<double> used = disk_used(root_.dir());
    return !used.ok() || *used * 100 < disk_alert_percent_;
  };
  std::uint64_t removed = WARREN_TRY(sweeper.sweep_archive(date_before(clock_, 1), is_enough));
  metrics_.add(Tally::kArchiveRemoved, removed);
  if (removed > 0) log_.note(Severity::kWarning, "archive_removed_for_space", {{"files", removed}});
  return Ok{};
}

}  // namespace warren::relay
