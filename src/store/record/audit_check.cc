#include "store/record/audit_check.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

// Of the row that a fault is about, and those after it.
std::string missing_up_to(std::int64_t from, std::int64_t to) {
  return from == to ? "it is missing" : fmt::format("it is missing, with all rows up to row {}", to);
}

constexpr std::size_t kCheckPage = 200;
constexpr std::size_t kSuccessionsMax = 10;

// The state of one pass.
class AuditChecker {
 public:
  AuditChecker(const AuditKeys& keys, const std::vector<AuditPoint>& points) : points_(points) {
    for (const AuditKey& key : keys) hmacs_.emplace(key.id, HmacSha256(as_bytes(key.bytes)));
  }

  // The reason why the row cannot be the next one; nullopt if it can.
  std::optional<std::string> find_fault(const StoredAuditRow& stored) {
    const AuditRow& row = stored.row;
    if (row.seq != head_.seq + 1) return fmt::format("it is missing: the next row is row {}", row.seq);
    if (!stored.problem.empty()) return stored.problem;
    auto hmac = hmacs_.find(row.key);
    if (hmac == hmacs_.end()) {
      return fmt::format("it was made with the key {}, which is not available, or by somebody else", quote(row.key));
    }
    if (hash_audit_row(row, hmac->second) != row.hash) return "it was changed: its hash does not match";
    if (std::optional<std::string> why = find_key_fault(row)) return why;
    if (row.prev != head_.hash) {
      return head_.seq == 0
                 ? std::string("rows before it were removed")
                 : fmt::format("it does not follow row {}: rows were removed, added or reordered", head_.seq);
    }
    return std::nullopt;
  }

  // The reason why it is not the row that was seen there before.
  std::optional<std::string> find_replacement(const AuditRow& row) const {
    for (const AuditPoint& point : points_) {
      if (point.seq != row.seq || point.hash == row.hash) continue;
      return fmt::format("it is not the row that {} has seen: another copy of the file was put in its place",
                         point.where);
    }
    return std::nullopt;
  }

  // Takes the rows up to this one for granted.
  void begin_after(const AuditRow& row) {
    take(row);
    is_partial_ = true;
  }

  void take(const AuditRow& row) {
    if (row.seq == 1) first_ = row.hash;
    if (!head_.key.empty() && head_.key != row.key) retired_.insert(head_.key);
    announced_ = row.event.op == kKeyChangedOp ? row.event.path : "";
    if (row.event.op == "audit" && row.event.ok) level_ = row.event.path;
    note_agent(row);
    head_ = {.seq = row.seq, .end_bytes = row.end_bytes, .key = row.key, .hash = row.hash};
  }

  // After the last row.
  std::optional<AuditFault> find_fault_at_end(AuditLevel level) const {
    for (const AuditPoint& point : points_) {
      if (point.seq > head_.seq) {
        return AuditFault{.seq = head_.seq + 1,
                          .why = fmt::format("{}, although {} recorded {}: the end was cut off, or an older copy of "
                                             "the file was put in its place",
                                             missing_up_to(head_.seq + 1, point.seq), point.where,
                                             head_.seq + 1 == point.seq ? "it" : "them"),
                          .is_replacement = true};
      }
    }
    if (is_partial_ && level_.empty()) return std::nullopt;
    std::string_view expected = level_.empty() ? name_of(AuditLevel::kDefault) : std::string_view(level_);
    if (expected == name_of(level)) return std::nullopt;
    return AuditFault{.seq = head_.seq,
                      .why = fmt::format("the switch says {}, but the last event about it says {}",
                                         quote(name_of(level)), quote(expected))};
  }

  const AuditHead& head() const { return head_; }
  const std::optional<AuditHash>& first() const { return first_; }
  const std::vector<AuditSuccession>& successions() const { return successions_; }
  const std::string& agent() const { return agent_; }

 private:
  // Through a host, other agents use this one too.
  void note_agent(const AuditRow& row) {
    if (row.event.door == "host") return;
    if (!agent_.empty() && row.event.agent != agent_ && successions_.size() < kSuccessionsMax) {
      successions_.push_back({.seq = row.seq, .before = agent_, .after = row.event.agent});
    }
    agent_ = row.event.agent;
  }

  // Another key is used only after an event that names it, and one that was replaced never again: it may have leaked.
  std::optional<std::string> find_key_fault(const AuditRow& row) const {
    if (head_.key.empty() || row.key == head_.key) return std::nullopt;
    if (retired_.contains(row.key))
      return fmt::format("it was made with the key {}, which was replaced before", quote(row.key));
    bool is_announced = announced_ == row.key;
    bool names_itself = row.event.op == kKeyChangedOp && row.event.path == row.key && !row.event.ok;
    if (is_announced || names_itself) return std::nullopt;
    return fmt::format("its key {} is another than before, without an event about that", quote(row.key));
  }

  const std::vector<AuditPoint>& points_;
  std::map<std::string, HmacSha256, std::less<>> hmacs_;
  AuditHead head_;
  std::optional<AuditHash> first_;
  std::string agent_;  // whose trail it is, as far as a row says so
  std::vector<AuditSuccession> successions_;
  std::string level_;              // of the last event about the switch
  std::set<std::string> retired_;  // keys
  bool is_partial_ = false;        // without the rows before one
  std::string announced_;          // the key that the last row says is next
};

}  // namespace

Result<AuditVerdict> check_audit(AuditLog& log, const AuditKeys& keys, const std::vector<AuditPoint>& points,
                                 std::int64_t from) {
  AuditChecker checker(keys, points);
  AuditVerdict verdict;
  std::int64_t after = INT64_MIN;  // rows below 1 are nobody's either
  if (from > 1) {
    std::vector<StoredAuditRow> before = WARREN_TRY(log.read_after(from - 2, 1));
    if (before.empty() || before.front().row.seq != from - 1) {
      return Error(Code::kNotFound, fmt::format("the trail has no row {} to begin after", from - 1));
    }
    checker.begin_after(before.front().row);
    after = from - 1;
  }
  for (bool is_at_end = false; !verdict.fault && !is_at_end;) {
    // Before the rows: a switch that somebody sets meanwhile has its event in them.
    AuditLevel level = WARREN_TRY(log.level());
    std::vector<StoredAuditRow> page = WARREN_TRY(log.read_after(after, kCheckPage));
    is_at_end = page.empty();
    for (const StoredAuditRow& stored : page) {
      std::optional<std::string> why = checker.find_fault(stored);
      std::optional<std::string> other = why ? std::nullopt : checker.find_replacement(stored.row);
      if (why || other) {
        verdict.fault = AuditFault{
            .seq = checker.head().seq + 1, .why = why ? *std::move(why) : *other, .is_replacement = other.has_value()};
        break;
      }
      checker.take(stored.row);
      ++verdict.rows;
    }
    if (is_at_end) verdict.fault = checker.find_fault_at_end(level);
    else after = page.back().row.seq;
  }
  if (!verdict.fault && !WARREN_TRY(log.is_level_known())) {
    verdict.fault = AuditFault{.seq = checker.head().seq, .why = "the switch has a value that Warren does not know"};
  }
  verdict.head = checker.head();
  verdict.first = checker.first();
  verdict.successions = checker.successions();
  verdict.agent = checker.agent();
  return verdict;
}

}  // namespace warren
