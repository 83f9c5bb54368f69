#include "relay/shared/carried.h"

#include <fmt/format.h>

namespace warren::relay {
namespace {

// Attachments are often compressed already, so the server need not try.
constexpr Sql kCarriedTables = R"(
CREATE TABLE IF NOT EXISTS carried_attachments (
    home TEXT NOT NULL,
    hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (hash, home)
);
CREATE TABLE IF NOT EXISTS attachment_pieces (
    home TEXT NOT NULL,
    hash TEXT NOT NULL,
    number INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (home, hash, number)
);
ALTER TABLE attachment_pieces ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS idx_attachment_references_hash ON attachment_references(hash);
)";

}  // namespace

Status CarriedAttachments::create_tables(LedgerEngine& engine) { return engine.execute(kCarriedTables); }

Result<std::unique_ptr<CarriedAttachments>> CarriedAttachments::open(LedgerEngine& engine, std::string home,
                                                                     Clock& clock) {
  std::unique_ptr<CarriedAttachments> out(new CarriedAttachments(std::move(home), clock));
  struct Prepared {
    Statement* statement;
    Sql sql;
  };
  const Prepared statements[] = {
      {&out->renew_, "UPDATE carried_attachments SET used_at = ?3 WHERE home = ?1 AND hash = ?2 RETURNING 1"},
      {&out->drop_parts_,
       "DELETE FROM attachment_pieces WHERE home = ?1 AND NOT EXISTS (SELECT 1 FROM carried_attachments c WHERE c.home"
       " = ?1 AND c.hash = attachment_pieces.hash)"},
      {&out->put_piece_,
       "INSERT INTO attachment_pieces(home, hash, number, content) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (home, hash,"
       " number) DO UPDATE SET content = excluded.content"},
      {&out->finish_,
       "INSERT INTO carried_attachments(home, hash, size, used_at) SELECT ?1, ?2, ?3, ?4 WHERE (SELECT count(*) FROM"
       " attachment_pieces WHERE home = ?1 AND hash = ?2) = ?5 RETURNING 1"},
      {&out->hold_, "SELECT 1 FROM carried_attachments WHERE home = ?1 AND hash = ?2 FOR UPDATE"},
      {&out->find_, "SELECT home, size FROM carried_attachments WHERE hash = ?1 ORDER BY home LIMIT 1"},
      {&out->find_piece_, "SELECT content FROM attachment_pieces WHERE home = ?1 AND hash = ?2 AND number = ?3"},
      {&out->lock_, "SELECT home FROM carried_attachments WHERE hash = ?1 ORDER BY home FOR UPDATE"},
      {&out->drop_,
       "WITH gone AS (DELETE FROM carried_attachments WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM"
       " attachment_references r JOIN deliveries d ON d.message_id = r.message_id WHERE r.hash = ?1 AND d.state IN"
       " ('routed', 'held')) RETURNING home) DELETE FROM attachment_pieces WHERE hash = ?1 AND home IN (SELECT home"
       " FROM gone)"},
      {&out->forget_,
       "WITH gone AS (DELETE FROM carried_attachments WHERE hash = ?1 AND home = ?2 RETURNING home) DELETE FROM"
       " attachment_pieces WHERE hash = ?1 AND home IN (SELECT home FROM gone)"},
      {&out->list_before_, "SELECT DISTINCT hash FROM carried_attachments WHERE used_at < ?1 ORDER BY hash LIMIT ?2"},
  };
  for (const auto& [statement, sql] : statements) *statement = WARREN_TRY(engine.prepare(sql));
  return out;
}

Result<bool> CarriedAttachments::renew(std::string_view hash) {
  auto found = WARREN_TRY(renew_.bind(1, home_).bind(2, hash).bind(3, clock_.now_us()).find_integer());
  return found.has_value();
}

Status CarriedAttachments::drop_parts() { return drop_parts_.bind(1, home_).run(); }

Status CarriedAttachments::put_piece(std::string_view hash, std::int64_t number, Bytes content) {
  return put_piece_.bind(1, home_).bind(2, hash).bind(3, number).bind(4, content).run();
}

Status CarriedAttachments::finish(std::string_view hash, std::uint64_t size, std::int64_t pieces) {
  auto done = WARREN_TRY(
      finish_.bind(1, home_).bind(2, hash).bind(3, size).bind(4, clock_.now_us()).bind(5, pieces).find_integer());
  if (done) return Ok{};
  return Error(Code::kStale, fmt::format("pieces of attachment {} were removed while it was published", hash));
}

Result<bool> CarriedAttachments::hold(std::string_view hash) {
  auto found = WARREN_TRY(hold_.bind(1, home_).bind(2, hash).find_integer());
  return found.has_value();
}

Result<std::optional<CarriedSource>> CarriedAttachments::find(std::string_view hash) {
  Rows rows = find_.bind(1, hash).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<CarriedSource>();
  return std::optional(CarriedSource{std::string(rows.text(0)), static_cast<std::uint64_t>(rows.integer(1))});
}

Result<std::optional<std::string>> CarriedAttachments::find_piece(const CarriedSource& source, std::string_view hash,
                                                                  std::int64_t number) {
  Rows rows = find_piece_.bind(1, source.home).bind(2, hash).bind(3, number).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(rows.bytes(0));
}

// A transaction that records a message needing the attachment holds a lock on its row. So this waits for the lock first
// and checks with a second statement: a single one would see the state before the wait.
Status CarriedAttachments::drop(std::string_view hash) {
  {
    Rows rows = lock_.bind(1, hash).rows();
    while (WARREN_TRY(rows.next())) {
    }
  }
  return drop_.bind(1, hash).run();
}

Status CarriedAttachments::forget(const CarriedSource& source, std::string_view hash) {
  return forget_.bind(1, hash).bind(2, source.home).run();
}

Result<std::vector<std::string>> CarriedAttachments::list_before(std::int64_t used_before_us, std::size_t limit) {
  std::vector<std::string> found;
  Rows rows = list_before_.bind(1, used_before_us).bind(2, std::uint64_t{limit}).rows();
  while (WARREN_TRY(rows.next())) found.emplace_back(rows.text(0));
  return found;
}

}  // namespace warren::relay
