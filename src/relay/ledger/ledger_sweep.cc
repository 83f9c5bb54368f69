// Removal of old rows from the ledger.
#include "relay/ledger/ledger.h"
#include "relay/ledger/ledger_columns.h"

namespace warren::relay {

// An unread delivery counts as open here: a file in an inbox has a row as long as it is there.
#define WARREN_IS_FINISHED                                                                                            \
  "status IN ('completed', 'failed') AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id ="                 \
  " messages.message_id AND d.state IN ('pending', 'routed', 'stored', 'held', 'delivered')) AND NOT EXISTS (SELECT " \
  "1 FROM"                                                                                                            \
  " dead_letters l WHERE l.message_id = messages.message_id AND l.closed_at IS NULL)"

Status Ledger::prepare_sweep() {
  const Prepared statements[] = {
      {&count_waiting_, "SELECT recipient, count(*) AS unread FROM deliveries WHERE " WARREN_UNREAD " GROUP BY"
                        " recipient ORDER BY unread DESC, recipient LIMIT ?1"},
      // Starts from open deliveries, which are few; the archive may hold millions of files.
      {&needed_below_,
       "SELECT 1 FROM deliveries d JOIN messages m ON m.message_id = d.message_id WHERE d.state = 'pending' AND"
       " m.file_path LIKE ?1 UNION ALL SELECT 1 FROM deliveries d JOIN messages m ON m.message_id = d.message_id"
       " WHERE d.state IN ('stored', 'held') AND " WARREN_UNREAD_D " AND m.file_path LIKE ?1"
       " UNION ALL SELECT 1 FROM deliveries d JOIN messages m ON m.message_id = d.message_id WHERE d.state = 'routed' "
       "AND"
       " m.file_path LIKE ?1 UNION ALL SELECT 1 FROM dead_letters l JOIN messages m ON m.message_id = l.message_id "
       "WHERE l.closed_at IS"
       " NULL AND m.file_path LIKE ?1 LIMIT 1"},
      // Not the newest delivery: the next inbox name must sort after it, even after a restart.
      {&list_finished_,
       "SELECT message_id, discovered_at FROM messages WHERE discovered_at < ?1 AND discovered_at >= ?2 AND"
       " coalesce(processed_at, discovered_at) < ?1 AND " WARREN_IS_FINISHED
       " AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = messages.message_id AND d.id = (SELECT max(id)"
       " FROM deliveries)) ORDER BY discovered_at LIMIT ?3"},
      {&remove_message_, "DELETE FROM messages WHERE message_id = ?1 AND " WARREN_IS_FINISHED " RETURNING 1"},
      {&remove_deliveries_, "DELETE FROM deliveries WHERE message_id = ?1"},
      {&remove_letters_, "DELETE FROM dead_letters WHERE message_id = ?1"},
      {&remove_operations_,
       "DELETE FROM pending_operations WHERE id IN (SELECT id FROM pending_operations WHERE completed_at < ?1 ORDER BY"
       " id LIMIT ?2)"},
  };
  return prepare_all(statements);
}

Result<std::map<std::string, std::int64_t>> Ledger::count_waiting(std::size_t limit) {
  std::map<std::string, std::int64_t> found;
  Rows rows = count_waiting_.bind(1, std::uint64_t{limit}).rows();
  while (WARREN_TRY(rows.next())) found[std::string(rows.text(0))] = rows.integer(1);
  return found;
}

Result<bool> Ledger::has_needed_below(std::string_view directory) {
  std::string pattern = std::string(directory) + "/%";
  std::optional<std::int64_t> found = WARREN_TRY(needed_below_.bind(1, pattern).find_integer());
  return found.has_value();
}

Result<std::vector<Finished>> Ledger::list_finished(std::int64_t before_us, std::int64_t from_us, std::size_t limit) {
  std::vector<Finished> found;
  Rows rows = list_finished_.bind(1, before_us).bind(2, from_us).bind(3, std::uint64_t{limit}).rows();
  while (WARREN_TRY(rows.next())) found.push_back({std::string(rows.text(0)), rows.integer(1)});
  return found;
}

Result<bool> Ledger::remove_finished(std::string_view message_id) {
  std::optional<std::int64_t> removed = WARREN_TRY(remove_message_.bind(1, message_id).find_integer());
  if (!removed) return false;
  WARREN_TRY(remove_deliveries_.bind(1, message_id).run());
  WARREN_TRY(remove_letters_.bind(1, message_id).run());
  return true;
}

}  // namespace warren::relay
