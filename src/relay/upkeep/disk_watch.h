// Watches disk usage and raises an alert when the disk is nearly full.
#pragma once

#include "base/result.h"
#include "relay/root/log.h"
#include "relay/upkeep/metrics.h"

namespace warren::relay {

// Usage of the directory's filesystem, 0 to 1, as df shows it to an ordinary user.
Result<double> disk_used(int dir);

// For one thread.
class DiskWatch {
 public:
  DiskWatch(int dir, int alert_percent, Log& log, Metrics& metrics)
      : dir_(dir), alert_percent_(alert_percent), log_(log), metrics_(metrics) {}

  // Updates metrics and logs. Returns whether the disk is nearly full.
  bool check();
  bool is_low() const { return is_low_; }
  void set_alert_percent(int percent) { alert_percent_ = percent; }

 private:
  int dir_;
  int alert_percent_;
  Log& log_;
  Metrics& metrics_;
  bool is_low_ = false;
};

}  // namespace warren::relay
