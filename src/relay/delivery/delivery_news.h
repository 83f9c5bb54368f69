// What happened to earlier deliveries and is not recorded yet, and when that is worth a transaction.
//
// Recording it costs as much as taking a message, so in a rush it waits for a quiet moment, unless an agent waits for a
// report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "relay/delivery/watcher.h"
#include "relay/plan.h"

namespace warren::relay {

// One thread.
class DeliveryNews {
 public:
  explicit DeliveryNews(Clock& clock) : clock_(clock) {}

  // How much of it a round records.
  enum class Share { kNone, kSome, kMore, kAll };

  // What the decision depends on.
  struct Load {
    bool can_be_deferred = false;     // the ledger has the contents of small messages
    std::uint64_t arrival_bytes = 0;  // of messages that are not entered yet
    bool is_log_moving = false;
    bool has_new_messages = false;
  };
  Share due(const Load& load) const;
  std::int64_t wake_at_ns(const Load& load) const;  // monotonic: when due() may change without anything new

  bool is_empty() const { return changes_.empty() && left_.empty(); }
  void start_waiting();                                   // before the first news: few of them wait for more
  void hurry() { flush_at_ns_ = clock_.monotonic_ns(); }  // they have waited long enough
  void note_awaited() { is_awaited_ = true; }             // some of it is to be reported to an agent
  bool is_awaited() const { return is_awaited_; }
  void note_busy() { busy_at_ns_ = clock_.monotonic_ns(); }  // a round with new messages has ended

  // Deliveries that have moved on.
  const std::deque<Change>& changes() const { return changes_; }
  void add(Change change) { changes_.push_back(std::move(change)); }
  std::vector<Change> take(Share part, std::size_t messages);  // beside so many new messages
  void put_back(std::vector<Change> changes);                  // of an abandoned round
  void drop_changes() { changes_.clear(); }

  // Files that left inboxes.
  const std::vector<LeftInbox>& left() const { return left_; }
  void add_left(LeftInbox one) { left_.push_back(std::move(one)); }
  std::size_t count_left_to_take() const;
  void forget_left(std::size_t count);

  // Agents whose inboxes are to be compared with the ledger, and the delivery they were checked up to.
  std::map<std::string, std::int64_t>& inbox_checks() { return inbox_checks_; }
  bool has_inbox_checks() const { return !inbox_checks_.empty(); }

 private:
  std::size_t count() const { return changes_.size() + left_.size(); }
  std::int64_t rest_ns(const Load& load) const;  // how long the relay must have been idle

  Clock& clock_;
  std::deque<Change> changes_;
  std::vector<LeftInbox> left_;
  std::map<std::string, std::int64_t> inbox_checks_;
  bool is_awaited_ = false;
  std::int64_t flush_at_ns_ = 0;  // monotonic: when they are recorded, be they few
  std::int64_t busy_at_ns_ = 0;   // monotonic: the end of the last round with anything new
};

}  // namespace warren::relay
