// A ledger that several relays share.
#include <fmt/format.h>

#include "relay/ledger/ledger.h"

namespace warren::relay {

Transaction::~Transaction() {
  if (ledger_ != nullptr) ledger_->rollback();
}

Status Transaction::end(Status committed) {
  if (committed.ok()) ledger_ = nullptr;
  return committed;
}

Status Transaction::commit() { return end(ledger_->commit()); }

Status Transaction::commit_unsynced() { return end(ledger_->commit_unsynced()); }

Result<Transaction> Ledger::begin() {
  WARREN_TRY(db_->begin());
  Transaction transaction(*this);
  if (homes_ && homes_->is_serving()) WARREN_TRY(homes_->fence());
  return transaction;
}

Status Ledger::prepare_commit() {
  if (!homes_) return Ok{};
  WARREN_TRY(homes_->before_commit());
  for (const std::string& id : homes_->status_updates()) {
    WARREN_TRY(homes_->lock_message(id));
    WARREN_TRY(update_status_.bind(1, id).bind(2, clock_.now_us()).run());
    WARREN_TRY(homes_->drop_body(id));
  }
  return Ok{};
}

Status Ledger::commit() {
  WARREN_TRY(prepare_commit());
  WARREN_TRY(db_->commit());
  if (homes_) homes_->after_end();
  return Ok{};
}

Status Ledger::commit_unsynced() {
  WARREN_TRY(prepare_commit());
  WARREN_TRY(db_->commit_unsynced());
  if (homes_) homes_->after_end();
  return Ok{};
}

void Ledger::rollback() {
  db_->rollback();
  if (homes_) homes_->after_end();
}

// Rounds of other relays lock existing tables in a different order. Then one of the two gets kBusy and tries again.
Status Ledger::create_tables_patiently() {
  Status made = create_tables();
  for (int tries = 1; tries < 20 && !made.ok() && made.error().code() == Code::kBusy; ++tries) made = create_tables();
  return made;
}

Status Ledger::share(LedgerUse use, Home home) {
  homes_ = WARREN_TRY(Homes::open(*db_, std::move(home), clock_));
  WARREN_TRY(prepare_shared());
  if (use != LedgerUse::kServe) return Ok{};
  WARREN_TRY(db_->check_statements());
  return serve_home();
}

// The server ends a predecessor that hangs in a transaction after a while.
Status Ledger::serve_home() {
  Status served = Ok{};
  for (int tries = 0; tries < 4; ++tries) {
    auto transaction = WARREN_TRY(begin());
    served = homes_->serve();
    if (served.ok()) return transaction.commit();
    if (served.error().code() != Code::kBusy) return served;
  }
  return served;
}

std::string Ledger::scoped(std::string_view key) const {
  return homes_ ? fmt::format("{}@{}", key, home()) : std::string(key);
}

Result<std::vector<RoutedDelivery>> Ledger::claim_routed(std::string_view passed_over, std::size_t limit) {
  constexpr int kContent = 10;  // after the columns of a delivery
  std::vector<RoutedDelivery> found;
  Rows rows = claim_routed_.bind(1, home()).bind(2, std::uint64_t{limit}).bind(3, passed_over).rows();
  while (WARREN_TRY(rows.next())) {
    RoutedDelivery one;
    one.delivery = WARREN_TRY(delivery_of(rows));
    if (!rows.is_null(kContent)) one.content = rows.bytes(kContent);
    found.push_back(std::move(one));
  }
  return found;
}

void Ledger::expect_messages(const std::vector<std::string>& ids) {
  if (!homes_) return;
  find_message_.forget_ahead();
  for (const std::string& id : ids) find_message_.bind(1, id).look_ahead();
}

void Ledger::expect_in_inboxes(const std::vector<std::pair<std::string, std::string>>& files) {
  if (!homes_) return;
  find_in_inbox_.forget_ahead();
  for (const auto& [agent, file] : files) find_in_inbox_.bind(1, agent).bind(2, file).look_ahead();
}

Status Ledger::reroute(const Delivery& d) {
  homes_->wake(d.home);
  return reroute_.bind(1, d.id).bind(2, d.home).bind(3, d.deadline_ms).bind(4, clock_.now_us()).run();
}

}  // namespace warren::relay
