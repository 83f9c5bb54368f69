#include "relay/ledger/ledger_syncer.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "os/threads/turn.h"

namespace warren::relay {
namespace {

// Leaves the disk to senders, whose syncs go first.
constexpr std::chrono::milliseconds kBetween{5};
constexpr std::chrono::milliseconds kShortage{100};
constexpr std::size_t kFilingsMax = 8192;

}  // namespace

LedgerSyncer::LedgerSyncer(Sync sync, File file)
    : sync_(std::move(sync)),
      file_(std::move(file)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { work(); }) {}

LedgerSyncer::~LedgerSyncer() {
  {
    std::unique_lock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::uint64_t LedgerSyncer::ask(std::vector<Filing> filings) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return filings_.size() < kFilingsMax || failure_; });
  for (Filing& filing : filings) filings_.push_back(std::move(filing));
  std::uint64_t number = ++asked_;
  bool is_idle = number == filed_ + 1;
  lock.unlock();
  if (is_idle) changed_.notify_all();
  return number;
}

std::optional<Error> LedgerSyncer::failure() const {
  std::unique_lock lock(mutex_);
  return failure_;
}

Status LedgerSyncer::wait_for(const std::uint64_t& done, std::uint64_t number) {
  std::unique_lock lock(mutex_);
  is_hurried_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return done >= number || failure_; });
  is_hurried_ = false;
  return done >= number ? Status(Ok{}) : Status(*failure_);
}

Status LedgerSyncer::wait(std::uint64_t number) { return wait_for(synced_, number); }

Status LedgerSyncer::wait_filed(std::uint64_t number) { return wait_for(filed_, number); }

void LedgerSyncer::note_durable() {
  std::unique_lock lock(mutex_);
  failure_.reset();
  synced_ = asked_;
  lock.unlock();
  changed_.notify_all();
}

void LedgerSyncer::clear() {
  std::uint64_t count = 0;
  [[maybe_unused]] ssize_t got = ::read(wake_.get(), &count, sizeof count);
}

void LedgerSyncer::sync_and_file(std::unique_lock<std::mutex>& lock) {
  std::uint64_t number = asked_;
  std::vector<Filing> filings = std::exchange(filings_, {});
  if (synced_ < number) {
    lock.unlock();
    Status synced = sync_();
    lock.lock();
    if (!synced.ok()) {
      failure_ = synced.error();
      filings_.insert(filings_.begin(), filings.begin(), filings.end());
      std::uint64_t one = 1;
      [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof one);  // a full counter is readable anyway
      changed_.notify_all();
      return;
    }
    synced_ = std::max(synced_, number);
    changed_.notify_all();
  }
  lock.unlock();
  std::vector<Filing> again = file_(std::move(filings));
  lock.lock();
  if (!again.empty()) {
    filings_.insert(filings_.begin(), std::make_move_iterator(again.begin()), std::make_move_iterator(again.end()));
    changed_.wait_for(lock, kShortage, [&] { return is_ending_; });
    return;
  }
  filed_ = std::max(filed_, number);
  changed_.notify_all();
}

void LedgerSyncer::work() {
  give_way();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_ending_ || (asked_ > filed_ && !failure_); });
    if (is_ending_) return;
    sync_and_file(lock);
    changed_.wait_for(lock, kBetween, [&] { return is_ending_ || is_hurried_; });
  }
}

}  // namespace warren::relay
