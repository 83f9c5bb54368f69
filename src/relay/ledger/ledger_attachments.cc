// References from messages to attachments, and the identity of each file when it was hashed.
#include "relay/ledger/ledger.h"

namespace warren::relay {
namespace {

constexpr Sql kAttachmentTables = R"(
CREATE TABLE IF NOT EXISTS attachments (
    home TEXT NOT NULL,
    hash TEXT NOT NULL,
    file_inode BIGINT NOT NULL,
    file_size BIGINT NOT NULL,
    file_mtime_ns BIGINT NOT NULL,
    file_ctime_ns BIGINT NOT NULL,
    is_verified BIGINT NOT NULL,
    unreferenced_since BIGINT NOT NULL,
    PRIMARY KEY (home, hash)
);
CREATE TABLE IF NOT EXISTS attachment_references (
    home TEXT NOT NULL,
    hash TEXT NOT NULL,
    message_id TEXT NOT NULL,
    PRIMARY KEY (home, hash, message_id)
);
)";

#define WARREN_ATTACHMENT                                                                                    \
  "hash, file_inode, file_size, file_mtime_ns, file_ctime_ns, is_verified, unreferenced_since,"              \
  " CASE WHEN EXISTS (SELECT 1 FROM attachment_references r WHERE r.home = a.home AND r.hash = a.hash) THEN" \
  " 1 ELSE 0 END"

AttachmentRow attachment_of(Rows& rows) {
  AttachmentRow row;
  row.hash = rows.text(0);
  row.identity.inode = static_cast<std::uint64_t>(rows.integer(1));
  row.identity.size = static_cast<std::uint64_t>(rows.integer(2));
  row.identity.mtime_ns = rows.integer(3);
  row.identity.ctime_ns = rows.integer(4);
  row.is_verified = rows.integer(5) != 0;
  row.unreferenced_since_us = rows.integer(6);
  row.is_referenced = rows.integer(7) != 0;
  return row;
}

}  // namespace

Status Ledger::create_attachment_tables() { return db_->execute(kAttachmentTables); }

Status Ledger::prepare_attachments() {
  const Prepared statements[] = {
      {&put_attachment_,
       "INSERT INTO attachments(hash, file_inode, file_size, file_mtime_ns, file_ctime_ns, is_verified,"
       " unreferenced_since, home) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT(home, hash) DO UPDATE SET "
       "file_inode ="
       " excluded.file_inode, file_size = excluded.file_size, file_mtime_ns = excluded.file_mtime_ns, file_ctime_ns ="
       " excluded.file_ctime_ns, is_verified = excluded.is_verified, unreferenced_since ="
       " excluded.unreferenced_since"},
      {&remove_attachment_, "DELETE FROM attachments WHERE hash = ?1 AND home = ?2"},
      {&find_attachment_, "SELECT " WARREN_ATTACHMENT " FROM attachments a WHERE hash = ?1 AND home = ?2"},
      {&list_attachments_,
       "SELECT " WARREN_ATTACHMENT " FROM attachments a WHERE home = ?3 AND hash >= ?1 AND hash < ?2 ORDER BY hash"},
      {&add_reference_,
       "INSERT INTO attachment_references(hash, message_id, home) VALUES (?1, ?2, ?3) ON CONFLICT(home, hash, "
       "message_id)"
       " DO NOTHING"},
      {&remove_reference_, "DELETE FROM attachment_references WHERE hash = ?1 AND message_id = ?2 AND home = ?3"},
      {&list_references_,
       "SELECT hash, message_id, CASE WHEN EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = r.message_id AND"
       " d.state NOT IN ('read', 'acked', 'nacked', 'dead')) OR EXISTS (SELECT 1 FROM dead_letters l WHERE"
       " l.message_id = r.message_id AND l.closed_at IS NULL) THEN 1 ELSE 0 END FROM attachment_references r WHERE"
       " r.home = ?4 AND (hash, message_id) > (?1, ?2) ORDER BY hash, message_id LIMIT ?3"},
      {&homes_with_, "SELECT home FROM attachments WHERE hash = ?1 AND home <> ?2 AND is_verified = 1 ORDER BY home"},
      {&shift_unreferenced_,
       "UPDATE attachments SET unreferenced_since = unreferenced_since + ?1 WHERE unreferenced_since <> 0 AND home = "
       "?2"},
  };
  return prepare_all(statements);
}

Status Ledger::put_attachment(const AttachmentRow& attachment) {
  return put_attachment_.bind(1, attachment.hash)
      .bind(2, attachment.identity.inode)
      .bind(3, attachment.identity.size)
      .bind(4, attachment.identity.mtime_ns)
      .bind(5, attachment.identity.ctime_ns)
      .bind(6, attachment.is_verified ? 1 : 0)
      .bind(7, attachment.unreferenced_since_us)
      .bind(8, home())
      .run();
}

Status Ledger::remove_attachment(std::string_view hash) {
  return remove_attachment_.bind(1, hash).bind(2, home()).run();
}

Result<std::optional<AttachmentRow>> Ledger::find_attachment(std::string_view hash) {
  Rows rows = find_attachment_.bind(1, hash).bind(2, home()).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<AttachmentRow>();
  return std::optional(attachment_of(rows));
}

// Digits sort before 'g' in every collation; not every character after '9' does.
Result<std::vector<AttachmentRow>> Ledger::list_attachments(std::string_view prefix) {
  std::string end = std::string(prefix) + "g";
  std::vector<AttachmentRow> found;
  Rows rows = list_attachments_.bind(1, prefix).bind(2, end).bind(3, home()).rows();
  while (WARREN_TRY(rows.next())) found.push_back(attachment_of(rows));
  return found;
}

Status Ledger::add_reference(std::string_view hash, std::string_view message_id) {
  return add_reference_.bind(1, hash).bind(2, message_id).bind(3, home()).run();
}

Status Ledger::remove_reference(const AttachmentReference& reference) {
  return remove_reference_.bind(1, reference.hash).bind(2, reference.message_id).bind(3, home()).run();
}

Result<std::vector<AttachmentReference>> Ledger::list_references(const AttachmentReference& after, std::size_t limit) {
  std::vector<AttachmentReference> found;
  Rows rows = list_references_.bind(1, after.hash)
                  .bind(2, after.message_id)
                  .bind(3, std::uint64_t{limit})
                  .bind(4, home())
                  .rows();
  while (WARREN_TRY(rows.next())) {
    found.push_back({std::string(rows.text(0)), std::string(rows.text(1)), rows.integer(2) != 0});
  }
  return found;
}

Status Ledger::shift_unreferenced(std::int64_t us) { return shift_unreferenced_.bind(1, us).bind(2, home()).run(); }

Result<std::vector<std::string>> Ledger::list_homes_with(std::string_view hash) {
  std::vector<std::string> found;
  Rows rows = homes_with_.bind(1, hash).bind(2, home()).rows();
  while (WARREN_TRY(rows.next())) found.emplace_back(rows.text(0));
  return found;
}

}  // namespace warren::relay
