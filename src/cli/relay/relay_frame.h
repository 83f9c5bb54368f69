// The text of `warren relay top`, from two readings of stats.json.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace warren::cli {

struct RelayReading {
  bool is_up = false;
  std::string root;
  double at_seconds = 0;  // wall time
  Json stats;             // an object; empty if there is no stats.json yet
};

// At most `rows` lines of at most `columns` characters. Rates and latencies are for the time between the two readings,
// or since the relay's start if the earlier one is not from the same run.
std::vector<std::string> relay_frame(const RelayReading& before, const RelayReading& now, std::size_t columns,
                                     std::size_t rows);

// The quantile `share` (0.5, 0.99) of a histogram, in seconds, interpolated within its bucket. -1 if the histogram is
// empty.
double quantile(const std::vector<double>& bounds, const std::vector<double>& buckets, double share);

}  // namespace warren::cli
