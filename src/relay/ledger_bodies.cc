// Contents of deliveries under way whose files were not synced: from here they are made anew after a power cut.
#include "relay/ledger.h"
#include "relay/names.h"

namespace warren::relay {
namespace {

// Rows come and go at the end, so few pages change.
constexpr Sql kBodyTable =
    "CREATE TABLE IF NOT EXISTS unsynced_bodies (stamp INTEGER PRIMARY KEY, message_id TEXT NOT NULL, content BLOB NOT"
    " NULL)";

}  // namespace

std::int64_t stamp_of(const Delivery& delivery) { return timestamp_of(delivery.inbox_name).value_or(0); }

Status Ledger::prepare_bodies() {
  WARREN_TRY(db_->execute(kBodyTable));
  const Prepared statements[] = {
      {&put_body_, "INSERT INTO unsynced_bodies(stamp, message_id, content) VALUES (?1, ?2, ?3)"},
      {&list_bodies_, "SELECT stamp, message_id FROM unsynced_bodies WHERE stamp > ?1 ORDER BY stamp LIMIT ?2"},
      {&find_body_, "SELECT content FROM unsynced_bodies WHERE stamp = ?1"},
      {&drop_body_, "DELETE FROM unsynced_bodies WHERE stamp = ?1"},
      {&drop_bodies_, "DELETE FROM unsynced_bodies"},
  };
  return prepare_all(statements);
}

Status Ledger::put_body(const Delivery& delivery, std::string_view content) {
  return put_body_.bind(1, stamp_of(delivery)).bind(2, delivery.message_id).bind(3, as_bytes(content)).run();
}

Result<std::optional<std::string>> Ledger::find_body(const Delivery& delivery) {
  if (homes_) return std::optional<std::string>();
  Rows rows = find_body_.bind(1, stamp_of(delivery)).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(rows.bytes(0));
}

Status Ledger::drop_body(std::int64_t stamp) { return drop_body_.bind(1, stamp).run(); }

Result<std::vector<UnsyncedBody>> Ledger::list_bodies(std::int64_t after, std::size_t limit) {
  std::vector<UnsyncedBody> bodies;
  if (homes_) return bodies;
  Rows rows = list_bodies_.bind(1, after).bind(2, static_cast<std::int64_t>(limit)).rows();
  while (WARREN_TRY(rows.next())) bodies.push_back({rows.integer(0), std::string(rows.text(1))});
  return bodies;
}

Status Ledger::drop_bodies() { return homes_ ? Status(Ok{}) : drop_bodies_.run(); }

}  // namespace warren::relay
