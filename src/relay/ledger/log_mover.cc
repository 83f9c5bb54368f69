#include "relay/ledger/log_mover.h"

#include "os/turn.h"

namespace warren::relay {
namespace {

constexpr int kPasses = 4;  // the first takes longest; each moves commits made during the one before

}  // namespace

LogMover::~LogMover() {
  {
    std::unique_lock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LogMover::start() {
  State resting = State::kResting;
  if (!state_.compare_exchange_strong(resting, State::kAsked)) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  { std::unique_lock lock(mutex_); }  // the thread is not between its check and its wait
  changed_.notify_all();
}

bool LogMover::take_over() {
  State nearly_done = State::kNearlyDone;
  return state_.compare_exchange_strong(nearly_done, State::kResting);
}

// The caller of take_over() repeats a failed move, and reports the failure.
void LogMover::move() {
  if (database_ == nullptr) {
    DatabaseOptions options{.durability = Durability::kProcess, .checkpoints = Checkpoints::kByOwner};
    Result<std::unique_ptr<Database>> opened = Database::open(path_, options);
    if (!opened.ok()) return;
    database_ = std::move(opened).take_value();
  }
  for (int i = 0; i < kPasses; ++i) {
    if (!database_->checkpoint().ok()) return;
  }
}

void LogMover::work() {
  give_way();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_ending_ || state_ == State::kAsked; });
    if (is_ending_) return;
    lock.unlock();
    move();
    state_ = State::kNearlyDone;
    lock.lock();
  }
}

}  // namespace warren::relay
