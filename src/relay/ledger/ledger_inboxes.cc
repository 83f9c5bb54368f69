// Which inbox each delivered message was put into: an agent's directory may be moved away, and another may take its
// place. Only the relay reads and writes the column, so that commands work on a ledger that an earlier version made.
#include "relay/ledger/ledger.h"
#include "relay/ledger/ledger_columns.h"

namespace warren::relay {

Status Ledger::add_inbox_column() {
  Statement find = WARREN_TRY(db_->prepare("SELECT 1 FROM pragma_table_info('deliveries') WHERE name = 'inbox_born'"));
  std::optional<std::int64_t> found = WARREN_TRY(find.find_integer());
  return found ? Status(Ok{}) : db_->execute("ALTER TABLE deliveries ADD COLUMN inbox_born INTEGER");
}

Status Ledger::prepare_inboxes() {
  const Prepared statements[] = {
      {&set_inbox_, "UPDATE deliveries SET inbox_born = ?2 WHERE id = ?1"},
      {&list_inboxes_,
       "SELECT id, inbox_born FROM deliveries WHERE recipient = ?1 AND state = 'delivered' AND id > ?2 "
       "AND " WARREN_UNREAD " ORDER BY id LIMIT ?3"},
  };
  return prepare_all(statements);
}

Status Ledger::set_inbox(const DeliveredTo& to) {
  if (homes_) return Ok{};
  return set_inbox_.bind(1, to.delivery).bind(2, to.inbox_born_ns).run();
}

Result<std::map<std::int64_t, std::int64_t>> Ledger::list_inboxes(std::string_view recipient, std::int64_t after,
                                                                  std::size_t limit) {
  std::map<std::int64_t, std::int64_t> found;
  if (homes_) return found;
  Rows rows = list_inboxes_.bind(1, recipient).bind(2, after).bind(3, std::uint64_t{limit}).rows();
  while (WARREN_TRY(rows.next())) {
    if (!rows.is_null(1)) found.emplace(rows.integer(0), rows.integer(1));
  }
  return found;
}

}  // namespace warren::relay
