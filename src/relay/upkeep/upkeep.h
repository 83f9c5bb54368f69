// Upkeep by the relay's own thread: metrics, the log of what rounds did, disk space, and rows that are no longer
// needed. Whatever takes longer is left to the Housekeeper.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "relay/context.h"
#include "relay/delivery/records.h"
#include "relay/delivery/watcher.h"
#include "relay/plan.h"
#include "relay/upkeep/disk_watch.h"
#include "relay/upkeep/housekeeper.h"

namespace warren::relay {

// One thread.
class Upkeep {
 public:
  Upkeep(const Context& all, Records& records, const Watcher& watcher)
      : root_(all.root),
        config_(all.config),
        clock_(all.clock),
        log_(all.log),
        metrics_(all.metrics),
        router_(all.router),
        ledger_(all.ledger),
        records_(records),
        watcher_(watcher),
        disk_(all.root.dir(), all.config.disk_alert_percent, all.log, all.metrics) {}

  Status start(Housekeeper::OpenLedger open_ledger);  // before everything except note_published()

  void note_round(const Plan& plan);  // after its commit
  void note_published(const Delivery& delivery);
  void note_failure(const Error& why, int failures);  // of so many rounds in a row
  void note_failure_over();
  void note_change() { housekeeper_->note_change(); }  // of the metrics
  void use_new_config();
  void check_disk();

  bool run_idle_work();  // a little; false: nothing to do
  std::int64_t wake_at_ns() const;

 private:
  void note_messages(const Plan& plan);
  void note_changes(const std::vector<Change>& changes);
  void note_requests(const Plan& plan);
  void count_outbox_files();
  void count_agents();
  Status forget_finished(const std::vector<std::string>& ids);

  Root& root_;
  const Config& config_;
  Clock& clock_;
  Log& log_;
  Metrics& metrics_;
  const Router& router_;
  Ledger& ledger_;
  Records& records_;
  const Watcher& watcher_;
  DiskWatch disk_;
  std::int64_t outboxes_at_ns_ = 0;  // monotonic: when their files are counted again
  std::int64_t forget_at_ns_ = 0;    // monotonic: rows are not removed before
  std::unique_ptr<Housekeeper> housekeeper_;
};

}  // namespace warren::relay
