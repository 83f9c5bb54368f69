// Queries of the ledger.
#include <fmt/format.h>

#include "relay/ledger/ledger.h"
#include "relay/protocol/names.h"

namespace warren::relay {

Result<Delivery> Ledger::delivery_of(Rows& rows) {
  Delivery d;
  d.state = WARREN_TRY(parse_state(rows.text(3)));
  d.id = rows.integer(0);
  d.message_id = rows.text(1);
  d.recipient = rows.text(2);
  d.inbox_name = rows.text(4);
  d.wants_receipt = rows.integer(5) != 0;
  d.attempts = static_cast<int>(rows.integer(6));
  d.next_at_ms = rows.integer(7);
  d.deadline_ms = rows.integer(8);
  d.error = rows.text(9);
  return d;
}

StoredMessage Ledger::message_of(Rows& rows) {
  StoredMessage out;
  out.row = rows.integer(0);
  MessageRow& m = out.message;
  m.id = rows.text(1);
  m.agent = rows.text(2);
  m.direction = rows.text(3);
  m.path = rows.text(4);
  m.size = static_cast<std::uint64_t>(rows.integer(5));
  m.mtime_ns = rows.integer(6);
  m.inode = static_cast<std::uint64_t>(rows.integer(7));
  m.checksum = rows.text(8);
  m.status = rows.text(9);
  m.type = rows.text(10);
  m.target = rows.text(11);
  m.discovered_at_us = rows.integer(12);
  m.error = rows.text(13);
  return out;
}

Result<std::vector<Delivery>> Ledger::all(Statement& statement) {
  std::vector<Delivery> found;
  Rows rows = statement.rows();
  while (WARREN_TRY(rows.next())) {
    Delivery delivery = WARREN_TRY(delivery_of(rows));
    found.push_back(std::move(delivery));
  }
  return found;
}

namespace {

Result<std::optional<Delivery>> first(Result<std::vector<Delivery>> found) {
  std::vector<Delivery> rows = WARREN_TRY(std::move(found));
  return rows.empty() ? std::nullopt : std::optional(std::move(rows.front()));
}

}  // namespace

Result<std::optional<StoredMessage>> Ledger::find_message(std::string_view id) {
  Rows rows = find_message_.bind(1, id).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<StoredMessage>();
  return std::optional(message_of(rows));
}

Result<std::optional<Delivery>> Ledger::find_delivery(std::int64_t id) {
  return first(all(find_delivery_.bind(1, id)));
}

Result<std::optional<Delivery>> Ledger::find_in_inbox(std::string_view recipient, std::string_view inbox_name) {
  find_in_inbox_.bind(1, recipient).bind(2, inbox_name);
  if (reads_arrivals_) find_in_inbox_.bind(3, timestamp_of(inbox_name).value_or(0));
  return first(all(find_in_inbox_));
}

Result<std::optional<Delivery>> Ledger::find_to(std::string_view message_id, std::string_view recipient) {
  return first(all(find_to_.bind(1, message_id).bind(2, recipient)));
}

Result<std::vector<Delivery>> Ledger::list_deliveries(std::string_view message_id) {
  return all(list_deliveries_.bind(1, message_id));
}

Result<std::vector<Delivery>> Ledger::due(const DueFilter& filter) {
  return all(due_.bind(1, filter.now_ms)
                 .bind(2, filter.after)
                 .bind(3, std::uint64_t{filter.limit})
                 .bind(4, filter.attempts_min)
                 .bind(5, home()));
}

Result<std::optional<std::int64_t>> Ledger::next_due_ms(std::int64_t now_ms) {
  Rows rows = next_due_.bind(1, now_ms).bind(2, home()).rows();
  if (!WARREN_TRY(rows.next()) || rows.is_null(0)) return std::optional<std::int64_t>();
  return std::optional(rows.integer(0));
}

Result<std::vector<Delivery>> Ledger::in_state(std::string_view recipient, DeliveryState state, std::int64_t after,
                                               std::size_t limit) {
  return all(in_state_.bind(1, recipient).bind(2, name_of(state)).bind(3, after).bind(4, std::uint64_t{limit}));
}

Result<std::int64_t> Ledger::newest_inbox_ns() {
  if (homes_) return homes_->newest_ns();
  Rows rows = newest_.rows();
  if (!WARREN_TRY(rows.next())) return 0;
  return timestamp_of(rows.text(0)).value_or(0);
}

Result<std::vector<AgentRow>> Ledger::list_agents() {
  std::vector<AgentRow> found;
  Rows rows = list_agents_.rows();
  while (WARREN_TRY(rows.next())) {
    found.push_back({std::string(rows.text(0)), rows.integer(1), rows.integer(2), std::string(rows.text(3))});
    if (homes_) found.back().home = rows.text(4);
  }
  return found;
}

Result<std::map<std::string, std::set<std::string>>> Ledger::list_subscriptions() {
  std::map<std::string, std::set<std::string>> found;
  Rows rows = list_subscriptions_.rows();
  while (WARREN_TRY(rows.next())) found[std::string(rows.text(0))].emplace(rows.text(1));
  return found;
}

Result<std::vector<DeadLetter>> Ledger::list_dead(std::size_t limit) {
  std::vector<DeadLetter> found;
  Rows rows = list_dead_.bind(1, std::uint64_t{limit}).rows();
  while (WARREN_TRY(rows.next())) {
    found.push_back({rows.integer(0), std::string(rows.text(1)), std::string(rows.text(2)), std::string(rows.text(3)),
                     rows.integer(4)});
  }
  return found;
}

Result<std::optional<DeadLetter>> Ledger::find_dead(std::int64_t id) {
  Rows rows = find_dead_.bind(1, id).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<DeadLetter>();
  return std::optional(DeadLetter{rows.integer(0), std::string(rows.text(1)), std::string(rows.text(2)),
                                  std::string(rows.text(3)), rows.integer(4)});
}

Result<std::vector<StoredMessage>> Ledger::list_messages(const MessageFilter& filter) {
  std::vector<StoredMessage> found;
  Rows rows = list_messages_.bind(1, filter.before_id).bind(2, std::uint64_t{filter.limit}).rows();
  while (WARREN_TRY(rows.next())) found.push_back(message_of(rows));
  return found;
}

Result<Counts> Ledger::count() {
  Counts counts;
  {
    Rows rows = count_messages_.rows();
    while (WARREN_TRY(rows.next())) counts.messages[std::string(rows.text(0))] = rows.integer(1);
  }
  Rows rows = count_deliveries_.rows();
  while (WARREN_TRY(rows.next())) counts.deliveries[std::string(rows.text(0))] = rows.integer(1);
  counts.dead_letters = WARREN_TRY(count_dead_.find_integer())
  .value_or(0);
  if (has_operation_errors_) counts.failed_operations = WARREN_TRY(count_failed_.find_integer())
  .value_or(0);
  if (!reads_arrivals_) return counts;
  std::int64_t arrivals = WARREN_TRY(count_arrivals_.find_integer())
  .value_or(0);
  if (arrivals > 0) {
    counts.messages["processing"] += arrivals;
    counts.deliveries["pending"] += arrivals;
  }
  return counts;
}

std::string text_in(const Json& payload, const char* key) {
  bool is_text = payload.is_object() && payload.contains(key) && payload[key].is_string();
  return is_text ? payload[key].get<std::string>() : "";
}

Result<std::optional<std::string>> Ledger::find_value(std::string_view key) {
  std::string name = scoped(key);
  Rows rows = find_value_.bind(1, name).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(rows.text(0)));
}

Result<std::vector<std::string>> Ledger::check() {
  std::vector<std::string> found = WARREN_TRY(db_->check());
  Rows rows = wrong_statuses_.rows();
  while (WARREN_TRY(rows.next())) {
    found.push_back(fmt::format("message {} is {}, which does not match its deliveries", rows.text(0), rows.text(1)));
  }
  return found;
}

Status Ledger::update_statuses() {
  std::vector<std::string> ids;
  {
    Rows rows = wrong_statuses_.rows();
    while (WARREN_TRY(rows.next())) ids.emplace_back(rows.text(0));
  }
  for (const std::string& id : ids) WARREN_TRY(update_status(id));
  return Ok{};
}

Result<bool> Ledger::is_needed(std::string_view message_id) {
  std::optional<std::int64_t> needed = WARREN_TRY(is_needed_.bind(1, message_id).find_integer());
  return needed.value_or(0) != 0;
}

}  // namespace warren::relay
