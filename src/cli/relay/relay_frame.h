// What `warren relay top` shows, as text: two readings of stats.json and what happened between them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace warren::cli {

struct RelayReading {
  bool is_up = false;
  std::string root;
  double at_seconds = 0;  // wall time
  Json stats;             // an object; empty when there are none yet
};

// Lines, each no longer than `columns`, at most `rows` of them. Rates and latencies are of the time between the two
// readings; without an earlier one of the same run of the relay, of the time since it came up.
std::vector<std::string> relay_frame(const RelayReading& before, const RelayReading& now, std::size_t columns,
                                     std::size_t rows);

// The latency below which the share (0.5, 0.99) of deliveries was, in seconds, by the buckets of a histogram:
// interpolated in the bucket it falls into. -1 when there were none.
double quantile(const std::vector<double>& bounds, const std::vector<double>& buckets, double share);

}  // namespace warren::cli
