// Checks an audit trail from its first row to its last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/record/audit_log.h"

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
  // It is a row that Warren has written, or there is none; but a point has seen another there.
  bool is_replacement = false;
};

// The trail goes on as that of another agent: the file was copied or renamed.
struct AuditSuccession {
  std::int64_t seq = 0;  // the first row of the other
  std::string before;
  std::string after;
};

struct AuditVerdict {
  std::int64_t rows = 0;  // that were checked
  AuditHead head;         // of the rows as far as they are in order
  std::optional<AuditHash> first;
  std::optional<AuditFault> fault;
  std::vector<AuditSuccession> successions;  // the first few
  std::string agent;                         // whose trail it is in the end; empty if no row says so
};

// One pass, a page at a time. The agent's switch must be as the last event about it says. With `from`, the rows before
// that one are taken for granted; kNotFound if there is none before it.
Result<AuditVerdict> check_audit(AuditLog& log, const AuditKeys& keys, const std::vector<AuditPoint>& points,
                                 std::int64_t from = 1);

}  // namespace warren
