// The relay's metrics: monotonic counters, row counts of the ledger, and delivery latencies.
//
// The relay's thread updates them with relaxed atomic operations; readers (HTTP, stats.json) take a snapshot. Counts
// from the ledger (deliveries by state) are made by the housekeeper and kept here until the next count.
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

// One counter each. Names and descriptions are in metrics.cc.
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
  kOperationsFailed,
  kRounds,
  kRoundsFailed,
  kOverflows,
  kArchiveRemoved,
  kLedgerRemoved,
  kDoneRemoved,
};
inline constexpr std::size_t kTallies = 16;

// Upper bounds of the histogram's buckets, in seconds. One more bucket has no bound.
inline constexpr std::array<double, 17> kLatencyBounds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

struct Snapshot {
  std::array<std::uint64_t, kTallies> tallies{};
  std::array<std::uint64_t, kLatencyBounds.size() + 1> latencies{};  // per bucket, not cumulative
  double latency_seconds = 0;                                        // sum over all deliveries
  Counts ledger;
  std::map<std::string, std::int64_t> waiting;  // agent → unread deliveries, for the agents with most
  std::map<std::string, std::int64_t> agents;   // by status
  std::int64_t outbox_files = 0;                // seen in outboxes and not processed yet
  double disk_used = 0;                         // 0 to 1
  bool disk_is_low = false;
  double uptime_seconds = 0;
  double started_at_seconds = 0;   // wall time
  double busy_seconds = 0;         // since the relay's thread was last idle; 0 while it is idle
  double since_round_seconds = 0;  // since the last successful round, or the start
  int failures = 0;                // consecutive failed rounds
  std::string failure;             // the error of the last one
  std::string address;             // where metrics are served; empty: nowhere
  std::string config_remark;       // what of config.json is not used, and why; empty: all of it is used

  std::uint64_t get(Tally tally) const { return tallies.at(static_cast<std::size_t>(tally)); }
  std::int64_t queue_depth() const;  // outbox files plus deliveries that are pending, stored or held
};

// Thread-safe.
class Metrics {
 public:
  explicit Metrics(Clock& clock);

  void add(Tally tally, std::uint64_t count = 1) {
    tallies_.at(static_cast<std::size_t>(tally)).fetch_add(count, std::memory_order_relaxed);
  }
  void set_overflows(std::uint64_t count) {  // counted by the watcher
    tallies_.at(static_cast<std::size_t>(Tally::kOverflows)).store(count, std::memory_order_relaxed);
  }
  void note_latency(std::int64_t nanoseconds);
  void set_outbox_files(std::int64_t count) { outbox_files_.store(count, std::memory_order_relaxed); }
  void note_round();  // a round has succeeded
  void set_busy_since(std::int64_t monotonic_ns) { busy_since_ns_.store(monotonic_ns, std::memory_order_relaxed); }

  void set_agents(std::map<std::string, std::int64_t> by_status);
  void set_failure(int in_a_row, std::string why);
  void set_disk(double used, bool is_low);
  void set_ledger(Counts counts, std::map<std::string, std::int64_t> waiting);
  void set_address(std::string address);
  void set_config_remark(std::string remark);

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
  Snapshot slow_;  // under mutex_: everything that is not atomic
};

// Prometheus' text format, version 0.0.4.
std::string render_metrics(const Snapshot& snapshot);

// The snapshot as JSON, for stats.json.
Json stats_json(const Snapshot& snapshot);

// Human-readable problems; empty if the relay is healthy.
std::vector<std::string> problems_of(const Snapshot& snapshot);

}  // namespace warren::relay
