#include "store/audit_check.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

constexpr std::size_t kCheckPage = 1000;

// The state of one pass.
class AuditChecker {
 public:
  AuditChecker(const AuditKeys& keys, const std::vector<AuditPoint>& points) : points_(points) {
    for (const AuditKey& key : keys) hmacs_.emplace(key.id, HmacSha256(as_bytes(key.bytes)));
  }

  // The reason why the row cannot be the next one; nullopt if it can.
  std::optional<std::string> find_fault(const StoredAuditRow& stored) {
    const AuditRow& row = stored.row;
    if (row.seq != head_.seq + 1) return fmt::format("row {} is missing: the next one is {}", head_.seq + 1, row.seq);
    if (!stored.problem.empty()) return stored.problem;
    auto hmac = hmacs_.find(row.key);
    if (hmac == hmacs_.end()) {
      return fmt::format("it was made with the key {}, which is not at hand, or by somebody else", quote(row.key));
    }
    if (hash_audit_row(row, hmac->second) != row.hash) return "it was changed: its hash does not fit";
    if (row.prev != head_.hash) {
      return head_.seq == 0
                 ? std::string("rows before it were removed")
                 : fmt::format("it does not follow row {}: rows were removed, added or exchanged", head_.seq);
    }
    for (const AuditPoint& point : points_) {
      if (point.seq == row.seq && point.hash != row.hash) {
        return fmt::format("it is not the row that {} has seen: another copy of the file was put in its place",
                           point.where);
      }
    }
    return std::nullopt;
  }

  void take(const AuditRow& row) {
    if (row.seq == 1) first_ = row.hash;
    if (row.event.op == "audit" && row.event.ok) level_ = row.event.path;
    head_ = {.seq = row.seq, .end_bytes = row.end_bytes, .key = row.key, .hash = row.hash};
  }

  // After the last row.
  std::optional<AuditFault> find_fault_at_end(AuditLevel level) const {
    for (const AuditPoint& point : points_) {
      if (point.seq > head_.seq) {
        return AuditFault{head_.seq + 1, fmt::format("rows {} to {} are missing, which {} has seen: the end was cut "
                                                     "off, or an older copy of the file was put in its place",
                                                     head_.seq + 1, point.seq, point.where)};
      }
    }
    std::string_view expected = level_.empty() ? name_of(AuditLevel::kDefault) : std::string_view(level_);
    if (expected == name_of(level)) return std::nullopt;
    return AuditFault{head_.seq, fmt::format("the switch says {}, but the last event about it says {}",
                                             quote(name_of(level)), quote(expected))};
  }

  const AuditHead& head() const { return head_; }
  const std::optional<AuditHash>& first() const { return first_; }

 private:
  const std::vector<AuditPoint>& points_;
  std::map<std::string, HmacSha256, std::less<>> hmacs_;
  AuditHead head_;
  std::optional<AuditHash> first_;
  std::string level_;  // of the last event about the switch
};

}  // namespace

Result<AuditVerdict> check_audit(AuditLog& log, const AuditKeys& keys, const std::vector<AuditPoint>& points,
                                 AuditLevel level) {
  AuditChecker checker(keys, points);
  AuditVerdict verdict;
  // Rows below 1 are nobody's either.
  std::int64_t after = INT64_MIN;
  while (!verdict.fault) {
    std::vector<StoredAuditRow> page = WARREN_TRY(log.read_after(after, kCheckPage));
    if (page.empty()) break;
    for (const StoredAuditRow& stored : page) {
      std::optional<std::string> why = checker.find_fault(stored);
      if (why) {
        verdict.fault = AuditFault{checker.head().seq + 1, *std::move(why)};
        break;
      }
      checker.take(stored.row);
      ++verdict.rows;
    }
    after = page.back().row.seq;
  }
  if (!verdict.fault) verdict.fault = checker.find_fault_at_end(level);
  verdict.head = checker.head();
  verdict.first = checker.first();
  return verdict;
}

}  // namespace warren
