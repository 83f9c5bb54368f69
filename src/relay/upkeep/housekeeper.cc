#include "relay/upkeep/housekeeper.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "os/turn.h"
#include "relay/upkeep/disk_watch.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kStatsNs = kSecondNs;
constexpr std::int64_t kCountShare = 100;  // counting takes at most one part in so many of a core
constexpr std::int64_t kSweepNs = 3600 * kSecondNs;
constexpr std::int64_t kSteadyNs = 3600 * kSecondNs;
constexpr std::int64_t kJumpUs = 3'600'000'000;
constexpr std::int64_t kDayUs = 86'400'000'000;
constexpr std::uint64_t kPaceFiles = 64;     // removed at once,
constexpr std::int64_t kPaceNs = 5'000'000;  // then this long nothing
constexpr std::size_t kShownAgents = 50;
constexpr std::size_t kFinishedPage = 2000;

}  // namespace

Housekeeper::Housekeeper(Root& root, const Config& config, Clock& clock, Log& log, Metrics& metrics,
                         OpenLedger open_ledger)
    : root_(root),
      config_(config),
      clock_(clock),
      log_(log),
      metrics_(metrics),
      open_ledger_(std::move(open_ledger)),
      clock_offset_us_(clock.now_us() - clock.monotonic_ns() / 1000) {}

Result<std::unique_ptr<Housekeeper>> Housekeeper::start(Root& root, const Config& config, Clock& clock, Log& log,
                                                        Metrics& metrics, OpenLedger open_ledger) {
  std::unique_ptr<Housekeeper> keeper(new Housekeeper(root, config, clock, log, metrics, std::move(open_ledger)));
  try {
    keeper->thread_ = std::thread([keeper = keeper.get()] { keeper->work(); });
  } catch (const std::system_error& failed) {
    return Error(Code::kLimit, "no thread to be had for housekeeping");
  }
  return keeper;
}

Housekeeper::~Housekeeper() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  wake_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  write_stats();
}

void Housekeeper::note_change() {
  if (is_changed_.load(std::memory_order_relaxed)) return;
  {
    std::lock_guard lock(mutex_);
    is_changed_ = true;
  }
  wake_.notify_all();
}

void Housekeeper::free_space() {
  {
    std::lock_guard lock(mutex_);
    must_make_room_ = true;
  }
  wake_.notify_all();
}

std::vector<std::string> Housekeeper::take_finished(std::size_t limit) {
  std::lock_guard lock(mutex_);
  std::vector<std::string> taken;
  while (!finished_.empty() && taken.size() < limit) {
    taken.push_back(std::move(finished_.front()));
    finished_.pop_front();
  }
  has_finished_ = !finished_.empty();
  if (finished_.empty()) wake_.notify_all();
  return taken;
}

std::int64_t Housekeeper::next_turn_ns() const {
  std::int64_t at = sweep_at_ns_;
  if (is_changed_) at = std::min(at, stats_at_ns_);
  if (must_count_) at = std::min(at, count_at_ns_);
  if (finished_from_us_ != 0 && !has_finished_) at = 0;
  return must_make_room_ ? 0 : at;
}

void Housekeeper::work() {
  give_way();
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    std::int64_t wait_ns = next_turn_ns() - clock_.monotonic_ns();
    if (wait_ns > 0) {
      wake_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
      continue;
    }
    lock.unlock();
    do_turn();
    lock.lock();
  }
}

void Housekeeper::note_failure(const char* what, const Status& status) {
  if (status.ok()) return;
  log_.note(Severity::kError, what, {{"error", status.error().message()}});
  ledger_ = nullptr;  // opened anew by whatever comes next
}

void Housekeeper::do_turn() {
  std::int64_t now = clock_.monotonic_ns();
  bool is_changed = is_changed_ && now >= stats_at_ns_;
  if (is_changed) {
    is_changed_ = false;
    must_count_ = true;
    stats_at_ns_ = now + kStatsNs;
  }
  bool counts = must_count_ && now >= count_at_ns_;
  if (counts) note_failure("count_failed", count());
  if (is_changed || counts) write_stats();
  bool must_make_room = false;
  {
    std::lock_guard lock(mutex_);
    must_make_room = std::exchange(must_make_room_, false);
  }
  if (must_make_room) note_failure("make_room_failed", make_room());
  if (now >= sweep_at_ns_) {
    sweep_at_ns_ = now + kSweepNs;
    note_failure("sweep_failed", sweep());
  } else if (finished_from_us_ != 0 && !has_finished_) {
    note_failure("sweep_failed", find_finished());
  }
}

Status Housekeeper::need_ledger() {
  if (ledger_ == nullptr) ledger_ = WARREN_TRY(open_ledger_());
  return Ok{};
}

// How often depends on how long it takes: a ledger of millions is counted now and then, a small one every second.
Status Housekeeper::count() {
  std::int64_t begun = clock_.monotonic_ns();
  must_count_ = false;
  count_at_ns_ = begun + kStatsNs;
  WARREN_TRY(need_ledger());
  Counts counts = WARREN_TRY(ledger_->count());
  auto waiting = WARREN_TRY(ledger_->count_waiting(kShownAgents));
  metrics_.set_ledger(std::move(counts), std::move(waiting));
  std::int64_t took = clock_.monotonic_ns() - begun;
  count_at_ns_ = begun + std::max(kStatsNs, took * kCountShare);
  return Ok{};
}

// Replaced as a whole, so that a reader never sees half of it; not synced, since after a power cut nobody asks.
void Housekeeper::write_stats() {
  Json json = {{"pid", ::getpid()}, {"written_at", static_cast<double>(clock_.now_us()) / 1e6}};
  json.update(stats_json(metrics_.take()));
  Result<Fd> file = open_below(root_.dir(), "stats.json.new", O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.ok()) return;
  Status written = write_all(file->get(), as_bytes(dump_json(json) + "\n"));
  if (written.ok() && ::renameat(root_.dir(), "stats.json.new", root_.dir(), "stats.json") == 0) return;
  ::unlinkat(root_.dir(), "stats.json.new", 0);
}

bool Housekeeper::wait_until(std::int64_t monotonic_ns) {
  std::unique_lock lock(mutex_);
  std::int64_t wait_ns = monotonic_ns - clock_.monotonic_ns();
  if (wait_ns > 0) wake_.wait_for(lock, std::chrono::nanoseconds(wait_ns), [&] { return is_over_; });
  return !is_over_;
}

bool Housekeeper::pace() { return ++paced_ % kPaceFiles != 0 || wait_until(clock_.monotonic_ns() + kPaceNs); }

// A clock that jumps ahead makes everything look old. After a jump nothing is removed until it has stood for an hour.
bool Housekeeper::clock_is_steady() {
  std::int64_t offset_us = clock_.now_us() - clock_.monotonic_ns() / 1000;
  if (std::abs(offset_us - clock_offset_us_) > kJumpUs) {
    clock_offset_us_ = offset_us;
    steady_at_ns_ = clock_.monotonic_ns() + kSteadyNs;
    log_.note(Severity::kWarning, "clock_jumped", {{"retention", "waits for an hour"}});
  }
  return clock_.monotonic_ns() >= steady_at_ns_;
}

Status Housekeeper::sweep() {
  WARREN_TRY(need_ledger());
  Sweeper sweeper(root_, *ledger_, clock_, [this] { return pace(); });
  std::uint64_t leftovers = WARREN_TRY(sweeper.remove_leftovers());
  if (leftovers > 0) log_.note(Severity::kInfo, "leftovers_removed", {{"count", leftovers}});
  if (config_.archive_days == 0 || !clock_is_steady()) return Ok{};
  std::string date = date_before(clock_, config_.archive_days);
  std::uint64_t archived = WARREN_TRY(sweeper.sweep_archive(date, [] { return false; }));
  std::uint64_t done = WARREN_TRY(sweeper.sweep_done(clock_.now().seconds - config_.archive_days * kDayUs / 1'000'000));
  metrics_.add(Tally::kArchiveRemoved, archived);
  metrics_.add(Tally::kDoneRemoved, done);
  if (archived + done > 0) {
    log_.note(Severity::kInfo, "swept", {{"before", date}, {"archive_files", archived}, {"done_files", done}});
  }
  finished_from_us_ = INT64_MIN;
  return find_finished();
}

// The next page of what the relay may remove from the ledger.
Status Housekeeper::find_finished() {
  WARREN_TRY(need_ledger());
  std::int64_t before_us = clock_.now_us() - config_.archive_days * kDayUs;
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
  WARREN_TRY(need_ledger());
  Sweeper sweeper(root_, *ledger_, clock_, [this] { return pace(); });
  auto is_enough = [this] {
    Result<double> used = disk_used(root_.dir());
    return !used.ok() || *used * 100 < config_.disk_alert_percent;
  };
  std::uint64_t removed = WARREN_TRY(sweeper.sweep_archive(date_before(clock_, 1), is_enough));
  metrics_.add(Tally::kArchiveRemoved, removed);
  if (removed > 0) log_.note(Severity::kWarning, "archive_removed_for_space", {{"files", removed}});
  return Ok{};
}

}  // namespace warren::relay
