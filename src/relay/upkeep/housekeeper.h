// The relay's background chores: counting the ledger's rows, writing stats.json, and removing old files.
//
// They run in a thread of low priority with its own connection, which only reads the ledger.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "os/threads/worker.h"
#include "relay/ledger/ledger.h"
#include "relay/root/config.h"
#include "relay/root/log.h"
#include "relay/root/root.h"
#include "relay/upkeep/metrics.h"
#include "relay/upkeep/sweeper.h"

namespace warren::relay {

// Thread-safe. Root, config, clock, log and metrics must outlive it.
class Housekeeper {
 public:
  using OpenLedger = std::function<Result<std::unique_ptr<Ledger>>()>;  // called in the background thread

  static Result<std::unique_ptr<Housekeeper>> start(Root& root, const Config& config, Clock& clock, Log& log,
                                                    Metrics& metrics, OpenLedger open_ledger);
  ~Housekeeper();  // writes stats.json one last time

  // The metrics have changed: stats.json is written within a second. Costs the caller next to nothing.
  void note_change();

  void use(const Config& config);  // which has changed

  // The disk is nearly full: removes days of the archive before yesterday until it is not.
  void free_space();

  // Ids of messages that finished before the archive begins, so the relay may remove their rows. Searched every hour.
  std::vector<std::string> take_finished(std::size_t limit);
  bool has_finished() const { return has_finished_.load(std::memory_order_relaxed); }

 private:
  Housekeeper(Root& root, const Config& config, Clock& clock, Log& log, Metrics& metrics, OpenLedger open_ledger);
  void work();
  void run_due_chores();
  Status ensure_ledger();
  Status count();
  void write_stats();
  Status sweep();
  Status make_room();
  Status find_finished();
  bool pace();  // called after each removed file, limits the rate; false: stop
  bool clock_is_steady();
  std::int64_t next_due_ns() const;
  void note_failure(const char* what, const Status& status);

  Root& root_;
  Clock& clock_;
  Log& log_;
  Metrics& metrics_;
  OpenLedger open_ledger_;

  // Used by the background thread only. Times are monotonic unless named otherwise.
  std::unique_ptr<Ledger> ledger_;
  std::int64_t stats_due_ns_ = 0;
  std::int64_t count_due_ns_ = 0;
  std::int64_t sweep_due_ns_ = 0;
  bool must_count_ = true;
  std::uint64_t removed_ = 0;
  std::int64_t clock_offset_us_ = 0;  // wall time minus monotonic time
  std::int64_t steady_at_ns_ = 0;
  std::int64_t finished_from_us_ = 0;  // where the search for finished messages continues; 0: it is over

  std::atomic<int> archive_days_;
  std::atomic<int> disk_alert_percent_;
  std::atomic<bool> is_changed_ = true;
  std::atomic<bool> must_make_room_ = false;
  std::atomic<bool> has_finished_ = false;
  std::mutex mutex_;
  std::deque<std::string> finished_;  // under mutex_
  bool is_started_ = false;
  Worker worker_{{.priority = Worker::Priority::kLow}};
};

}  // namespace warren::relay
