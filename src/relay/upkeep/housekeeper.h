// A thread that does for a relay what may take long and nobody waits for: counting what the ledger holds, writing
// stats.json, and removing what is old. It reads the ledger by a connection of its own and never writes to it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "relay/ledger/ledger.h"
#include "relay/root/config.h"
#include "relay/root/log.h"
#include "relay/root/root.h"
#include "relay/upkeep/metrics.h"
#include "relay/upkeep/sweeper.h"

namespace warren::relay {

// Root, config, log and metrics must outlive it.
class Housekeeper {
 public:
  using OpenLedger = std::function<Result<std::unique_ptr<Ledger>>()>;  // called in its thread

  static Result<std::unique_ptr<Housekeeper>> start(Root& root, const Config& config, Clock& clock, Log& log,
                                                    Metrics& metrics, OpenLedger open_ledger);
  ~Housekeeper();  // ends the thread, writes stats.json once more

  // Numbers have changed: they are written within a second. Costs the caller next to nothing.
  void note_change();

  // The disk is nearly full: days of the archive before yesterday go until it is not.
  void free_space();

  // Messages whose rows the relay may remove, since they finished longer ago than the archive reaches. They are
  // looked for anew every hour.
  std::vector<std::string> take_finished(std::size_t limit);
  bool has_finished() const { return has_finished_.load(std::memory_order_relaxed); }

 private:
  Housekeeper(Root& root, const Config& config, Clock& clock, Log& log, Metrics& metrics, OpenLedger open_ledger);
  void work();
  void do_turn();
  Status need_ledger();
  Status count();
  void write_stats();
  Status sweep();
  Status make_room();
  Status find_finished();
  bool pace();  // after each file that is removed: not too fast. Whether to go on
  bool clock_is_steady();
  bool wait_until(std::int64_t monotonic_ns);  // false: it is to end
  std::int64_t next_turn_ns() const;
  void note_failure(const char* what, const Status& status);

  Root& root_;
  const Config& config_;
  Clock& clock_;
  Log& log_;
  Metrics& metrics_;
  OpenLedger open_ledger_;
  std::unique_ptr<Ledger> ledger_;  // of the thread, like what follows
  std::int64_t stats_at_ns_ = 0;    // not before
  std::int64_t count_at_ns_ = 0;
  std::int64_t sweep_at_ns_ = 0;
  bool must_count_ = true;
  std::uint64_t paced_ = 0;
  std::int64_t clock_offset_us_ = 0;  // of wall time over monotonic time
  std::int64_t steady_at_ns_ = 0;
  std::int64_t finished_from_us_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_over_ = false;  // under mutex_, like what follows
  bool must_make_room_ = false;
  std::deque<std::string> finished_;
  std::atomic<bool> is_changed_ = true;
  std::atomic<bool> has_finished_ = false;
  std::thread thread_;
};

}  // namespace warren::relay
