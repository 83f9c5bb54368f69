#include "relay/delivery/delivery_news.h"

#include <algorithm>
#include <iterator>

namespace warren::relay {
namespace {

constexpr std::int64_t kFlushNs = 20'000'000;  // how long few news wait for a round with something else to record
constexpr std::int64_t kFlushLateNs = 80'000'000;
constexpr std::size_t kNewsAtOnce = 16;  // so many are worth a round of their own
constexpr std::size_t kAwaitedMost = 256;
constexpr std::size_t kNewsMost = 8192;                // that wait for a quiet moment
constexpr std::uint64_t kArrivalBytesMost = 16 << 20;  // bytes of arrivals that wait for a quiet moment
constexpr std::int64_t kQuietNs = 1'000'000;           // length of a quiet moment, as long as few news wait;
constexpr std::int64_t kMovingQuietNs = 20'000'000;    // while the ledger's log is moved
constexpr std::size_t kLeftParts = 8;
// Changes recorded by a round: few, so that a new message waits for less than a millisecond; or more where there are
// too many.
constexpr std::size_t kSomeChanges = 32;
constexpr std::size_t kMoreChanges = 256;

}  // namespace

// The more there is to record, the shorter the wait.
std::int64_t DeliveryNews::rest_ns(const Load& load) const {
  std::size_t waiting = std::min(count(), kNewsMost);
  bool can_wait = load.can_be_deferred && !is_awaited_ && load.arrival_bytes < kArrivalBytesMost;
  std::int64_t most = load.is_log_moving ? kMovingQuietNs : kQuietNs;
  return can_wait ? most * static_cast<std::int64_t>(kNewsMost - waiting) / static_cast<std::int64_t>(kNewsMost) : 0;
}

DeliveryNews::Share DeliveryNews::due(const Load& load) const {
  std::int64_t now = clock_.monotonic_ns();
  bool is_long = count() >= kNewsAtOnce || now >= flush_at_ns_;
  if (load.has_new_messages) {
    bool can_wait = load.can_be_deferred && !is_awaited_;
    is_long = can_wait ? count() >= kNewsMost || load.arrival_bytes >= kArrivalBytesMost
                       : count() >= kAwaitedMost || now - flush_at_ns_ >= kFlushLateNs;
  } else if (now < busy_at_ns_ + rest_ns(load)) {
    is_long = false;
  }
  if (!is_long) return Share::kNone;
  if (is_awaited_ || !load.can_be_deferred) return Share::kAll;
  return load.has_new_messages ? Share::kMore : Share::kSome;
}

std::int64_t DeliveryNews::wake_at_ns(const Load& load) const {
  return std::max(count() >= kNewsAtOnce ? 0 : flush_at_ns_, busy_at_ns_ + rest_ns(load));
}

void DeliveryNews::start_waiting() { flush_at_ns_ = clock_.monotonic_ns() + kFlushNs; }

std::vector<Change> DeliveryNews::take(Share part, std::size_t messages) {
  std::size_t most =
      part == Share::kSome ? kSomeChanges : std::max(kMoreChanges, 2 * messages);  // so they become fewer
  std::size_t taken = part == Share::kAll ? changes_.size() : std::min(changes_.size(), most);
  auto end = changes_.begin() + static_cast<std::ptrdiff_t>(taken);
  std::vector<Change> out(std::make_move_iterator(changes_.begin()), std::make_move_iterator(end));
  changes_.erase(changes_.begin(), end);
  return out;
}

void DeliveryNews::put_back(std::vector<Change> changes) {
  changes_.insert(changes_.begin(), std::make_move_iterator(changes.begin()), std::make_move_iterator(changes.end()));
  is_awaited_ = true;  // it may be
}

// A part of them, so that no round takes long; a larger one where there are more.
std::size_t DeliveryNews::count_left_to_take() const {
  return std::min(left_.size(), std::max(2 * kNewsAtOnce, left_.size() / kLeftParts));
}

void DeliveryNews::forget_left(std::size_t count) {
  left_.erase(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(count));
  if (changes_.empty() && left_.empty()) is_awaited_ = false;
}

}  // namespace warren::relay
