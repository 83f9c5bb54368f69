#include "store/history/past_tables.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

namespace warren {
namespace {

constexpr PastColumn kNodeKey[] = {{"ino", "INTEGER"}};
constexpr PastColumn kDeltaKey[] = {{"delta_ino", "INTEGER"}};
constexpr PastColumn kPathKey[] = {{"path", "TEXT"}};
constexpr PastColumn kInodeValues[] = {{"mode"},  {"nlink"}, {"uid"},  {"gid"},        {"size"},       {"atime"},
                                       {"mtime"}, {"ctime"}, {"rdev"}, {"atime_nsec"}, {"mtime_nsec"}, {"ctime_nsec"}};
constexpr PastColumn kDentryKey[] = {{"parent_ino", "INTEGER"}, {"name", "TEXT"}};
constexpr PastColumn kDentryValues[] = {{"id"}, {"ino"}};
constexpr PastColumn kDataKey[] = {{"ino", "INTEGER"}, {"chunk_index", "INTEGER"}};
constexpr PastColumn kDataValues[] = {{"data"}};
constexpr PastColumn kCipherFileValues[] = {{"key_id"}, {"file_id"}, {"size"}, {"mac"}};
constexpr PastColumn kCipherChunkValues[] = {{"nonce"}, {"tag"}};
constexpr PastColumn kSymlinkValues[] = {{"target"}};
constexpr PastColumn kXattrKey[] = {{"ino", "INTEGER"}, {"name", "TEXT"}};
constexpr PastColumn kXattrValues[] = {{"value"}};
constexpr PastColumn kExpiryValues[] = {{"expires_at_ms"}, {"parent_ino"}, {"name"}};
constexpr PastColumn kItemValues[] = {{"id"},     {"path"}, {"source"}, {"fetched_at"},
                                      {"sha256"}, {"mime"}, {"title"},  {"stamp"}};
constexpr PastColumn kOrphanValues[] = {{"boot"}, {"pid_namespace"}, {"pid"}, {"started"}};
constexpr PastColumn kKeyKey[] = {{"key", "TEXT"}};
constexpr PastColumn kPairValues[] = {{"value"}, {"created_at"}, {"updated_at"}};
constexpr PastColumn kPairExpiryValues[] = {{"expires_at_ms"}, {"set_at"}};
constexpr PastColumn kWhiteoutValues[] = {{"parent_path"}, {"created_at"}};
constexpr PastColumn kBaseInoValues[] = {{"base_ino"}};
constexpr PastColumn kOriginValues[] = {{"base_path"}, {"hidden_names"}, {"base_ino"}, {"mode"},      {"nlink"},
                                        {"uid"},       {"gid"},          {"size"},     {"mtime"},     {"mtime_nsec"},
                                        {"ctime"},     {"ctime_nsec"},   {"rdev"},     {"generation"}};
constexpr PastColumn kSeenValues[] = {{"base_ino"}, {"mode"},       {"nlink"}, {"uid"},        {"gid"},  {"size"},
                                      {"mtime"},    {"mtime_nsec"}, {"ctime"}, {"ctime_nsec"}, {"rdev"}, {"base_path"}};
constexpr PastColumn kLostKey[] = {{"base_path", "TEXT"}};
constexpr PastColumn kLostValues[] = {{"base_ino"}, {"at"}, {"at_nsec"}, {"generation"}};
constexpr PastColumn kRangeKey[] = {{"delta_ino", "INTEGER"}, {"first_byte", "INTEGER"}};
constexpr PastColumn kRangeValues[] = {{"end_byte"}};
constexpr PastColumn kAncestorValues[] = {{"content"}};
constexpr PastColumn kMountedKey[] = {{"mount", "TEXT"}, {"key", "TEXT"}};
// Not the token, which says what the store has now.
constexpr PastColumn kMountedValues[] = {{"hash"}, {"expires_at_ms"}, {"attributes"}, {"value", "", false}};

// A file that a process has open though its last name is gone is not part of the agent's state.
#define WARREN_NOT_ORPHAN(column) \
  "NOT EXISTS (SELECT 1 FROM main.wr_orphan o WHERE o.ino = t." column " AND o.boot <> '')"

constexpr PastTable kPastTables[] = {
    {"fs_inode", "wr_past_inode", kNodeKey, kInodeValues, PastScope::kNode, "ino", WARREN_NOT_ORPHAN("ino")},
    {"fs_dentry", "wr_past_dentry", kDentryKey, kDentryValues, PastScope::kName, ""},
    {"fs_data", "wr_past_data", kDataKey, kDataValues, PastScope::kNode, "ino", WARREN_NOT_ORPHAN("ino"), true},
    {"wr_cipher_file", "wr_past_cipher_file", kNodeKey, kCipherFileValues, PastScope::kNode, "ino",
     WARREN_NOT_ORPHAN("ino")},
    {"wr_cipher_chunk", "wr_past_cipher_chunk", kDataKey, kCipherChunkValues, PastScope::kNode, "ino",
     WARREN_NOT_ORPHAN("ino")},
    {"fs_symlink", "wr_past_symlink", kNodeKey, kSymlinkValues, PastScope::kNode, "ino", WARREN_NOT_ORPHAN("ino")},
    {"wr_xattr", "wr_past_xattr", kXattrKey, kXattrValues, PastScope::kNode, "ino", WARREN_NOT_ORPHAN("ino"), true},
    {"wr_expiry", "wr_past_expiry", kNodeKey, kExpiryValues, PastScope::kNode, "ino", WARREN_NOT_ORPHAN("ino")},
    {"wr_orphan", "wr_past_orphan", kNodeKey, kOrphanValues, PastScope::kNode, "ino", "t.boot = ''"},
    {"wr_item", "wr_past_item", kNodeKey, kItemValues, PastScope::kItem},
    {"kv_store", "wr_past_kv", kKeyKey, kPairValues, PastScope::kKey, "", "", true},
    {"wr_kv_expiry", "wr_past_kv_expiry", kKeyKey, kPairExpiryValues, PastScope::kKey, ""},
    {"fs_whiteout", "wr_past_whiteout", kPathKey, kWhiteoutValues, PastScope::kWhole, ""},
    {"fs_origin", "wr_past_base_ino", kDeltaKey, kBaseInoValues, PastScope::kNode, "delta_ino",
     WARREN_NOT_ORPHAN("delta_ino")},
    {"wr_origin", "wr_past_origin", kDeltaKey, kOriginValues, PastScope::kNode, "delta_ino",
     WARREN_NOT_ORPHAN("delta_ino")},
    {"wr_whiteout", "wr_past_seen", kPathKey, kSeenValues, PastScope::kWhole, ""},
    {"wr_lost_link", "wr_past_lost_link", kLostKey, kLostValues, PastScope::kWhole, ""},
    {"wr_base_range", "wr_past_base_range", kRangeKey, kRangeValues, PastScope::kNode, "delta_ino",
     WARREN_NOT_ORPHAN("delta_ino")},
    {"wr_ancestor", "wr_past_ancestor", kDeltaKey, kAncestorValues, PastScope::kNode, "delta_ino",
     WARREN_NOT_ORPHAN("delta_ino"), true},
    {"wr_mounted", "wr_past_mounted", kMountedKey, kMountedValues, PastScope::kMount, "", "", true},
};

#define WARREN_OPEN_END "9223372036854775807"

template <class... Parts>
JoinedSql join(const Parts&... parts) {
  JoinedSql all;
  ((all += JoinedSql(parts)), ...);
  return all;
}

std::vector<Sql> existing(Sql table, std::span<const PastColumn> columns, const TableNames& names) {
  std::vector<Sql> found;
  for (const PastColumn& column : columns) {
    if (names.has(fmt::format("{}.{}", table.text(), column.name.text()))) found.push_back(column.name);
  }
  return found;
}

}  // namespace

std::span<const PastTable> past_tables() { return kPastTables; }

Status make_past_tables(Database& database) {
  for (const PastTable& table : kPastTables) {
    JoinedSql make = join(Sql("CREATE TABLE IF NOT EXISTS "), table.past, Sql(" ("));
    JoinedSql key;
    for (const PastColumn& column : table.keys) {
      make += join(column.name, Sql(" "), column.type, Sql(" NOT NULL, "));
      key += join(column.name, Sql(", "));
    }
    make += Sql("since INTEGER NOT NULL, until INTEGER NOT NULL, ");
    for (const PastColumn& column : table.values) make += join(column.name, Sql(", "));
    make += join(Sql("PRIMARY KEY ("), key, Sql("since))"));
    if (!table.is_wide) make += Sql(" WITHOUT ROWID");
    WARREN_TRY(database.execute(make));
    WARREN_TRY(database.execute(
        join(Sql("CREATE INDEX IF NOT EXISTS idx_"), table.past, Sql("_since ON "), table.past, Sql("(since)"))));
    WARREN_TRY(database.execute(join(Sql("CREATE INDEX IF NOT EXISTS idx_"), table.past, Sql("_until ON "), table.past,
                                     Sql("(until) WHERE until < " WARREN_OPEN_END))));
  }
  // Of what is mounted, all open versions are compared with each checkpoint.
  WARREN_TRY(database.execute(
      "CREATE INDEX IF NOT EXISTS idx_wr_past_mounted_open ON wr_past_mounted(mount, key, hash, expires_at_ms, "
      "attributes) WHERE until = " WARREN_OPEN_END));
  // To find a node's names.
  return database.execute("CREATE INDEX IF NOT EXISTS idx_wr_past_dentry_ino ON wr_past_dentry(ino)");
}

#define WARREN_INVALID_VERSION \
  " WHERE typeof(since) <> 'integer' OR typeof(until) <> 'integer' OR since < 1 OR since >= until"

JoinedSql count_invalid_versions(const PastTable& table) {
  return join(Sql("SELECT count(*) FROM "), table.past, Sql(WARREN_INVALID_VERSION));
}

JoinedSql erase_invalid_versions(const PastTable& table) {
  return join(Sql("DELETE FROM "), table.past, Sql(WARREN_INVALID_VERSION));
}

namespace {

// "FROM wr_past_… n WHERE …": versions of the same row that begin while `p` holds.
JoinedSql overlapping(const PastTable& table) {
  JoinedSql same;
  for (const PastColumn& column : table.keys) {
    same += join(Sql("n."), column.name, Sql(" = p."), column.name, Sql(" AND "));
  }
  return join(Sql(" FROM "), table.past, Sql(" n WHERE "), same, Sql("n.since > p.since AND n.since < p.until"));
}

}  // namespace

JoinedSql count_overlapping_versions(const PastTable& table) {
  return join(Sql("SELECT count(*) FROM "), table.past, Sql(" p WHERE EXISTS (SELECT 1"), overlapping(table), Sql(")"));
}

JoinedSql end_overlapping_versions(const PastTable& table) {
  return join(Sql("UPDATE "), table.past, Sql(" AS p SET until = (SELECT min(n.since)"), overlapping(table),
              Sql(") WHERE EXISTS (SELECT 1"), overlapping(table), Sql(")"));
}

JoinedSql erase_unneeded_versions(const PastTable& table) {
  return join(Sql("DELETE FROM "), table.past,
              Sql(" AS p WHERE p.until < " WARREN_OPEN_END
                  " AND NOT EXISTS (SELECT 1 FROM wr_checkpoint c WHERE c.id >= p.since AND c.id < p.until)"));
}

JoinedSql erase_ownerless_versions(const PastTable& table) {
  return join(Sql("DELETE FROM "), table.past,
              Sql(" AS p WHERE NOT EXISTS (SELECT 1 FROM wr_past_inode i WHERE i.ino = p."), table.node,
              Sql(" AND i.since < p.until AND i.until > p.since)"));
}

PastSql::PastSql(const PastTable& table, const TableNames& names)
    : table_(table),
      keys_(existing(table.live, table.keys, names)),
      values_(existing(table.live, table.values, names)) {
  for (const PastColumn& column : table.values) {
    bool exists = std::ranges::any_of(values_, [&](Sql name) { return name.text() == column.name.text(); });
    if (exists && column.is_compared) compared_.push_back(column.name);
  }
  has_past_ = names.has(table.past.text());
}

// "p.ino, p.mode, …"
JoinedSql PastSql::list(Sql prefix, bool with_values) const {
  JoinedSql all;
  bool is_first = true;
  auto add = [&](Sql name) {
    if (!is_first) all += Sql(", ");
    is_first = false;
    all += join(prefix, name);
  };
  for (Sql name : keys_) add(name);
  if (!with_values) return all;
  for (Sql name : values_) add(name);
  return all;
}

JoinedSql PastSql::matches() const {
  JoinedSql all;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    all += join(i == 0 ? Sql("p.") : Sql(" AND p."), keys_[i], Sql(" = t."), keys_[i]);
  }
  return all;
}

JoinedSql PastSql::scope(Sql prefix, Rows rows) const {
  bool is_whole = table_.scope == PastScope::kWhole || table_.scope == PastScope::kMount;
  if (rows == Rows::kAll || is_whole) return Sql("1");
  if (table_.scope == PastScope::kKey) return join(prefix, Sql("key = ?2"));
  if (table_.scope == PastScope::kName) return join(prefix, Sql("parent_ino = ?2 AND "), prefix, Sql("name = ?3"));
  return join(prefix, table_.node, Sql(" IN (SELECT value FROM json_each(?2))"));
}

JoinedSql PastSql::end_changed(Rows rows) const {
  JoinedSql same = matches();
  for (Sql name : compared_) same += join(Sql(" AND p."), name, Sql(" IS t."), name);
  if (!table_.filter.text().empty()) same += join(Sql(" AND "), table_.filter);
  return join(Sql("UPDATE "), table_.past, Sql(" AS p SET until = ?1 WHERE p.until = " WARREN_OPEN_END " AND "),
              scope("p.", rows), Sql(" AND NOT EXISTS (SELECT 1 FROM "), table_.live, Sql(" t WHERE "), same, Sql(")"));
}

JoinedSql PastSql::add_new(Rows rows) const {
  JoinedSql filter;
  if (!table_.filter.text().empty()) filter = join(Sql(" AND "), table_.filter);
  return join(Sql("INSERT INTO "), table_.past, Sql(" ("), list("", true), Sql(", since, until) SELECT "),
              list("t.", true), Sql(", ?1, " WARREN_OPEN_END " FROM "), table_.live, Sql(" t WHERE "),
              scope("t.", rows), filter, Sql(" AND NOT EXISTS (SELECT 1 FROM "), table_.past, Sql(" p WHERE "),
              matches(), Sql(" AND p.until = " WARREN_OPEN_END ")"));
}

JoinedSql PastSql::erase_newer(bool has_kept) const {
  JoinedSql kept;
  if (has_kept && table_.scope == PastScope::kNode) {
    kept = join(Sql(" AND "), table_.node, Sql(" NOT IN (SELECT value FROM json_each(?2))"));
  }
  return join(Sql("DELETE FROM "), table_.live, Sql(" WHERE ("), list("", false), Sql(") IN (SELECT "), list("", false),
              Sql(" FROM "), table_.past, Sql(" WHERE since > ?1 AND until = " WARREN_OPEN_END ")"), kept);
}

JoinedSql PastSql::insert_older() const {
  return join(Sql("INSERT INTO "), table_.live, Sql(" ("), list("", true), Sql(") SELECT "), list("", true),
              Sql(" FROM "), table_.past, Sql(" WHERE since <= ?1 AND until > ?1 AND until < " WARREN_OPEN_END));
}

JoinedSql PastSql::end_newer() const {
  return join(Sql("UPDATE "), table_.past, Sql(" SET until = ?2 WHERE since > ?1 AND until = " WARREN_OPEN_END));
}

JoinedSql PastSql::add_older() const {
  return join(Sql("INSERT INTO "), table_.past, Sql(" ("), list("", true), Sql(", since, until) SELECT "),
              list("", true), Sql(", ?2, " WARREN_OPEN_END " FROM "), table_.past,
              Sql(" WHERE since <= ?1 AND until > ?1 AND until < " WARREN_OPEN_END));
}

JoinedSql PastSql::list_changed_since() const {
  return join(Sql("SELECT "), list("", false), Sql(" FROM "), table_.past,
              Sql(" WHERE since > ?1 AND until = " WARREN_OPEN_END " UNION SELECT "), list("", false), Sql(" FROM "),
              table_.past, Sql(" WHERE since <= ?1 AND until > ?1 AND until < " WARREN_OPEN_END));
}

JoinedSql PastSql::list_changed_between() const {
  return join(Sql("SELECT "), list("", false), Sql(" FROM "), table_.past,
              Sql(" WHERE since > ?1 AND since <= ?2 AND until > ?2 UNION SELECT "), list("", false), Sql(" FROM "),
              table_.past, Sql(" WHERE since <= ?1 AND until > ?1 AND until <= ?2 AND until < " WARREN_OPEN_END));
}

JoinedSql PastSql::make_view(std::int64_t checkpoint) const {
  if (!has_past_)
    return join(Sql("CREATE TEMP VIEW "), table_.live, Sql(" AS SELECT * FROM main."), table_.live, Sql(" WHERE 0"));
  JoinedSql view = join(Sql("CREATE TEMP VIEW "), table_.live, Sql(" AS SELECT "), list("", true), Sql(" FROM main."),
                        table_.past, Sql(" WHERE since <= "));
  view += checkpoint;
  view += Sql(" AND until > ");
  view += checkpoint;
  return view;
}

}  // namespace warren
