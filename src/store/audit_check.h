// Checks an audit trail from its first row to its last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/audit_log.h"

namespace warren {

// A row that was seen earlier, by somebody whom whoever wrote the file cannot reach.
struct AuditPoint {
  std::int64_t seq = 0;
  AuditHash hash{};
  std::string where;  // "the anchor of 2026-01-26T10:00:00Z in '/mnt/x'", for messages
};

struct AuditFault {
  std::int64_t seq = 0;  // the first row that is not as it should be
  std::string why;
};

struct AuditVerdict {
  std::int64_t rows = 0;  // that were checked
  AuditHead head;         // of the rows as far as they are in order
  std::optional<AuditHash> first;
  std::optional<AuditFault> fault;
};

// One pass, a page at a time. `level` is what the agent's switch says now: it must be what the last event about it
// says.
Result<AuditVerdict> check_audit(AuditLog& log, const AuditKeys& keys, const std::vector<AuditPoint>& points,
                                 AuditLevel level);

}  // namespace warren
