#include "relay/ledger/log_mover.h"

namespace warren::relay {
namespace {

constexpr int kPasses = 4;  // the first takes longest; each moves commits made during the one before

}  // namespace

void LogMover::start() {
  State resting = State::kResting;
  if (!state_.compare_exchange_strong(resting, State::kAsked)) return;
  Status submitted = worker_.submit([this] {
    move();
    state_ = State::kNearlyDone;
  });
  if (!submitted.ok()) state_ = State::kNearlyDone;  // without a thread, the caller moves all of it
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

}  // namespace warren::relay
