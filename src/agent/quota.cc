#include "agent/quota.h"

namespace warren {

Result<QuotaReport> get_quota(Store& store) {
  auto lock = store.database().lock();
  QuotaReport report;
  report.quota = WARREN_TRY(store.usage().quota());
  report.used = WARREN_TRY(store.usage().measure());
  return report;
}

Status change_quota(Store& store, const QuotaChanges& changes) {
  auto change = WARREN_TRY(store.begin_write());
  Quota quota = WARREN_TRY(store.usage().quota());
  if (changes.bytes) quota.bytes = *changes.bytes;
  if (changes.inodes) quota.inodes = *changes.inodes;
  WARREN_TRY(store.usage().set_quota(quota));
  return change.commit();
}

}  // namespace warren
