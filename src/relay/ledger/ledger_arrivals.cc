// Messages just taken, one row each. A message to one recipient is recorded only here until its outcome is known; then
// it is entered into `messages` and `deliveries`, many at once: a row at the end of one table costs a tenth of rows in
// a dozen trees. Also contents of files that were not synced, from which they are written again after a power cut.
#include "relay/ledger/ledger.h"
#include "relay/ledger/ledger_columns.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

// Rows are added and removed at the end, so few pages change. A row without a recipient has only the content.
constexpr Sql kArrivalTables = R"(
CREATE TABLE IF NOT EXISTS arrivals (
    stamp INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    content BLOB NOT NULL,
    recipient TEXT,
    delivery INTEGER,
    inbox_name TEXT,
    receipt INTEGER,
    deadline INTEGER,
    message INTEGER,
    agent_name TEXT,
    direction TEXT,
    file_path TEXT,
    file_size INTEGER,
    file_mtime_ns INTEGER,
    file_inode INTEGER,
    checksum TEXT,
    message_type TEXT,
    target TEXT,
    discovered_at INTEGER
);
CREATE VIEW IF NOT EXISTS every_message AS
    SELECT id, message_id, agent_name, direction, file_path, file_size, file_mtime_ns, file_inode, checksum, status,
        message_type, target, discovered_at, processed_at, retry_count, last_error FROM messages
    UNION ALL
    SELECT message, message_id, agent_name, direction, file_path, file_size, file_mtime_ns, file_inode, checksum,
        'processing', message_type, target, discovered_at, NULL, 0, NULL FROM arrivals
    WHERE recipient IS NOT NULL AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = arrivals.message);
CREATE VIEW IF NOT EXISTS every_delivery AS
    SELECT id, message_id, recipient, state, inbox_name, receipt, attempts, next_at, deadline, last_error, updated_at,
        home FROM deliveries
    UNION ALL
    SELECT delivery, message_id, recipient, 'pending', inbox_name, receipt, 0, 0, deadline, NULL, discovered_at, ''
        FROM arrivals
    WHERE recipient IS NOT NULL AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.id = arrivals.delivery);
)";

#define WARREN_NOT_ENTERED \
  "recipient IS NOT NULL AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.id = arrivals.delivery)"

}  // namespace

std::int64_t stamp_of(const Delivery& delivery) { return timestamp_of(delivery.inbox_name).value_or(0); }

Status Ledger::create_arrival_tables() { return db_->execute(kArrivalTables); }

Status Ledger::prepare_arrivals(LedgerUse use) {
  if (!WARREN_TRY(db_->has_table("arrivals"))) return Ok{};
  if (use == LedgerUse::kRead) return prepare_reading();
  keeps_arrivals_ = true;
  const Prepared statements[] = {
      {&put_body_, "INSERT INTO arrivals(stamp, message_id, content) VALUES (?1, ?2, ?3)"},
      {&put_arrival_,
       "INSERT INTO arrivals(stamp, message_id, content, recipient, delivery, inbox_name, receipt, deadline, message,"
       " agent_name, direction, file_path, file_size, file_mtime_ns, file_inode, checksum, message_type, target,"
       " discovered_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
      {&list_arrivals_,
       "SELECT message, message_id, agent_name, direction, file_path, file_size, file_mtime_ns, file_inode, checksum,"
       " 'processing', message_type, target, discovered_at, NULL, recipient, delivery, inbox_name, receipt, deadline"
       " FROM arrivals"
       " WHERE " WARREN_NOT_ENTERED " ORDER BY stamp LIMIT ?1"},
      {&list_bodies_, "SELECT stamp, message_id FROM arrivals WHERE stamp > ?1 ORDER BY stamp LIMIT ?2"},
      {&find_body_, "SELECT content FROM arrivals WHERE stamp = ?1"},
      {&drop_body_, "DELETE FROM arrivals WHERE stamp = ?1"},
      {&drop_bodies_, "DELETE FROM arrivals"},
      // We assign the ids, since those of arrivals are assigned before their rows exist.
      {&add_message_,
       "INSERT INTO messages(message_id, agent_name, direction, file_path, file_size, file_mtime_ns, file_inode,"
       " checksum, status, message_type, target, discovered_at, last_error, id, processed_at) VALUES"
       " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
  };
  WARREN_TRY(prepare_all(statements));
  add_delivery_ = WARREN_TRY(db_->prepare_insert(
      "INSERT INTO deliveries(message_id, recipient, state, inbox_name, receipt, attempts, next_at, deadline,"
      " last_error, updated_at, home, id) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"));
  return find_numbers();
}

Status Ledger::find_numbers() {
  Statement of_messages =
      WARREN_TRY(db_->prepare("SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0),"
                              " coalesce((SELECT max(message) FROM arrivals), 0))"));
  Statement of_deliveries =
      WARREN_TRY(db_->prepare("SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'deliveries'), 0),"
                              " coalesce((SELECT max(delivery) FROM arrivals), 0))"));
  message_number_ = WARREN_TRY(of_messages.find_integer())
  .value_or(0);
  delivery_number_ = WARREN_TRY(of_deliveries.find_integer())
  .value_or(0);
  return Ok{};
}

// Readers also see arrivals that are not entered yet.
Status Ledger::prepare_reading() {
  reads_arrivals_ = true;
  const Prepared statements[] = {
      {&find_message_, "SELECT " WARREN_MESSAGE " FROM every_message WHERE message_id = ?"},
      {&list_messages_, "SELECT " WARREN_MESSAGE " FROM every_message WHERE id < ? ORDER BY id DESC LIMIT ?"},
      {&find_in_inbox_,
       "SELECT " WARREN_DELIVERY " FROM deliveries WHERE recipient = ?1 AND inbox_name = ?2 UNION ALL SELECT delivery,"
       " message_id, recipient, 'pending', inbox_name, receipt, 0, 0, deadline, NULL FROM arrivals WHERE stamp = ?3 AND"
       " recipient = ?1 AND inbox_name = ?2 AND " WARREN_NOT_ENTERED},
      {&find_to_, "SELECT " WARREN_DELIVERY " FROM every_delivery WHERE message_id = ? AND recipient = ?"},
      {&list_deliveries_, "SELECT " WARREN_DELIVERY " FROM every_delivery WHERE message_id = ? ORDER BY recipient"},
      {&count_arrivals_, "SELECT count(*) FROM arrivals WHERE " WARREN_NOT_ENTERED},
  };
  return prepare_all(statements);
}

Status Ledger::put_arrival(MessageRow& message, Delivery& delivery, std::string_view content) {
  message.number = ++message_number_;
  delivery.id = ++delivery_number_;
  return put_arrival_.bind(1, stamp_of(delivery))
      .bind(2, message.id)
      .bind(3, as_bytes(content))
      .bind(4, delivery.recipient)
      .bind(5, delivery.id)
      .bind(6, delivery.inbox_name)
      .bind(7, delivery.wants_receipt ? 1 : 0)
      .bind(8, delivery.deadline_ms)
      .bind(9, message.number)
      .bind(10, message.agent)
      .bind(11, message.direction)
      .bind(12, message.path)
      .bind(13, message.size)
      .bind(14, message.mtime_ns)
      .bind(15, message.inode)
      .bind(16, message.checksum)
      .bind(17, message.type)
      .bind(18, message.target)
      .bind(19, message.discovered_at_us)
      .run();
}

Status Ledger::enter(MessageRow message, Delivery delivery) {
  bool is_open = delivery.state == DeliveryState::kPending;
  message.status = is_open ? "processing" : "completed";
  if (!is_open) message.processed_at_us = clock_.now_us();
  WARREN_TRY(add_message(message));
  return add_delivery(delivery);
}

Result<std::size_t> Ledger::enter_some(std::size_t limit) {
  struct Arrival {
    MessageRow message;
    Delivery delivery;
  };
  std::vector<Arrival> found;
  {
    Rows rows = list_arrivals_.bind(1, std::uint64_t{limit}).rows();
    while (WARREN_TRY(rows.next())) {
      StoredMessage stored = message_of(rows);
      auto& [message, delivery] = found.emplace_back();
      message = std::move(stored.message);
      message.number = stored.row;
      delivery.message_id = message.id;
      delivery.recipient = rows.text(14);
      delivery.id = rows.integer(15);
      delivery.inbox_name = rows.text(16);
      delivery.wants_receipt = rows.integer(17) != 0;
      delivery.deadline_ms = rows.integer(18);
    }
  }
  for (const Arrival& one : found) WARREN_TRY(enter(one.message, one.delivery));
  return found.size();
}

Status Ledger::enter_all() {
  constexpr std::size_t kPage = 1024;
  for (std::size_t entered = kPage; keeps_arrivals_ && entered == kPage;) {
    auto transaction = WARREN_TRY(begin());
    entered = WARREN_TRY(enter_some(kPage));
    WARREN_TRY(transaction.commit());
  }
  return Ok{};
}

Status Ledger::put_body(const Delivery& delivery, std::string_view content) {
  return put_body_.bind(1, stamp_of(delivery)).bind(2, delivery.message_id).bind(3, as_bytes(content)).run();
}

Result<std::optional<std::string>> Ledger::find_body(const Delivery& delivery) {
  if (!keeps_arrivals_) return std::optional<std::string>();
  Rows rows = find_body_.bind(1, stamp_of(delivery)).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(rows.bytes(0));
}

Status Ledger::drop_body(std::int64_t stamp) { return drop_body_.bind(1, stamp).run(); }

Result<std::vector<UnsyncedBody>> Ledger::list_bodies(std::int64_t after, std::size_t limit) {
  std::vector<UnsyncedBody> bodies;
  if (!keeps_arrivals_) return bodies;
  Rows rows = list_bodies_.bind(1, after).bind(2, static_cast<std::int64_t>(limit)).rows();
  while (WARREN_TRY(rows.next())) bodies.push_back({rows.integer(0), std::string(rows.text(1))});
  return bodies;
}

Status Ledger::drop_bodies() { return keeps_arrivals_ ? drop_bodies_.run() : Status(Ok{}); }

}  // namespace warren::relay
