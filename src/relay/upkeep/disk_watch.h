// How full the disk is, and saying so when it is nearly full.
#pragma once

#include "base/result.h"
#include "relay/root/log.h"
#include "relay/upkeep/metrics.h"

namespace warren::relay {

// Of the filesystem that holds the directory: 0 to 1, as df counts it for an ordinary user.
Result<double> disk_used(int dir);

// One thread.
class DiskWatch {
 public:
  DiskWatch(int dir, int alert_percent, Log& log, Metrics& metrics)
      : dir_(dir), alert_percent_(alert_percent), log_(log), metrics_(metrics) {}

  // Looks, and tells logs and metrics. Whether it is nearly full.
  bool look();
  bool is_low() const { return is_low_; }

 private:
  int dir_;
  int alert_percent_;
  Log& log_;
  Metrics& metrics_;
  bool is_low_ = false;
};

}  // namespace warren::relay
