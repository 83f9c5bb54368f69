// History: restoring, removing and pruning checkpoints.
#include <algorithm>

#include <fmt/format.h>

#include "db/transaction.h"
#include "store/ciphers/encrypt_files.h"
#include "store/files/orphans.h"
#include "store/files/sqlite_fs.h"
#include "store/history/history.h"
#include "store/overlay/apply_log.h"
#include "store/record/audit_log.h"
#include "store/record/journal.h"
#include "store/tables/usage.h"

namespace warren {
namespace {

constexpr std::size_t kNotesOfRestoreMax = 2'000;  // beyond that, readers of the journal look at everything

// Of an agent that has encrypted files, deleted rows of checkpoints may be their plain content: SQLite overwrites them.
// In a transaction, which holds the database's lock.
class SecureDelete {
 public:
  explicit SecureDelete(Store& store) : database_(store.database()), is_on_(store.content_keys() != nullptr) {
    if (is_on_) database_.execute("PRAGMA secure_delete=1").ignore("compacting the file overwrites them, too");
  }
  ~SecureDelete() {
    if (is_on_) database_.execute("PRAGMA secure_delete=0").ignore("deleting is slower then");
  }
  SecureDelete(const SecureDelete&) = delete;
  SecureDelete& operator=(const SecureDelete&) = delete;

 private:
  Database& database_;
  bool is_on_;
};

}  // namespace

// Nodes that do not exist in the checkpoint, and that a process may have open, become orphans: as if they were removed.
// Returns them as a JSON array.
Result<std::string> History::keep_open_nodes(std::int64_t id) {
  std::uint32_t seat = database_.find_seat_after(0);
  if (database_.seat() != 0) seat = seat == 0 ? database_.seat() : std::min(seat, database_.seat());
  std::vector<std::uint64_t> nodes;
  if (seat == 0) return json_list(nodes);
  JoinedSql query = Sql(
      "SELECT ino FROM wr_past_inode n WHERE since > ?1 AND until = 9223372036854775807 AND NOT EXISTS (SELECT 1 FROM "
      "wr_past_inode o WHERE o.ino = n.ino AND o.since <= ?1 AND o.until > ?1)");
  // A copy of a base's file is known by the base's number, which then means the base's file again.
  TableNames names = WARREN_TRY(TableNames::read(database_));
  if (names.has("wr_origin"))
    query += Sql(" AND NOT EXISTS (SELECT 1 FROM wr_origin b WHERE b.delta_ino = n.ino AND b.base_path <> '')");
  Statement vanishing = WARREN_TRY(database_.prepare(query));
  {
    Rows rows = vanishing.bind(1, id).rows();
    while (WARREN_TRY(rows.next())) nodes.push_back(static_cast<std::uint64_t>(rows.integer(0)));
  }
  auto orphans = WARREN_TRY(Orphans::open(database_));
  for (std::uint64_t node : nodes) WARREN_TRY(orphans->give(Inode{node}, seat));
  std::string list = json_list(nodes);
  Statement unlink = WARREN_TRY(database_.prepare(
      "UPDATE fs_inode SET nlink = 0 WHERE ino IN (SELECT value FROM json_each(?)) AND (mode & 61440) <> 16384"));
  WARREN_TRY(unlink.bind(1, std::string_view(list)).run());
  if (names.has("wr_expiry")) {  // what has no name does not expire
    Statement forget =
        WARREN_TRY(database_.prepare("DELETE FROM wr_expiry WHERE ino IN (SELECT value FROM json_each(?))"));
    WARREN_TRY(forget.bind(1, std::string_view(list)).run());
  }
  return list;
}

// A file that was unlinked while it is open, and gets its name back, gets the checkpoint's content too.
Status History::revive_open_nodes(std::int64_t id) {
  Statement query = WARREN_TRY(database_.prepare(
      "SELECT o.ino FROM wr_orphan o WHERE o.boot <> '' AND EXISTS (SELECT 1 FROM wr_past_inode p WHERE p.ino = o.ino "
      "AND p.since <= ?1 AND p.until > ?1)"));
  std::vector<std::uint64_t> nodes;
  {
    Rows rows = query.bind(1, id).rows();
    while (WARREN_TRY(rows.next())) nodes.push_back(static_cast<std::uint64_t>(rows.integer(0)));
  }
  if (nodes.empty()) return Ok{};
  std::string list = json_list(nodes);
  TableNames names = WARREN_TRY(TableNames::read(database_));
  for (const PastTable& table : past_tables()) {
    if (table.scope != PastScope::kNode || !PastSql(table, names).exists()) continue;
    JoinedSql text = Sql("DELETE FROM ");
    text += table.live;
    text += Sql(" WHERE ");
    text += table.node;
    text += Sql(" IN (SELECT value FROM json_each(?))");
    Statement erase = WARREN_TRY(database_.prepare(text));
    WARREN_TRY(erase.bind(1, std::string_view(list)).run());
  }
  return Ok{};
}

// The kept rows are input like any other: what is put back must be a tree. Only what is put back, and what is in a
// directory that is, can make it something else. (+: that column has no type, and its index serves only such a value.)
Status History::check_put_back(std::int64_t id) {
  Statement bad = WARREN_TRY(database_.prepare(R"sql(
    WITH RECURSIVE
      back AS (SELECT d.parent_ino, d.name, d.ino FROM wr_past_dentry d WHERE d.since <= ?1 AND d.until > ?1 AND
        d.until < 9223372036854775807),
      dirs AS (SELECT b.parent_ino, b.ino FROM back b JOIN fs_inode i ON i.ino = b.ino AND (i.mode & 61440) = 16384),
      above(dir, ino) AS (SELECT ino, parent_ino FROM dirs UNION SELECT a.dir, d.parent_ino FROM above a
        JOIN wr_past_dentry d ON d.ino = +a.ino AND d.since <= ?1 AND d.until > ?1)
    SELECT 1 FROM back b WHERE b.ino = 1 OR NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = b.ino) OR NOT EXISTS
      (SELECT 1 FROM fs_inode p WHERE p.ino = b.parent_ino AND (p.mode & 61440) = 16384) OR typeof(b.name) <> 'text' OR
      b.name IN ('', '.', '..') OR instr(b.name, '/') > 0 OR octet_length(b.name) > 255
    UNION ALL SELECT 1 FROM dirs b WHERE (SELECT count(*) FROM wr_past_dentry d WHERE d.ino = b.ino AND d.since <= ?1 AND
      d.until > ?1) > 1
    UNION ALL SELECT 1 FROM above WHERE dir = ino
    UNION ALL SELECT 1 FROM wr_past_inode n CROSS JOIN wr_past_dentry d ON d.parent_ino = n.ino AND d.since <= ?1 AND
      d.until > ?1 WHERE n.since <= ?1 AND n.until > ?1 AND n.until < 9223372036854775807 AND (n.mode & 61440) <> 16384
    UNION ALL SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM fs_inode WHERE ino = 1 AND (mode & 61440) = 16384)
    LIMIT 1
  )sql"));
  if (!WARREN_TRY(bad.bind(1, id).find_integer())) return Ok{};
  return Error(Code::kCorrupt, fmt::format("checkpoint {} is damaged: what it kept is not a tree", id),
               "nothing was changed; `warren fsck` checks what checkpoints keep");
}

Status History::put_back(std::int64_t id, std::int64_t version) {
  TableNames names = WARREN_TRY(TableNames::read(database_));
  WARREN_TRY(revive_open_nodes(id));
  std::string kept = WARREN_TRY(keep_open_nodes(id));
  bool has_kept = kept != "[]";
  std::vector<PastSql> tables;
  for (const PastTable& table : past_tables()) {
    PastSql sql(table, names);
    if (!sql.exists()) continue;
    Statement erase = WARREN_TRY(database_.prepare(sql.erase_newer(has_kept)));
    erase.bind(1, id);
    if (has_kept && table.scope == PastScope::kNode) erase.bind(2, std::string_view(kept));
    WARREN_TRY(erase.run());
    tables.push_back(std::move(sql));
  }
  for (const PastSql& sql : tables) {
    Statement insert = WARREN_TRY(database_.prepare(sql.insert_older()));
    WARREN_TRY(insert.bind(1, id).run().within(fmt::format("put back checkpoint {}", id)));
  }
  WARREN_TRY(check_put_back(id));
  for (const PastSql& sql : tables) {
    Statement end = WARREN_TRY(database_.prepare(sql.end_newer()));
    WARREN_TRY(end.bind(1, id).bind(2, version).run());
    // Not those that the statement above has ended: they are newer than the checkpoint.
    Statement add = WARREN_TRY(database_.prepare(sql.add_older()));
    WARREN_TRY(add.bind(1, id).bind(2, version).run());
  }
  // The root of the namespace is the directory that is kept without a name (WR-35).
  return database_.execute(
      "DELETE FROM wr_meta WHERE key IN ('used_bytes', 'used_inodes', 'namespace_ino');"
      "INSERT INTO wr_meta (key, value) SELECT 'namespace_ino', o.ino FROM wr_orphan o JOIN fs_inode i ON i.ino = "
      "o.ino "
      "WHERE o.boot = '' AND (i.mode & 61440) = 16384 ORDER BY o.ino LIMIT 1");
}

Status History::note_changed(const PastChanges& changed) {
  Journal& journal = *store_.journal();
  std::size_t count = changed.nodes.size() + changed.names.size() + changed.keys.size();
  if (changed.has_base_changes || count > kNotesOfRestoreMax) {
    journal.note_everything();
    return Ok{};
  }
  for (const auto& [parent, name] : changed.names) journal.note_entry(parent, name);
  for (Inode node : changed.nodes) journal.note_data(node);
  for (const std::string& key : changed.keys) journal.note_key(key);
  return Ok{};
}

// The rows of another time may be plain where a pattern is in force now. Nobody sees them so. The versions that the
// restore has added end at `version`, which no checkpoint needs: nothing plain is left but what a checkpoint has.
Status History::encrypt_restored(std::int64_t version, RecodedFiles& done) {
  if (store_.content_keys() == nullptr) return Ok{};
  store_.usage().forget();
  store_.fs().forget_rows();
  WARREN_TRY(encrypt_by_patterns(store_, done).within("encrypt files as the patterns say"));
  Dirty dirty;
  for (Inode node : done.nodes) dirty.nodes.push_back(node.value);
  if (dirty.nodes.empty()) return Ok{};
  WARREN_TRY(follow(dirty, version));
  Statement put = WARREN_TRY(database_.prepare("UPDATE wr_meta SET value = ? WHERE key = 'history_version'"));
  return put.bind(1, version).run();
}

Result<Checkpoint> History::restore(std::int64_t id, const std::vector<CoveredMount>& covered,
                                    RecodedFiles* encrypted) {
  auto guard = database_.lock();  // until nothing that was read before is believed any more
  Transaction change = WARREN_TRY(Transaction::begin(database_, Access::kWrite, &guard));
  SecureDelete no_traces(store_);
  Checkpoint wanted = WARREN_TRY(get(std::to_string(id)));
  if (WARREN_TRY(find_apply_intent(store_))) {
    return Error(Code::kBusy, "an apply of this agent is under way or was interrupted",
                 "`warren apply ID --recover` finishes it");
  }
  Checkpoint before = WARREN_TRY(add(fmt::format("before-restore-of-{}", id), "before restore", covered));
  PastChanges changed = WARREN_TRY(list_changed(id, std::nullopt));
  WARREN_TRY(put_back(id, before.id + 1));
  WARREN_TRY(note_changed(changed));
  WARREN_TRY(set_position(before.id + 1));
  RecodedFiles done;
  WARREN_TRY(encrypt_restored(before.id + 2, encrypted != nullptr ? *encrypted : done));
  store_.audit().note("restore", "/", kCheckpointDoor, label_of(wanted));
  WARREN_TRY(change.commit());
  store_.rows_replaced();
  return before;
}

// Versions that no other checkpoint needs go with it; the open ones stay, for the next checkpoint to compare with.
Status History::remove_in(const Checkpoint& checkpoint) {
  std::int64_t id = checkpoint.id;
  Statement before = WARREN_TRY(database_.prepare("SELECT max(id) FROM wr_checkpoint WHERE id < ?"));
  Statement after = WARREN_TRY(database_.prepare("SELECT min(id) FROM wr_checkpoint WHERE id > ?"));
  auto previous = WARREN_TRY(before.bind(1, id).find_integer());
  auto next = WARREN_TRY(after.bind(1, id).find_integer());
  TableNames names = WARREN_TRY(TableNames::read(database_));
  for (const PastTable& table : past_tables()) {
    if (!names.has(table.past.text())) continue;  // of an older program
    JoinedSql text = Sql("DELETE FROM ");
    text += table.past;
    text += Sql(" WHERE until > ?1 AND until <= ?2 AND until < 9223372036854775807 AND since > ?3 AND since <= ?1");
    Statement erase = WARREN_TRY(database_.prepare(text));
    WARREN_TRY(erase.bind(1, id).bind(2, next.value_or(kOpenEnd)).bind(3, previous.value_or(0)).run());
  }
  Statement erase = WARREN_TRY(database_.prepare("DELETE FROM wr_checkpoint WHERE id = ?"));
  WARREN_TRY(erase.bind(1, id).run());
  store_.keep_history();  // so that the commit leaves a row
  store_.audit().note("checkpoint_remove", label_of(checkpoint), kCheckpointDoor);
  return Ok{};
}

Status History::remove(std::int64_t id) {
  Transaction change = WARREN_TRY(store_.begin_write());
  SecureDelete no_traces(store_);
  Checkpoint wanted = WARREN_TRY(get(std::to_string(id)));
  WARREN_TRY(remove_in(wanted));
  WARREN_TRY(forget_if_empty());
  return change.commit();
}

// Without a checkpoint nothing is kept. The next id stays.
Status History::forget_if_empty() {
  Statement any = WARREN_TRY(database_.prepare("SELECT 1 FROM wr_checkpoint LIMIT 1"));
  if (WARREN_TRY(any.find_integer())) return Ok{};
  TableNames names = WARREN_TRY(TableNames::read(database_));
  for (const PastTable& table : past_tables()) {
    if (!names.has(table.past.text())) continue;
    JoinedSql text = Sql("DELETE FROM ");
    text += table.past;
    WARREN_TRY(database_.execute(text));
  }
  if (names.has("wr_mounted")) WARREN_TRY(database_.execute("DELETE FROM wr_mounted"));
  return database_.execute("DELETE FROM wr_meta WHERE key IN ('history_seq', 'history_commit')");
}

// Content of versions that the agent does not have any more.
Result<std::uint64_t> History::measure_past() {
  Statement query = WARREN_TRY(database_.prepare(
      "SELECT (SELECT coalesce(sum(octet_length(data)), 0) FROM wr_past_data WHERE until < 9223372036854775807) + "
      "(SELECT coalesce(sum(octet_length(value)), 0) FROM wr_past_mounted WHERE until < 9223372036854775807)"));
  auto bytes = WARREN_TRY(query.find_integer());
  return static_cast<std::uint64_t>(bytes.value_or(0));
}

Status History::remove_older(const Checkpoint& newest) {
  SecureDelete no_traces(store_);
  std::vector<Checkpoint> all = WARREN_TRY(list());
  std::erase_if(all, [&](const Checkpoint& one) { return one.id == newest.id || one.cause != newest.cause; });
  Quota quota = WARREN_TRY(store_.usage().quota());
  for (std::size_t i = 0; i < all.size(); ++i) {
    bool is_over = all.size() - i >= kAutomaticCheckpoints;
    if (!is_over && quota.bytes) {
      std::uint64_t kept = WARREN_TRY(measure_past());
      is_over = kept > *quota.bytes;
    }
    if (!is_over) break;
    WARREN_TRY(remove_in(all[i]));
  }
  return Ok{};
}

Result<std::vector<Checkpoint>> History::prune(const PruneRule& rule) {
  Transaction change = WARREN_TRY(store_.begin_write());
  SecureDelete no_traces(store_);
  std::vector<Checkpoint> all = WARREN_TRY(list());
  std::vector<Checkpoint> removed;
  std::size_t kept = std::min<std::size_t>(all.size(), rule.keep.value_or(0));
  all.resize(all.size() - kept);  // the newest are last
  for (Checkpoint& checkpoint : all) {
    if (rule.before_us && checkpoint.at_us >= *rule.before_us) continue;
    WARREN_TRY(remove_in(checkpoint));
    removed.push_back(std::move(checkpoint));
  }
  if (!removed.empty()) WARREN_TRY(forget_if_empty());
  WARREN_TRY(change.commit());
  return removed;
}

}  // namespace warren
