#include "store/files/xattrs.h"

namespace warren {

Result<std::unique_ptr<Xattrs>> Xattrs::open(Database& db, const Schema& schema) {
  std::unique_ptr<Xattrs> xattrs(new Xattrs(db));
  xattrs->exists_ = schema.has_extensions;
  if (!schema.has_extensions) return xattrs;
  xattrs->first_ = WARREN_TRY(db.prepare("SELECT 1 FROM wr_xattr LIMIT 1"));
  xattrs->find_ = WARREN_TRY(db.prepare("SELECT value FROM wr_xattr WHERE ino = ? AND name = ?"));
  xattrs->list_ = WARREN_TRY(db.prepare("SELECT name FROM wr_xattr WHERE ino = ? ORDER BY name"));
  if (db.is_read_only()) return xattrs;
  xattrs->set_ = WARREN_TRY(db.prepare("INSERT OR REPLACE INTO wr_xattr (ino, name, value) VALUES (?, ?, ?)"));
  xattrs->erase_ = WARREN_TRY(db.prepare("DELETE FROM wr_xattr WHERE ino = ? AND name = ?"));
  xattrs->erase_all_ = WARREN_TRY(db.prepare("DELETE FROM wr_xattr WHERE ino = ?"));
  return xattrs;
}

Result<bool> Xattrs::has_any() {
  if (!exists_) return false;
  if (std::uint64_t epoch = database_.foreign_epoch(); epoch != foreign_epoch_) {
    foreign_epoch_ = epoch;
    any_.reset();
  }
  if (!any_) {
    auto one = WARREN_TRY(first_.find_integer());
    any_ = one.has_value();
  }
  return *any_;
}

Result<std::optional<std::string>> Xattrs::find(Inode node, std::string_view name) {
  if (!WARREN_TRY(has_any())) return std::optional<std::string>();
  Rows rows = find_.bind(1, node.value).bind(2, name).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(as_text(rows.blob(0))));
}

Result<std::vector<std::string>> Xattrs::list(Inode node) {
  std::vector<std::string> names;
  if (!WARREN_TRY(has_any())) return names;
  Rows rows = list_.bind(1, node.value).rows();
  while (WARREN_TRY(rows.next())) names.emplace_back(rows.text(0));
  return names;
}

Status Xattrs::set(Inode node, std::string_view name, Bytes value) {
  any_ = true;
  return set_.bind(1, node.value).bind(2, name).bind(3, value).run();
}

Status Xattrs::erase(Inode node, std::string_view name) { return erase_.bind(1, node.value).bind(2, name).run(); }

Status Xattrs::erase_all(Inode node) {
  if (!WARREN_TRY(has_any())) return Ok{};
  return erase_all_.bind(1, node.value).run();
}

}  // namespace warren
