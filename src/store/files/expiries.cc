#include "store/files/expiries.h"

namespace warren {

Result<std::unique_ptr<Expiries>> Expiries::open(Database& db, const Schema& schema) {
  std::unique_ptr<Expiries> expiries(new Expiries(db));
  expiries->exists_ = schema.has_expiries;
  if (!schema.has_expiries) return expiries;
  expiries->next_of_all_ = WARREN_TRY(db.prepare("SELECT min(expires_at_ms) FROM wr_expiry"));
  expiries->find_ = WARREN_TRY(db.prepare("SELECT expires_at_ms FROM wr_expiry WHERE ino = ?"));
  expiries->due_ = WARREN_TRY(
      db.prepare("SELECT ino, parent_ino, name FROM wr_expiry WHERE expires_at_ms <= ? ORDER BY expires_at_ms"));
  if (db.is_read_only()) return expiries;
  expiries->set_ = WARREN_TRY(
      db.prepare("INSERT OR REPLACE INTO wr_expiry (ino, expires_at_ms, parent_ino, name) VALUES (?, ?, ?, ?)"));
  expiries->move_ = WARREN_TRY(db.prepare("UPDATE wr_expiry SET parent_ino = ?, name = ? WHERE ino = ?"));
  expiries->erase_ = WARREN_TRY(db.prepare("DELETE FROM wr_expiry WHERE ino = ?"));
  return expiries;
}

Result<std::optional<std::int64_t>> Expiries::next() {
  if (!exists_) return std::optional<std::int64_t>();
  if (is_known_ && checked_transaction_ == database_.transaction_number()) return next_;
  checked_transaction_ = database_.transaction_number();
  std::uint64_t epoch = database_.foreign_epoch();
  if (is_known_ && epoch == foreign_epoch_) return next_;
  Rows rows = next_of_all_.rows();
  bool has_row = WARREN_TRY(rows.next());
  next_ = has_row && !rows.is_null(0) ? std::optional(rows.integer(0)) : std::nullopt;
  foreign_epoch_ = epoch;
  is_known_ = true;
  return next_;
}

Result<std::optional<std::int64_t>> Expiries::find(Inode node) {
  if (!WARREN_TRY(next())) return std::optional<std::int64_t>();
  return find_.bind(1, node.value).find_integer();
}

Status Expiries::set(Inode node, std::int64_t at_ms, const std::optional<EntryName>& entry) {
  set_.bind(1, node.value).bind(2, at_ms);
  if (entry) set_.bind(3, entry->parent.value).bind(4, entry->name);
  else set_.bind_null(3).bind_null(4);
  is_known_ = false;
  return set_.run();
}

Status Expiries::move(Inode node, Inode parent, std::string_view name) {
  if (!WARREN_TRY(next())) return Ok{};
  return move_.bind(1, parent.value).bind(2, name).bind(3, node.value).run();
}

Status Expiries::erase(Inode node) {
  if (!WARREN_TRY(next())) return Ok{};
  is_known_ = false;
  return erase_.bind(1, node.value).run();
}

Result<std::vector<Expiries::Due>> Expiries::list_due(std::int64_t now_ms) {
  std::vector<Due> due;
  Rows rows = due_.bind(1, now_ms).rows();
  while (WARREN_TRY(rows.next())) {
    Due& one = due.emplace_back(Due{.node = Inode{static_cast<std::uint64_t>(rows.integer(0))}, .entry = {}});
    if (rows.is_null(1) || rows.is_null(2)) continue;
    one.entry =
        EntryName{.parent = Inode{static_cast<std::uint64_t>(rows.integer(1))}, .name = std::string(rows.text(2))};
  }
  return due;
}

}  // namespace warren
