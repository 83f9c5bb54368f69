// The part of SqliteFs for files that expire.
#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "base/side_change.h"
#include "fs/expiry.h"
#include "store/files/sqlite_fs.h"
#include "store/record/audit_log.h"
#include "store/store.h"

namespace warren {

Result<std::optional<std::int64_t>> SqliteFs::next_expiry_ms() {
  Transaction scope = WARREN_TRY(read_scope());
  WARREN_TRY(database_.look());
  return expiries_->next();
}

Result<bool> SqliteFs::has_expired() {
  std::optional<std::int64_t> next = WARREN_TRY(expiries_->next());
  return next && *next <= now_ms();
}

Result<bool> SqliteFs::is_expired(Inode node) {
  if (!WARREN_TRY(has_expired())) return false;
  std::optional<std::int64_t> at = WARREN_TRY(expiries_->find(node));
  return at && *at <= now_ms();
}

Status SqliteFs::set_expiry(Attributes row, Bytes value, XattrMode mode) {
  std::int64_t at_ms = WARREN_TRY(parse_expiry(as_text(value)));
  if (!row.is_file()) return Error(Code::kInvalid, "only a regular file can expire");
  std::optional<std::int64_t> old = WARREN_TRY(expiries_->find(row.inode));
  if (mode == XattrMode::kCreate && old)
    return Error(Code::kExists, fmt::format("attribute {} already exists", quote(kExpiryXattr)));
  if (mode == XattrMode::kReplace && !old)
    return Error(Code::kNoData, fmt::format("no attribute {}", quote(kExpiryXattr)));
  WARREN_TRY(expiries_->set(row.inode, at_ms, nodes_->recent_entry_of(row.inode)));
  row.ctime = clock_.now();
  WARREN_TRY(nodes_->update(row));
  store_.journal()->note_attributes(row.inode);
  store_.expiry_changed();
  return Ok{};
}

Status SqliteFs::remove_expired() {
  std::optional<std::int64_t> next = WARREN_TRY(next_expiry_ms());
  if (!next || *next > now_ms()) return Ok{};
  Transaction scope = WARREN_TRY(write_scope());
  WARREN_TRY(database_.look());
  WARREN_TRY(remove_expired_now());
  return scope.commit();
}

// A transaction of its own: the change that follows may be refused, and then it must have changed nothing.
void SqliteFs::expire_first() {
  {
    auto guard = database_.lock();
    if (expiries_->is_unused() || !orphans_ || !expiries_->may_be_before(now_ms())) return;
  }
  SideChange not_the_operation;
  remove_expired().ignore("a full disk, say; the change itself may be what frees space");
}

Status SqliteFs::remove_expired_now() {
  if (!WARREN_TRY(has_expired())) return Ok{};
  std::vector<Expiries::Due> all = WARREN_TRY(expiries_->list_due(now_ms()));
  Timestamp now = clock_.now();
  for (const Expiries::Due& due : all) WARREN_TRY(remove_all_names(due, now));
  return Ok{};
}

// Best effort: the part that cannot be found is left out. There is no index by node, so each directory that was not
// used lately costs a look at all entries.
std::string SqliteFs::path_for_record(const EntryName& entry) {
  std::string path = "/" + entry.name;
  Inode dir = entry.parent;
  for (int depth = 0; depth < limits::kTreeDepth && dir != kRootInode && dir != namespace_root_; ++depth) {
    std::optional<EntryName> above = nodes_->recent_entry_of(dir);
    if (!above) {
      Result<std::vector<EntryName>> all = nodes_->list_entries_of(dir);
      if (all.ok() && !all->empty()) above = all->front();
    }
    if (!above) break;
    path.insert(0, "/" + above->name);
    dir = above->parent;
  }
  return path;
}

// Usually the one name that was noted. Otherwise, because it has several or another program has renamed it, all entries
// are searched.
Status SqliteFs::remove_all_names(const Expiries::Due& due, Timestamp now) {
  store_.journal()->note_attributes(due.node);
  std::optional<Attributes> row = WARREN_TRY(nodes_->find(due.node));
  if (!row || !row->is_file()) return expiries_->erase(due.node);  // another program has removed it
  std::vector<EntryName> names;
  if (due.entry && row->nlink == 1) {
    std::optional<Attributes> found = WARREN_TRY(nodes_->find_entry(due.entry->parent, due.entry->name));
    if (found && found->inode == due.node) names.push_back(*due.entry);
  }
  if (names.empty()) names = WARREN_TRY(nodes_->list_entries_of(due.node));
  for (const EntryName& entry : names) {
    row = WARREN_TRY(nodes_->find(due.node));
    if (!row) break;
    WARREN_TRY(remove_name(entry.parent, entry.name, *row, now));
    WARREN_TRY(nodes_->touch(entry.parent, now));
    store_.expired(entry.parent, entry.name);
    if (store_.audit().is_enabled()) store_.audit().note("expire", path_for_record(entry), kExpiryDoor);
  }
  return expiries_->erase(due.node);
}

}  // namespace warren
