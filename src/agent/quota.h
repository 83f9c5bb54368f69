// An agent's quota and its usage.
#pragma once

#include <optional>

#include "base/result.h"
#include "store/store.h"
#include "store/tables/usage.h"

namespace warren {

struct QuotaReport {
  Quota quota;
  UsedSpace used;
};

Result<QuotaReport> get_quota(Store& store);  // O(nodes)

// An unset field leaves its limit as it is; an inner nullopt removes the limit.
struct QuotaChanges {
  std::optional<std::optional<std::uint64_t>> bytes;
  std::optional<std::optional<std::uint64_t>> inodes;
};
Status change_quota(Store& store, const QuotaChanges& changes);

}  // namespace warren
