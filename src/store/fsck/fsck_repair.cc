#include "store/fsck/fsck_repair.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "store/ciphers/content_keys.h"
#include "store/fsck/fsck_checks.h"
#include "store/history/past_tables.h"

namespace warren {
namespace {

// Counts the rows it changes. Everything runs in the caller's transaction.
class Repairer {
 public:
  Repairer(Database& database, TableNames tables, Timestamp now)
      : database_(database), tables_(std::move(tables)), now_(now) {}

  Status repair(const FsckReport& before);
  std::size_t repaired() const { return repaired_; }

 private:
  Status run(Sql sql);
  Status run_if(std::string_view table_or_column, Sql sql);
  Result<std::int64_t> find(Sql sql);

  Status repair_history();
  Status repair_versions(JoinedSql (*statement)(const PastTable&));
  Status repair_past_entries();
  Status repair_config();
  Status repair_root();
  Status move_away_from_root();
  Status repair_entries();
  Status repair_namespace_root();
  Status repair_chunks();
  Status remove_leftovers();
  Status attach_lost();
  Status break_cycles(std::int64_t lost_found);
  Result<std::int64_t> lost_found();
  Result<std::int64_t> make_lost_found(std::string_view name);
  Status repair_links();
  Status remove_stale_whiteouts();
  Status notify_readers(bool journal_is_damaged);

  Database& database_;
  TableNames tables_;
  Timestamp now_;
  std::size_t repaired_ = 0;
};

Status Repairer::run(Sql sql) {
  std::int64_t before = database_.total_changes();
  WARREN_TRY(database_.execute(sql));
  repaired_ += static_cast<std::size_t>(database_.total_changes() - before);
  return Ok{};
}

Status Repairer::run_if(std::string_view table_or_column, Sql sql) {
  return tables_.has(table_or_column) ? run(sql) : Status(Ok{});
}

Result<std::int64_t> Repairer::find(Sql sql) {
  Statement query = WARREN_TRY(database_.prepare(sql));
  std::optional<std::int64_t> found = WARREN_TRY(query.find_integer());
  return found.value_or(0);
}

Status Repairer::repair(const FsckReport& before) {
  auto has = [&](std::string_view rule) {
    return std::ranges::any_of(before.violations, [&](const Violation& v) { return v.rule == rule && v.repairable; });
  };
  if (has("WR-1")) WARREN_TRY(database_.execute("REINDEX"));
  if (has("WR-50") || has("WR-51") || has("WR-52") || has("WR-53")) WARREN_TRY(repair_history());
  if (has("WR-55")) WARREN_TRY(run("DELETE FROM wr_mounted"));  // the next checkpoint copies everything again
  if (has("WR-85")) {
    WARREN_TRY(make_cipher_tables(database_));
    ++repaired_;
  }
  if (has("FS-19")) WARREN_TRY(repair_config());
  WARREN_TRY(repair_root());
  WARREN_TRY(repair_entries());
  WARREN_TRY(remove_leftovers());
  WARREN_TRY(repair_namespace_root());
  WARREN_TRY(repair_chunks());
  WARREN_TRY(attach_lost());
  WARREN_TRY(repair_links());
  WARREN_TRY(remove_stale_whiteouts());
  return notify_readers(has("WR-5"));
}

Status Repairer::repair_config() {
  return run(
      "CREATE TABLE IF NOT EXISTS fs_config (key TEXT PRIMARY KEY, value TEXT NOT NULL);"
      "INSERT OR IGNORE INTO fs_config (key, value) VALUES ('chunk_size', '4096');");
}

// If inode 1 is not a directory, gives it another number, in every table.
Status Repairer::move_away_from_root() {
  std::int64_t highest = WARREN_TRY(find("SELECT max(ino) FROM fs_inode"));
  std::int64_t given = WARREN_TRY(find("SELECT seq FROM sqlite_sequence WHERE name = 'fs_inode'"));
  std::int64_t number = std::max(highest, given) + 1;  // never one that was used before
  auto move = [&](std::string_view table, Sql sql) -> Status {
    if (!tables_.has(table)) return Ok{};
    Statement statement = WARREN_TRY(database_.prepare(sql));
    return statement.bind(1, number).run();
  };
  WARREN_TRY(move("fs_inode", "UPDATE fs_inode SET ino = ? WHERE ino = 1"));
  WARREN_TRY(move("fs_dentry", "UPDATE fs_dentry SET ino = ? WHERE ino = 1"));
  WARREN_TRY(move("fs_data", "UPDATE fs_data SET ino = ? WHERE ino = 1"));
  WARREN_TRY(move("fs_symlink", "UPDATE fs_symlink SET ino = ? WHERE ino = 1"));
  WARREN_TRY(move("wr_expiry", "UPDATE wr_expiry SET ino = ? WHERE ino = 1"));
  WARREN_TRY(move("wr_xattr", "UPDATE wr_xattr SET ino = ? WHERE ino = 1"));
  return move("wr_orphan", "UPDATE wr_orphan SET ino = ? WHERE ino = 1");
}

Status Repairer::repair_root() {
  if (WARREN_TRY(find("SELECT 1 FROM fs_inode WHERE ino = 1 AND (mode & 61440) <> 16384")) != 0) {
    WARREN_TRY(move_away_from_root());
  }
  Statement root = WARREN_TRY(database_.prepare(
      "INSERT OR IGNORE INTO fs_inode (ino, mode, atime, mtime, ctime) VALUES (1, 16877, ?1, ?1, ?1)"));
  WARREN_TRY(root.bind(1, now_.seconds).run());
  if (database_.changes() == 0) return Ok{};
  ++repaired_;
  if (!tables_.has("fs_inode.nlink")) return Ok{};
  return database_.execute("UPDATE fs_inode SET nlink = 1 WHERE ino = 1");
}

// Removes entries without a node, or in something that is not a directory. Their nodes have another name, or
// get one in lost+found.
Status Repairer::repair_entries() {
  WARREN_TRY(run(R"sql(
    DELETE FROM fs_dentry WHERE ino = 1;
    DELETE FROM fs_dentry WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = fs_dentry.ino);
    DELETE FROM fs_dentry WHERE NOT EXISTS
      (SELECT 1 FROM fs_inode p WHERE p.ino = fs_dentry.parent_ino AND (p.mode & 61440) = 16384);
    DELETE FROM fs_dentry WHERE typeof(name) <> 'text' OR name IN ('', '.', '..') OR instr(name, '/') > 0 OR
      octet_length(name) > 255 OR instr(CAST(name AS BLOB), x'00') > 0;
    DELETE FROM fs_dentry WHERE id IN (SELECT id FROM
      (SELECT id, row_number() OVER (PARTITION BY parent_ino, name ORDER BY id) AS nth FROM fs_dentry)
      WHERE nth > 1);
  )sql"));
  WARREN_TRY(gather_facts(database_, tables_));
  // Of a directory's names, keeps one that is reachable from the root, if there is one.
  return run(R"sql(
    DELETE FROM fs_dentry WHERE id IN (SELECT id FROM
      (SELECT d.id, row_number() OVER (PARTITION BY d.ino ORDER BY r.ino IS NULL, d.id) AS nth
       FROM fs_dentry d JOIN fsck_link l ON l.ino = d.ino JOIN fs_inode i ON i.ino = d.ino
       LEFT JOIN fsck_reached r ON r.ino = d.parent_ino
       WHERE l.names > 1 AND (i.mode & 61440) = 16384)
      WHERE nth > 1);
  )sql");
}

Status Repairer::remove_leftovers() {
  WARREN_TRY(run_if("fs_data",
                    "DELETE FROM fs_data WHERE NOT EXISTS"
                    " (SELECT 1 FROM fs_inode i WHERE i.ino = fs_data.ino AND (i.mode & 61440) = 32768)"));
  WARREN_TRY(run_if("fs_symlink",
                    "DELETE FROM fs_symlink WHERE NOT EXISTS (SELECT 1 FROM fs_inode i"
                    " WHERE i.ino = fs_symlink.ino AND (i.mode & 61440) = 40960)"));
  WARREN_TRY(run_if("wr_xattr",
                    "DELETE FROM wr_xattr WHERE NOT EXISTS"
                    " (SELECT 1 FROM fs_inode i WHERE i.ino = wr_xattr.ino)"));
  WARREN_TRY(
      run_if("wr_cipher_file",
             "DELETE FROM wr_cipher_file WHERE ino NOT IN (SELECT ino FROM fs_inode WHERE (mode & 61440) = 32768)"));
  WARREN_TRY(run_if("wr_cipher_chunk",
                    "DELETE FROM wr_cipher_chunk WHERE ino NOT IN"
                    " (SELECT ino FROM fs_inode WHERE (mode & 61440) = 32768)"));
  WARREN_TRY(run_if("wr_expiry",
                    "DELETE FROM wr_expiry WHERE typeof(expires_at_ms) <> 'integer' OR NOT EXISTS"
                    " (SELECT 1 FROM fs_inode i WHERE i.ino = wr_expiry.ino AND (i.mode & 61440) = 32768)"));
  WARREN_TRY(run_if("wr_item",
                    "DELETE FROM wr_item WHERE typeof(id) <> 'text' OR octet_length(id) <> 36 OR"
                    " id GLOB '*[^0-9a-f-]*' OR NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = wr_item.ino)"));
  WARREN_TRY(run_if("wr_orphan",
                    "DELETE FROM wr_orphan WHERE NOT EXISTS"
                    " (SELECT 1 FROM fs_inode i WHERE i.ino = wr_orphan.ino)"));
  WARREN_TRY(run_if("wr_orphan", "DELETE FROM wr_orphan WHERE ino IN (SELECT ino FROM fs_dentry)"));
  WARREN_TRY(run_if("fs_origin",
                    "DELETE FROM fs_origin WHERE NOT EXISTS"
                    " (SELECT 1 FROM fs_inode i WHERE i.ino = fs_origin.delta_ino)"));
  WARREN_TRY(run_if("wr_origin",
                    "DELETE FROM wr_origin WHERE NOT EXISTS"
                    " (SELECT 1 FROM fs_inode i WHERE i.ino = wr_origin.delta_ino)"));
  WARREN_TRY(run_if("wr_base_range",
                    "DELETE FROM wr_base_range WHERE NOT EXISTS"
                    " (SELECT 1 FROM fs_inode i WHERE i.ino = wr_base_range.delta_ino)"));
  WARREN_TRY(run_if("wr_ancestor",
                    "DELETE FROM wr_ancestor WHERE NOT EXISTS"
                    " (SELECT 1 FROM fs_inode i WHERE i.ino = wr_ancestor.delta_ino)"));
  if (tables_.has("kv_store")) {
    WARREN_TRY(run_if("wr_kv_expiry",
                      "DELETE FROM wr_kv_expiry WHERE key NOT IN (SELECT key FROM kv_store)"
                      " OR typeof(expires_at_ms) <> 'integer' OR typeof(set_at) <> 'integer'"));
  }
  if (tables_.has("tool_calls")) {
    WARREN_TRY(run_if("wr_tool_call", "DELETE FROM wr_tool_call WHERE id NOT IN (SELECT id FROM tool_calls)"));
  }
  WARREN_TRY(run_if("fs_inode.ctime_nsec", R"sql(
    UPDATE fs_inode SET atime_nsec = 0 WHERE typeof(atime_nsec) <> 'integer' OR atime_nsec NOT BETWEEN 0 AND 999999999;
    UPDATE fs_inode SET mtime_nsec = 0 WHERE typeof(mtime_nsec) <> 'integer' OR mtime_nsec NOT BETWEEN 0 AND 999999999;
    UPDATE fs_inode SET ctime_nsec = 0 WHERE typeof(ctime_nsec) <> 'integer' OR ctime_nsec NOT BETWEEN 0 AND 999999999;
  )sql"));
  // The path without its last component: rtrim removes first the name, then the slash before it.
  return run_if("fs_whiteout.parent_path", R"sql(
    WITH right(path, parent) AS (SELECT path, rtrim(rtrim(path, replace(path, '/', '')), '/') FROM fs_whiteout)
    UPDATE fs_whiteout SET parent_path = iif(right.parent = '', '/', right.parent) FROM right
    WHERE right.path = fs_whiteout.path AND fs_whiteout.path LIKE '/%' AND
      fs_whiteout.parent_path IS NOT iif(right.parent = '', '/', right.parent);
  )sql");
}

// A directory that is not the root any more gets a name in lost+found, like others.
Status Repairer::repair_namespace_root() {
  if (!tables_.has("wr_meta") || !tables_.has("wr_orphan")) return Ok{};
  return run(R"sql(
    DELETE FROM wr_meta WHERE key = 'namespace_ino' AND (typeof(value) <> 'integer' OR value = 1 OR
      value NOT IN (SELECT ino FROM fs_inode WHERE (mode & 61440) = 16384) OR value IN (SELECT ino FROM fs_dentry));
    INSERT OR REPLACE INTO wr_orphan (ino, boot, pid_namespace, pid, started)
      SELECT value, '', 0, 0, 0 FROM wr_meta WHERE key = 'namespace_ino' AND
        value NOT IN (SELECT ino FROM wr_orphan WHERE boot = '' AND pid = 0);
    DELETE FROM wr_orphan WHERE boot = '' AND pid = 0 AND
      ino IN (SELECT ino FROM fs_inode WHERE (mode & 61440) = 16384) AND
      ino NOT IN (SELECT value FROM wr_meta WHERE key = 'namespace_ino');
  )sql");
}

// Sizes are taken as correct; data that does not match them is cut, or padded with the zeros it reads as.
Status Repairer::repair_chunks() {
  if (!tables_.has("fs_data.chunk_index")) return Ok{};
  WARREN_TRY(gather_facts(database_, tables_));
  return run(R"sql(
    DELETE FROM fs_data WHERE chunk_index < 0 OR typeof(chunk_index) <> 'integer';
    DELETE FROM fs_data WHERE EXISTS (SELECT 1 FROM fs_inode i, fsck_fact f WHERE i.ino = fs_data.ino AND
      typeof(i.size) = 'integer' AND i.size >= 0 AND fs_data.chunk_index * f.chunk_bytes >= i.size);
    UPDATE fs_data SET data = substr(data, 1, i.size - fs_data.chunk_index * f.chunk_bytes)
      FROM fs_inode i, fsck_fact f WHERE i.ino = fs_data.ino AND typeof(i.size) = 'integer' AND i.size >= 0 AND
      typeof(data) = 'blob' AND fs_data.chunk_index * f.chunk_bytes + octet_length(data) > i.size;
    UPDATE fs_data SET data = CAST(data || zeroblob(f.chunk_bytes - octet_length(data)) AS BLOB)
      FROM fsck_fact f WHERE octet_length(data) < f.chunk_bytes AND typeof(data) = 'blob' AND
      EXISTS (SELECT 1 FROM fs_data n WHERE n.ino = fs_data.ino AND n.chunk_index > fs_data.chunk_index);
  )sql");
}

Result<std::int64_t> Repairer::make_lost_found(std::string_view name) {
  Statement node = WARREN_TRY(
      database_.prepare("INSERT INTO fs_inode (mode, atime, mtime, ctime) VALUES (16832, ?1, ?1, ?1)"));  // 0700
  WARREN_TRY(node.bind(1, now_.seconds).run());
  std::int64_t number = database_.last_insert_id();
  Statement entry = WARREN_TRY(database_.prepare("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES (?, 1, ?)"));
  WARREN_TRY(entry.bind(1, name).bind(2, number).run());
  if (tables_.has("fs_inode.nlink")) {
    Statement links = WARREN_TRY(database_.prepare("UPDATE fs_inode SET nlink = 1 WHERE ino = ?"));
    WARREN_TRY(links.bind(1, number).run());
  }
  return number;
}

// /lost+found, or the next free name like it if that is not a directory.
Result<std::int64_t> Repairer::lost_found() {
  Statement lookup = WARREN_TRY(
      database_.prepare("SELECT i.ino, (i.mode & 61440) = 16384 FROM fs_dentry d JOIN fs_inode i ON i.ino = d.ino"
                        " WHERE d.parent_ino = 1 AND d.name = ?"));
  for (int nth = 0; nth < 100; ++nth) {
    std::string name = nth == 0 ? "lost+found" : fmt::format("lost+found.{}", nth);
    Rows rows = lookup.bind(1, name).rows();
    if (!WARREN_TRY(rows.next())) return make_lost_found(name);
    if (rows.integer(1) != 0) return rows.integer(0);
  }
  return Error(Code::kLimit, "there are already a hundred files named lost+found");
}

// Once the entries are repaired every directory has at most one name, so moving one directory of a
// cycle breaks it.
Status Repairer::break_cycles(std::int64_t lost_found) {
  Statement first =
      WARREN_TRY(database_.prepare("SELECT min(i.ino) FROM fs_inode i WHERE (i.mode & 61440) = 16384 AND"
                                   " NOT EXISTS (SELECT 1 FROM fsck_reached r WHERE r.ino = i.ino)"));
  Statement parent = WARREN_TRY(database_.prepare("SELECT parent_ino FROM fs_dentry WHERE ino = ?"));
  Statement move = WARREN_TRY(database_.prepare(R"sql(
    UPDATE fs_dentry SET parent_ino = ?1, name = iif(
      EXISTS (SELECT 1 FROM fs_dentry d WHERE d.parent_ino = ?1 AND d.name = CAST(?2 AS TEXT)),
      ?2 || '.' || (SELECT max(id) + ?2 FROM fs_dentry), CAST(?2 AS TEXT)) WHERE ino = ?2)sql"));
  Statement add = WARREN_TRY(database_.prepare(R"sql(
    INSERT OR IGNORE INTO fsck_reached
      WITH RECURSIVE reached(ino) AS (
        SELECT ?
        UNION
        SELECT d.ino FROM reached r CROSS JOIN fs_dentry d ON d.parent_ino = r.ino
          CROSS JOIN fs_inode i ON i.ino = d.ino WHERE (i.mode & 61440) = 16384)
      SELECT ino FROM reached)sql"));
  Statement marked = WARREN_TRY(database_.prepare("INSERT OR IGNORE INTO temp.fsck_named VALUES (?)"));
  while (true) {
    std::int64_t node = WARREN_TRY(first.find_integer())
    .value_or(0);
    if (node == 0) return Ok{};
    // Go up until a directory is found a second time: that one is in the cycle itself.
    WARREN_TRY(database_.execute("DELETE FROM temp.fsck_named"));
    while (true) {
      WARREN_TRY(marked.bind(1, node).run());
      if (database_.changes() == 0) break;
      node = WARREN_TRY(parent.bind(1, node).find_integer())
      .value_or(0);
      if (node == 0) return Error(Code::kCorrupt, "a directory outside the tree has no parent");
    }
    WARREN_TRY(move.bind(1, lost_found).bind(2, node).run());
    WARREN_TRY(add.bind(1, node).run());
    ++repaired_;
  }
}

Status Repairer::attach_lost() {
  WARREN_TRY(gather_facts(database_, tables_));
  std::int64_t nameless =
      WARREN_TRY(find("SELECT count(*) FROM fs_inode i WHERE i.ino <> 1 AND"
                      " NOT EXISTS (SELECT 1 FROM fsck_link l WHERE l.ino = i.ino) AND"
                      " NOT EXISTS (SELECT 1 FROM fsck_orphan o WHERE o.ino = i.ino)"));
  std::int64_t in_cycles =
      WARREN_TRY(find("SELECT count(*) FROM fs_inode i WHERE (i.mode & 61440) = 16384 AND"
                      " NOT EXISTS (SELECT 1 FROM fsck_reached r WHERE r.ino = i.ino)"));
  if (nameless == 0 && in_cycles == 0) return Ok{};
  std::int64_t directory = WARREN_TRY(lost_found());
  WARREN_TRY(gather_facts(database_, tables_));  // it may be new
  if (nameless > 0) {
    // A name that is taken gets the entry's id as a suffix, which is unique.
    Statement attach = WARREN_TRY(database_.prepare(R"sql(
      INSERT INTO fs_dentry (name, parent_ino, ino)
        SELECT iif(EXISTS (SELECT 1 FROM fs_dentry d WHERE d.parent_ino = ?1 AND d.name = CAST(i.ino AS TEXT)),
                   i.ino || '.' || (SELECT max(id) + i.ino FROM fs_dentry), CAST(i.ino AS TEXT)), ?1, i.ino
        FROM fs_inode i WHERE i.ino <> 1 AND
          NOT EXISTS (SELECT 1 FROM fsck_link l WHERE l.ino = i.ino) AND
          NOT EXISTS (SELECT 1 FROM fsck_orphan o WHERE o.ino = i.ino))sql"));
    WARREN_TRY(attach.bind(1, directory).run());
    repaired_ += static_cast<std::size_t>(nameless);
  }
  return in_cycles > 0 ? break_cycles(directory) : Status(Ok{});
}

Status Repairer::repair_links() {
  if (!tables_.has("fs_inode.nlink")) return Ok{};
  WARREN_TRY(gather_facts(database_, tables_));
  return run(R"sql(
    UPDATE fs_inode SET nlink = coalesce((SELECT names FROM fsck_link l WHERE l.ino = fs_inode.ino), 0)
      WHERE (mode & 61440) <> 16384 AND
        nlink IS NOT coalesce((SELECT names FROM fsck_link l WHERE l.ino = fs_inode.ino), 0);
  )sql");
}

Status Repairer::repair_versions(JoinedSql (*statement)(const PastTable&)) {
  for (const PastTable& table : past_tables()) {
    if (!tables_.has(table.past.text())) continue;
    if (statement == erase_ownerless_versions && table.scope != PastScope::kNode) continue;
    std::int64_t before = database_.total_changes();
    WARREN_TRY(database_.execute(statement(table)));
    repaired_ += static_cast<std::size_t>(database_.total_changes() - before);
  }
  return Ok{};
}

// Checkpoints lose as little as possible. The next one compares everything.
Status Repairer::repair_history() {
  WARREN_TRY(repair_versions(erase_invalid_versions));
  WARREN_TRY(repair_versions(end_overlapping_versions));
  if (!tables_.has("wr_checkpoint") || !tables_.has("wr_meta")) return Ok{};
  // 2^60: beyond that, no further id could be given.
  WARREN_TRY(run(R"sql(
    DELETE FROM wr_checkpoint WHERE id < 1 OR id > 1152921504606846976;
    UPDATE wr_checkpoint SET name = 'repaired-' || id WHERE typeof(name) <> 'text' OR
      octet_length(name) NOT BETWEEN 1 AND 255 OR name IN ('.', '..') OR name NOT GLOB '*[^0-9]*' OR
      name GLOB '*[/@' || char(1) || '-' || char(31) || char(127) || ']*';
    INSERT INTO wr_meta (key, value) SELECT 'history_version', max(id) FROM wr_checkpoint HAVING max(id) > 0
      ON CONFLICT (key) DO UPDATE SET value = excluded.value
      WHERE typeof(value) <> 'integer' OR value < excluded.value OR value > 1152921504606846976;
    DELETE FROM wr_meta WHERE key IN ('history_seq', 'history_commit');
  )sql"));
  if (tables_.has("wr_past_dentry") && tables_.has("wr_past_inode")) {
    WARREN_TRY(repair_past_entries());
    WARREN_TRY(repair_versions(erase_ownerless_versions));
  }
  return repair_versions(erase_unneeded_versions);
}

// An entry holds only while its node and its directory do: one that does not is replaced by the parts that do.
Status Repairer::repair_past_entries() {
  WARREN_TRY(run(R"sql(
    DELETE FROM wr_checkpoint AS c WHERE NOT EXISTS (SELECT 1 FROM wr_past_inode i WHERE i.ino = 1 AND
      i.since <= c.id AND i.until > c.id AND (i.mode & 61440) = 16384);
    DELETE FROM wr_past_dentry WHERE typeof(name) <> 'text' OR name IN ('', '.', '..') OR instr(name, '/') > 0 OR
      octet_length(name) > 255 OR ino = 1;
  )sql"));
  WARREN_TRY(database_.execute(R"sql(
    CREATE TEMP TABLE fsck_part AS SELECT d.parent_ino, d.name, d.since AS whole, max(d.since, i.since, p.since) AS since,
      min(d.until, i.until, p.until) AS until, d.id, d.ino FROM wr_past_dentry d
      JOIN wr_past_inode i ON i.ino = d.ino AND i.since < d.until AND i.until > d.since
      JOIN wr_past_inode p ON p.ino = d.parent_ino AND p.since < d.until AND p.until > d.since AND
        (p.mode & 61440) = 16384
      WHERE max(d.since, i.since, p.since) < min(d.until, i.until, p.until);
    CREATE INDEX temp.fsck_part_of ON fsck_part(parent_ino, name, whole);
    CREATE TEMP TABLE fsck_broken AS SELECT d.parent_ino, d.name, d.since FROM wr_past_dentry d WHERE d.until - d.since <>
      (SELECT coalesce(sum(f.until - f.since), 0) FROM fsck_part f WHERE f.parent_ino = d.parent_ino AND f.name = d.name AND
        f.whole = d.since);
  )sql"));
  WARREN_TRY(run(R"sql(
    DELETE FROM wr_past_dentry WHERE (parent_ino, name, since) IN (SELECT parent_ino, name, since FROM fsck_broken);
  )sql"));
  return database_.execute(R"sql(
    INSERT INTO wr_past_dentry (parent_ino, name, since, until, id, ino) SELECT parent_ino, name, since, until, id, ino
      FROM fsck_part WHERE (parent_ino, name, whole) IN (SELECT parent_ino, name, since FROM fsck_broken);
    DROP TABLE temp.fsck_part;
    DROP TABLE temp.fsck_broken;
  )sql");
}

// A node of the agent hides the base anyway; its whiteout would hide the base even after the node is removed.
Status Repairer::remove_stale_whiteouts() {
  if (!tables_.has("fs_whiteout")) return Ok{};
  Statement query = WARREN_TRY(database_.prepare("SELECT rowid, path FROM fs_whiteout WHERE rowid > ? ORDER BY rowid"));
  Statement remove = WARREN_TRY(database_.prepare("DELETE FROM fs_whiteout WHERE rowid = ?"));
  Statement lookup = WARREN_TRY(database_.prepare("SELECT ino FROM fs_dentry WHERE parent_ino = ? AND name = ?"));
  std::int64_t done = 0;
  while (true) {
    std::string path;
    {
      Rows rows = query.bind(1, done).rows();
      if (!WARREN_TRY(rows.next())) return Ok{};
      done = rows.integer(0);
      path = rows.text(1);
    }
    if (path == "/" || !WARREN_TRY(leads_somewhere(lookup, path))) continue;
    WARREN_TRY(remove.bind(1, done).run());
    ++repaired_;
  }
}

// Readers of the journal read everything again, and the used space is counted again.
Status Repairer::notify_readers(bool journal_is_damaged) {
  if (tables_.has("wr_meta")) {
    WARREN_TRY(database_.execute("DELETE FROM wr_meta WHERE key IN ('used_bytes', 'used_inodes')"));
  }
  if (!tables_.has("wr_journal")) return Ok{};
  if (journal_is_damaged) WARREN_TRY(run("DELETE FROM wr_journal"));
  Statement row =
      WARREN_TRY(database_.prepare("INSERT INTO wr_journal (at_us, origin, changes) VALUES (?, 0, x'2a00')"));
  return row.bind(1, now_.seconds * 1'000'000 + now_.nanoseconds / 1000).run();
}

}  // namespace

Result<std::size_t> repair_tables(Database& database, const FsckReport& before, Timestamp now) {
  TableNames tables = WARREN_TRY(TableNames::read(database));
  Repairer repairer(database, std::move(tables), now);
  WARREN_TRY(repairer.repair(before));
  return repairer.repaired();
}

}  // namespace warren
