// What a relay tells about itself: counters that only rise, what the ledger holds, how long deliveries take.
//
// The relay's thread writes with plain atomic additions; whoever shows the numbers (HTTP, stats.json) takes a snapshot.
// What only the ledger knows (deliveries by state) is counted by the housekeeper and kept here until the next count.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "relay/ledger/ledger.h"

namespace warren::relay {

// Each is a counter of the same name; metrics.cc has the names and what they say.
enum class Tally {
  kAccepted,
  kAcceptedBytes,
  kDelivered,
  kRead,
  kAcked,
  kNacked,
  kRefused,
  kRetries,
  kDeadLetters,
  kRounds,
  kRoundsFailed,
  kOverflows,
  kArchiveRemoved,
  kLedgerRemoved,
  kDoneRemoved,
};
inline constexpr std::size_t kTallies = 15;

// Upper bounds of the histogram's buckets; one more is for what is slower.
inline constexpr std::array<double, 17> kLatencyBounds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

struct Snapshot {
  std::array<std::uint64_t, kTallies> tallies{};
  std::array<std::uint64_t, kLatencyBounds.size() + 1> latencies{};  // each bucket alone, not summed up
  double latency_seconds = 0;                                        // of all of them
  Counts ledger;
  std::map<std::string, std::int64_t> waiting;  // agent → deliveries it has not read: those that have most
  std::map<std::string, std::int64_t> agents;   // by status
  std::int64_t outbox_files = 0;                // noticed in outboxes and not taken yet
  double disk_used = 0;                         // 0 to 1
  bool disk_is_low = false;
  double uptime_seconds = 0;
  double started_at_seconds = 0;   // wall time
  double busy_seconds = 0;         // since the relay's thread last waited for something to do; 0 while it waits
  double since_round_seconds = 0;  // since a round was carried out, or since the start
  int failures = 0;                // rounds in a row that could not be carried out
  std::string failure;             // why the last of them
  std::string address;             // where metrics are served; "": nowhere

  std::uint64_t get(Tally tally) const { return tallies.at(static_cast<std::size_t>(tally)); }
  std::int64_t queue_depth() const;  // files noticed, and deliveries that are pending, stored or held
};

// Thread-safe.
class Metrics {
 public:
  explicit Metrics(Clock& clock);

  void add(Tally tally, std::uint64_t count = 1) {
    tallies_.at(static_cast<std::size_t>(tally)).fetch_add(count, std::memory_order_relaxed);
  }
  void set_overflows(std::uint64_t count) {  // the watcher counts them
    tallies_.at(static_cast<std::size_t>(Tally::kOverflows)).store(count, std::memory_order_relaxed);
  }
  void note_latency(std::int64_t nanoseconds);
  void set_outbox_files(std::int64_t count) { outbox_files_.store(count, std::memory_order_relaxed); }
  void note_round();  // carried out, just now
  void set_busy_since(std::int64_t monotonic_ns) { busy_since_ns_.store(monotonic_ns, std::memory_order_relaxed); }

  void set_agents(std::map<std::string, std::int64_t> by_status);
  void set_failure(int in_a_row, std::string why);
  void set_disk(double used, bool is_low);
  void set_ledger(Counts counts, std::map<std::string, std::int64_t> waiting);
  void set_address(std::string address);

  Snapshot take() const;

 private:
  Clock& clock_;
  std::int64_t started_ns_;
  std::int64_t started_at_us_;
  std::array<std::atomic<std::uint64_t>, kTallies> tallies_{};
  std::array<std::atomic<std::uint64_t>, kLatencyBounds.size() + 1> latencies_{};
  std::atomic<std::uint64_t> latency_ns_{0};
  std::atomic<std::int64_t> outbox_files_{0};
  std::atomic<std::int64_t> busy_since_ns_{0};
  std::atomic<std::int64_t> round_at_ns_;
  mutable std::mutex mutex_;
  Snapshot slow_;  // under mutex_: what is not atomic
};

// Prometheus' text format, version 0.0.4.
std::string render_metrics(const Snapshot& snapshot);

// The same numbers for stats.json.
Json stats_json(const Snapshot& snapshot);

// What is wrong, for people; empty when all is well.
std::vector<std::string> problems_of(const Snapshot& snapshot);

}  // namespace warren::relay
