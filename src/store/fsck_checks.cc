#include "store/fsck_checks.h"

#include <charconv>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "store/journal.h"
#include "store/schema.h"

namespace warren {
namespace {

// Collects violations, so that a file with a million of one kind still gives a short report.
class Findings {
 public:
  void add(std::string_view rule, std::string message, bool repairable) {
    Kept& kept = by_rule_[std::string(rule)];
    ++kept.count;
    kept.repairable = repairable;
    if (kept.count <= limits::kFsckPerRule) all_.push_back({std::string(rule), std::move(message), repairable});
  }

  std::vector<Violation> take() {
    for (const auto& [rule, kept] : by_rule_) {
      if (kept.count <= limits::kFsckPerRule) continue;
      all_.push_back({rule, fmt::format("and {} more", kept.count - limits::kFsckPerRule), kept.repairable});
    }
    return std::move(all_);
  }

 private:
  struct Kept {
    std::size_t count = 0;
    bool repairable = false;
  };
  std::map<std::string, Kept> by_rule_;
  std::vector<Violation> all_;
};

enum class Repair { kNo, kYes };

// One rule as a query: every row is a violation, and fills the `{}` of the message in order.
struct Check {
  std::string_view rule;
  std::string_view needs;  // tables and columns, blank-separated; "!x" means: only without x
  Repair repair;
  std::string_view message;
  Sql query;
};

// 61440 is S_IFMT, 16384 S_IFDIR, 32768 S_IFREG, 40960 S_IFLNK.
constexpr Check kTreeChecks[] = {
    {"FS-1", "", Repair::kYes, "there is no root directory (inode 1)",
     "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM fs_inode WHERE ino = 1)"},
    {"FS-2", "", Repair::kYes, "the root (inode 1) is not a directory: mode {}",
     "SELECT mode FROM fs_inode WHERE ino = 1 AND (mode & 61440) <> 16384"},
    {"FS-2", "", Repair::kYes, "the root has a name: entry {} in directory {}",
     "SELECT name, parent_ino FROM fs_dentry WHERE ino = 1"},
    {"FS-3", "", Repair::kYes, "entry {} in directory {} leads to inode {}, which does not exist",
     "SELECT name, parent_ino, ino FROM fs_dentry d WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = d.ino)"
     " AND d.ino <> 1"},
    {"FS-4", "", Repair::kYes, "entry {} of inode {} is in directory {}, which does not exist",
     "SELECT name, ino, parent_ino FROM fs_dentry d WHERE d.parent_ino <> 1 AND"
     " NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = d.parent_ino)"},
    {"FS-5", "", Repair::kYes, "entry {} is in inode {}, which is not a directory",
     "SELECT d.name, d.parent_ino FROM fs_dentry d JOIN fs_inode p ON p.ino = d.parent_ino"
     " WHERE (p.mode & 61440) <> 16384 AND p.ino <> 1"},
    {"FS-6", "", Repair::kYes, "the name {} stands {} times in directory {}",
     "SELECT name, count(*), parent_ino FROM fs_dentry GROUP BY parent_ino, name HAVING count(*) > 1"},
    {"FS-7", "", Repair::kNo, "inode {} has mode {}, which is no type of file",
     "SELECT ino, mode FROM fs_inode WHERE typeof(mode) <> 'integer' OR (mode & ~65535) <> 0 OR"
     " ((mode & 61440) NOT IN (4096, 8192, 16384, 24576, 32768, 40960, 49152) AND ino <> 1)"},
    {"FS-11", "", Repair::kYes, "inode {} has no name",
     "SELECT i.ino FROM fs_inode i WHERE i.ino <> 1 AND"
     " NOT EXISTS (SELECT 1 FROM fsck_link l WHERE l.ino = i.ino) AND"
     " NOT EXISTS (SELECT 1 FROM fsck_orphan o WHERE o.ino = i.ino)"},
    {"FS-12", "fs_inode.nlink", Repair::kYes, "inode {} says {} links, but has {} names",
     "SELECT i.ino, i.nlink, l.names FROM fs_inode i JOIN fsck_link l ON l.ino = i.ino"
     " WHERE (i.mode & 61440) <> 16384 AND i.nlink <> l.names AND i.ino <> 1"},
    {"FS-16", "", Repair::kYes, "entry {} in directory {} is no valid name",
     "SELECT name, parent_ino FROM fs_dentry WHERE typeof(name) <> 'text' OR name IN ('', '.', '..') OR"
     " instr(name, '/') > 0 OR octet_length(name) > 255 OR instr(CAST(name AS BLOB), x'00') > 0"},
    {"FS-17", "", Repair::kYes, "directory {} cannot be reached from the root",
     "SELECT i.ino FROM fs_inode i WHERE (i.mode & 61440) = 16384 AND"
     " NOT EXISTS (SELECT 1 FROM fsck_reached r WHERE r.ino = i.ino)"},
    {"FS-18", "", Repair::kYes, "directory {} has {} names",
     "SELECT i.ino, l.names FROM fs_inode i JOIN fsck_link l ON l.ino = i.ino"
     " WHERE (i.mode & 61440) = 16384 AND l.names > 1 AND i.ino <> 1"},
};

constexpr Check kNodeChecks[] = {
    {"FS-8", "fs_data", Repair::kYes, "inode {} is no regular file, but has {} chunks of data",
     "SELECT i.ino, count(*) FROM fs_inode i JOIN fs_data c ON c.ino = i.ino"
     " WHERE (i.mode & 61440) <> 32768 GROUP BY i.ino"},
    {"FS-9", "fs_data.chunk_index", Repair::kNo, "chunk {1} of inode {0} holds {2} bytes, more than a chunk can",
     "SELECT ino, chunk_index, octet_length(data) FROM fs_data"
     " WHERE octet_length(data) > (SELECT chunk_bytes FROM fsck_fact)"},
    {"FS-9", "fs_data.chunk_index", Repair::kYes, "chunk {1} of inode {0} holds {2} bytes, and is not the last one",
     "SELECT ino, chunk_index, octet_length(data) FROM fs_data c"
     " WHERE octet_length(data) < (SELECT chunk_bytes FROM fsck_fact) AND"
     " EXISTS (SELECT 1 FROM fs_data n WHERE n.ino = c.ino AND n.chunk_index > c.chunk_index)"},
    {"FS-9", "fs_data", Repair::kNo, "chunk {1} of inode {0} is stored as {2}, not as bytes",
     "SELECT ino, chunk_index, typeof(data) FROM fs_data WHERE typeof(data) <> 'blob'"},
    {"FS-10", "fs_data.chunk_index", Repair::kYes, "inode {} has a chunk with the index {}",
     "SELECT ino, chunk_index FROM fs_data WHERE chunk_index < 0 OR typeof(chunk_index) <> 'integer'"},
    {"FS-10", "fs_data.chunk_index", Repair::kYes, "chunk {1} of inode {0} reaches beyond its size of {2}",
     "SELECT c.ino, c.chunk_index, i.size FROM fs_data c JOIN fs_inode i ON i.ino = c.ino"
     " WHERE (i.mode & 61440) = 32768 AND c.chunk_index >= 0 AND"
     " c.chunk_index * (SELECT chunk_bytes FROM fsck_fact) + octet_length(c.data) > i.size"
     " AND octet_length(c.data) <= (SELECT chunk_bytes FROM fsck_fact)"},
    {"FS-13", "fs_symlink", Repair::kNo, "symbolic link {} has no target",
     "SELECT i.ino FROM fs_inode i WHERE (i.mode & 61440) = 40960 AND"
     " NOT EXISTS (SELECT 1 FROM fs_symlink s WHERE s.ino = i.ino)"},
    {"FS-13", "fs_symlink", Repair::kYes, "inode {} is no symbolic link, but has the target {}",
     "SELECT i.ino, s.target FROM fs_symlink s JOIN fs_inode i ON i.ino = s.ino WHERE (i.mode & 61440) <> 40960"},
    {"FS-14", "fs_data", Repair::kYes, "{1} chunks of data belong to inode {0}, which does not exist",
     "SELECT ino, count(*) FROM fs_data c WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = c.ino)"
     " GROUP BY ino"},
    {"FS-14", "fs_symlink", Repair::kYes, "the link target {1} belongs to inode {0}, which does not exist",
     "SELECT ino, target FROM fs_symlink s WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = s.ino)"},
    {"FS-15", "fs_inode.ctime_nsec", Repair::kYes, "inode {} has nanoseconds out of range: {}, {}, {}",
     "SELECT ino, atime_nsec, mtime_nsec, ctime_nsec FROM fs_inode WHERE"
     " typeof(atime_nsec) <> 'integer' OR atime_nsec NOT BETWEEN 0 AND 999999999 OR"
     " typeof(mtime_nsec) <> 'integer' OR mtime_nsec NOT BETWEEN 0 AND 999999999 OR"
     " typeof(ctime_nsec) <> 'integer' OR ctime_nsec NOT BETWEEN 0 AND 999999999"},
    {"FS-21", "", Repair::kNo, "inode {} has times that are no Unix seconds: {}, {}, {}",
     "SELECT ino, atime, mtime, ctime FROM fs_inode WHERE typeof(atime) <> 'integer' OR"
     " typeof(mtime) <> 'integer' OR typeof(ctime) <> 'integer'"},
    {"FS-21", "", Repair::kNo, "inode {} has the size {}, which is none",
     "SELECT ino, size FROM fs_inode WHERE typeof(size) <> 'integer' OR size < 0"},
    {"FS-21", "", Repair::kNo, "inode {} has the owner {}:{}, which is none",
     "SELECT ino, uid, gid FROM fs_inode WHERE typeof(uid) <> 'integer' OR typeof(gid) <> 'integer' OR"
     " uid NOT BETWEEN 0 AND 4294967295 OR gid NOT BETWEEN 0 AND 4294967295"},
};

constexpr Check kTrailChecks[] = {
    {"KV-1", "kv_store", Repair::kNo, "the key {} is there {} times",
     "SELECT key, count(*) FROM kv_store GROUP BY key HAVING count(*) > 1"},
    {"KV-3", "kv_store", Repair::kNo, "the key {} has times that are no Unix seconds: {}, {}",
     "SELECT key, created_at, updated_at FROM kv_store WHERE typeof(created_at) <> 'integer' OR"
     " typeof(updated_at) <> 'integer' OR created_at NOT BETWEEN -99999999999 AND 99999999999 OR"
     " updated_at NOT BETWEEN -99999999999 AND 99999999999"},
    // NULL and '' both mean absent; a success without a result is fine.
    {"TC-1", "tool_calls.status", Repair::kNo, "tool call {} ({}, {}) does not have exactly one of result and error",
     "SELECT id, name, status FROM tool_calls WHERE (result <> '' AND error <> '') OR"
     " (status = 'success' AND error <> '') OR (status = 'error' AND result <> '')"},
    {"TC-1", "tool_calls !tool_calls.status", Repair::kNo, "tool call {} ({}) has both a result and an error",
     "SELECT id, name FROM tool_calls WHERE result <> '' AND error <> ''"},
    {"TC-2", "tool_calls.status", Repair::kNo, "tool call {} ({}) is finished, but not when",
     "SELECT id, name FROM tool_calls WHERE status <> 'pending' AND typeof(completed_at) NOT IN ('integer', 'real')"},
    {"TC-2", "tool_calls !tool_calls.status", Repair::kNo, "tool call {} ({}) is finished, but not when",
     "SELECT id, name FROM tool_calls WHERE typeof(completed_at) NOT IN ('integer', 'real')"},
    {"TC-3", "tool_calls", Repair::kNo, "tool call {} ({}) has the duration {} ms, from {} to {}",
     "SELECT id, name, duration_ms, started_at, completed_at FROM tool_calls"
     " WHERE typeof(completed_at) IN ('integer', 'real') AND"
     " (duration_ms IS NULL OR abs(duration_ms - (completed_at - started_at) * 1000) >= 1)"},
    {"TC-6", "tool_calls.status", Repair::kNo, "tool call {} ({}) has the status {}, which is none",
     "SELECT id, name, status FROM tool_calls WHERE status NOT IN ('pending', 'success', 'error')"},
    {"TC-6", "tool_calls.status", Repair::kNo, "tool call {} ({}) is pending, but has an outcome",
     "SELECT id, name FROM tool_calls WHERE status = 'pending' AND"
     " (result <> '' OR error <> '' OR completed_at IS NOT NULL OR duration_ms IS NOT NULL)"},
    {"OV-3", "fs_origin", Repair::kYes, "fs_origin has an origin for inode {}, which does not exist",
     "SELECT delta_ino FROM fs_origin o WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = o.delta_ino)"},
    {"OV-4", "fs_overlay_config", Repair::kNo, "fs_overlay_config does not say where the base is",
     "SELECT 1 WHERE NOT EXISTS"
     " (SELECT 1 FROM fs_overlay_config WHERE key = 'base_path' AND substr(value, 1, 1) = '/')"},
};

constexpr Check kOwnChecks[] = {
    {"WR-3", "", Repair::kNo, "the file holds a {} ({}); AgentFS programs cannot open it",
     "SELECT iif(type = 'trigger', 'trigger', 'virtual table'), name FROM sqlite_schema"
     " WHERE type = 'trigger' OR (type = 'table' AND sql LIKE 'CREATE VIRTUAL%')"},
    {"WR-4", "wr_meta", Repair::kNo, "wr_meta does not say the format",
     "SELECT 1 WHERE NOT EXISTS"
     " (SELECT 1 FROM wr_meta WHERE key = 'format' AND typeof(value) = 'integer' AND value >= 1)"},
    {"WR-6", "wr_xattr", Repair::kYes, "the attribute {1} belongs to inode {0}, which does not exist",
     "SELECT ino, name FROM wr_xattr x WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = x.ino)"},
    {"WR-6", "wr_xattr", Repair::kNo, "inode {} has an attribute with the name {}, which is none",
     "SELECT ino, name FROM wr_xattr WHERE octet_length(name) NOT BETWEEN 1 AND 255"},
    {"WR-7", "wr_orphan", Repair::kYes, "wr_orphan lists inode {}, which does not exist",
     "SELECT ino FROM wr_orphan o WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = o.ino)"},
    {"WR-7", "wr_orphan", Repair::kYes, "wr_orphan lists inode {}, which has a name",
     "SELECT o.ino FROM wr_orphan o JOIN fsck_link l ON l.ino = o.ino"},
    {"WR-7", "wr_orphan fs_inode.nlink", Repair::kYes, "wr_orphan lists inode {}, which says {} links",
     "SELECT o.ino, i.nlink FROM wr_orphan o JOIN fs_inode i ON i.ino = o.ino WHERE i.nlink <> 0 AND"
     " (i.mode & 61440) <> 16384 AND NOT EXISTS (SELECT 1 FROM fsck_link l WHERE l.ino = o.ino)"},
    {"WR-8", "wr_kv_expiry kv_store", Repair::kYes, "wr_kv_expiry has a time for the key {}, which does not exist",
     "SELECT key FROM wr_kv_expiry e WHERE NOT EXISTS (SELECT 1 FROM kv_store k WHERE k.key = e.key)"},
    {"WR-9", "wr_tool_call tool_calls", Repair::kYes, "wr_tool_call has details of the tool call {}, which does not exist",
     "SELECT id FROM wr_tool_call w WHERE NOT EXISTS (SELECT 1 FROM tool_calls t WHERE t.id = w.id)"},
    {"WR-10", "wr_meta", Repair::kNo, "wr_meta has {} for {}, which is no amount",
     "SELECT value, key FROM wr_meta WHERE key IN ('quota_bytes', 'quota_inodes')"
     " AND (typeof(value) <> 'integer' OR value < 0)"},
    {"WR-10", "wr_meta", Repair::kYes, "wr_meta has {} for {}, which is no amount",
     "SELECT value, key FROM wr_meta WHERE key IN ('used_bytes', 'used_inodes')"
     " AND (typeof(value) <> 'integer' OR value < 0)"},
};

bool applies(const Check& check, const TableNames& tables) {
  std::string_view needs = check.needs;
  while (!needs.empty()) {
    std::size_t blank = std::min(needs.find(' '), needs.size());
    std::string_view need = needs.substr(0, blank);
    needs.remove_prefix(std::min(blank + 1, needs.size()));
    bool wanted = !need.starts_with('!');
    if (tables.has(wanted ? need : need.substr(1)) != wanted) return false;
  }
  return true;
}

std::string show(const Rows& row, int column) {
  switch (row.type(column)) {
    case ColumnType::kNull: return "NULL";
    case ColumnType::kText: return quote(row.text(column));
    case ColumnType::kBlob: return quote(as_text(row.blob(column)));
    default: return std::string(row.text(column));
  }
}

// Fills `{}` with the columns in order, and `{1}` with the second one.
std::string fill(std::string_view message, const Rows& row) {
  std::string text;
  int next = 0;
  while (!message.empty()) {
    std::size_t open = message.find('{');
    if (open == message.npos) break;
    std::size_t close = message.find('}', open);
    text += message.substr(0, open);
    int column = close == open + 1 ? next++ : message[open + 1] - '0';
    text += show(row, column);
    message.remove_prefix(close + 1);
  }
  return text += message;
}

Status run(Database& database, const Check& check, Findings& findings) {
  Statement query = WARREN_TRY(database.prepare(check.query));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    findings.add(check.rule, fill(check.message, rows), check.repair == Repair::kYes);
  }
  return Ok{};
}

// A damaged page stops the query that meets it, not the whole check.
Status tolerate(Status status, std::string_view what, Findings& findings) {
  if (status.ok()) return status;
  if (status.error().code() != Code::kCorrupt) return status;
  findings.add("WR-1", fmt::format("{}: {}", what, status.error().message()), false);
  return Ok{};
}

Status run_all(Database& database, const TableNames& tables, std::span<const Check> checks, Findings& findings) {
  for (const Check& check : checks) {
    if (!applies(check, tables)) continue;
    WARREN_TRY(tolerate(run(database, check, findings), fmt::format("{} could not be checked", check.rule), findings));
  }
  return Ok{};
}

// What REINDEX puts right.
bool is_about_an_index(std::string_view message) {
  return message.find("missing from index") != message.npos || message.find("entries in index") != message.npos;
}

Status check_sqlite(Database& database, Findings& findings) {
  Statement integrity = WARREN_TRY(database.prepare("PRAGMA integrity_check(20)"));
  Rows rows = integrity.rows();
  while (WARREN_TRY(rows.next())) {
    std::string_view line = rows.text(0);
    if (line != "ok") findings.add("WR-1", std::string(line), is_about_an_index(line));
  }
  return Ok{};
}

Status check_encoding(Database& database, Findings& findings) {
  Statement encoding = WARREN_TRY(database.prepare("PRAGMA encoding"));
  Rows name = encoding.rows();
  if (WARREN_TRY(name.next()) && name.text(0) != "UTF-8") {
    findings.add("WR-2", fmt::format("text is stored as {}, not as UTF-8", name.text(0)), false);
  }
  return Ok{};
}

std::optional<std::uint32_t> parse_chunk_bytes(std::string_view text) {
  std::uint32_t bytes = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (failed != std::errc() || end != text.data() + text.size() || bytes == 0 || bytes > (1U << 30)) return {};
  return bytes;
}

Result<std::optional<std::string>> find_config(Database& database, std::string_view key) {
  Statement query = WARREN_TRY(database.prepare("SELECT value FROM fs_config WHERE key = ?"));
  Rows rows = query.bind(1, key).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(rows.text(0)));
}

Status check_config(Database& database, const TableNames& tables, Findings& findings) {
  std::optional<std::string> size;
  if (tables.has("fs_config")) size = WARREN_TRY(find_config(database, "chunk_size"));
  if (!size) {
    findings.add("FS-19", "fs_config does not say the chunk_size; it is taken to be 4096", true);
  } else if (!parse_chunk_bytes(*size)) {
    findings.add("FS-19", fmt::format("fs_config says chunk_size {}, which is no size", quote(*size)), false);
  }
  std::optional<std::string> said;
  if (tables.has("fs_config")) said = WARREN_TRY(find_config(database, "schema_version"));
  std::string_view is = !tables.has("fs_inode.nlink")                                         ? "0.0"
                        : tables.has("fs_inode.rdev") && tables.has("fs_inode.atime_nsec") &&
                                tables.has("fs_inode.mtime_nsec") && tables.has("fs_inode.ctime_nsec")
                            ? "0.4"
                            : "0.2";
  if (said && *said != is) {
    findings.add("FS-20", fmt::format("fs_config says schema_version {}, but the tables are {}", quote(*said), is),
                 false);
  }
  return Ok{};
}

Status check_values(Database& database, Findings& findings) {
  Statement query = WARREN_TRY(database.prepare("SELECT key, value FROM kv_store"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    if (rows.type(1) == ColumnType::kText && is_json(rows.text(1))) continue;
    findings.add("KV-2", fmt::format("the value of key {} is not JSON", show(rows, 0)), false);
  }
  return Ok{};
}

Status check_call_texts(Database& database, Findings& findings) {
  Statement query = WARREN_TRY(database.prepare("SELECT id, parameters, result FROM tool_calls"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    for (int column : {1, 2}) {
      if (rows.is_null(column) || rows.text(column).empty() || is_json(rows.text(column))) continue;
      findings.add("TC-4",
                   fmt::format("the {} of tool call {} is not JSON", rows.column_name(column), rows.integer(0)), false);
    }
  }
  return Ok{};
}

Status check_journal(Database& database, Findings& findings) {
  Statement query = WARREN_TRY(database.prepare("SELECT seq, changes FROM wr_journal"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    if (rows.type(1) == ColumnType::kBlob && decode_changes(rows.blob(1)).ok()) continue;
    findings.add("WR-5", fmt::format("row {} of wr_journal is not a list of changes", rows.integer(0)), true);
  }
  return Ok{};
}

Status check_whiteout_paths(Database& database, Findings& findings) {
  Statement query = WARREN_TRY(database.prepare("SELECT path FROM fs_whiteout"));
  Statement lookup = WARREN_TRY(database.prepare("SELECT ino FROM fs_dentry WHERE parent_ino = ? AND name = ?"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    std::string_view path = rows.text(0);
    Result<std::string> normal = normalise_path(path);
    if (!normal.ok() || *normal != path) {
      findings.add("OV-2", fmt::format("the whiteout {} is no normalised absolute path", show(rows, 0)), false);
    } else if (path != "/" && WARREN_TRY(leads_somewhere(lookup, path))) {
      findings.add("OV-6", fmt::format("{} is there, and has a whiteout", show(rows, 0)), true);
    }
  }
  return Ok{};
}

Status check_whiteout_parents(Database& database, Findings& findings) {
  Statement query = WARREN_TRY(database.prepare("SELECT path, parent_path FROM fs_whiteout"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    std::string_view path = rows.text(0);
    if (!path.starts_with('/')) continue;  // OV-2 says so already
    std::string_view parent = path == "/" ? path : split_parent(path).parent;
    if (rows.type(1) == ColumnType::kText && rows.text(1) == parent) continue;
    findings.add("OV-1", fmt::format("the whiteout {} says its parent is {}", show(rows, 0), show(rows, 1)), true);
  }
  return Ok{};
}

// The checks that need more than SQL can say.
Status check_by_row(Database& database, const TableNames& tables, Findings& findings) {
  if (tables.has("kv_store")) {
    WARREN_TRY(tolerate(check_values(database, findings), "KV-2 could not be checked", findings));
  }
  if (tables.has("tool_calls")) {
    WARREN_TRY(tolerate(check_call_texts(database, findings), "TC-4 could not be checked", findings));
  }
  if (tables.has("wr_journal")) {
    WARREN_TRY(tolerate(check_journal(database, findings), "WR-5 could not be checked", findings));
  }
  if (tables.has("fs_whiteout")) {
    WARREN_TRY(tolerate(check_whiteout_paths(database, findings), "OV-2 could not be checked", findings));
  }
  if (tables.has("fs_whiteout.parent_path")) {
    WARREN_TRY(tolerate(check_whiteout_parents(database, findings), "OV-1 could not be checked", findings));
  }
  return Ok{};
}

Result<std::uint64_t> count(Database& database, Sql query) {
  Statement statement = WARREN_TRY(database.prepare(query));
  std::optional<std::int64_t> rows = WARREN_TRY(statement.find_integer());
  return static_cast<std::uint64_t>(rows.value_or(0));
}

Status count_all(Database& database, const TableNames& tables, FsckReport& report) {
  report.inodes = WARREN_TRY(count(database, "SELECT count(*) FROM fs_inode"));
  report.entries = WARREN_TRY(count(database, "SELECT count(*) FROM fs_dentry"));
  if (tables.has("fs_data")) report.chunks = WARREN_TRY(count(database, "SELECT count(*) FROM fs_data"));
  if (tables.has("kv_store")) report.keys = WARREN_TRY(count(database, "SELECT count(*) FROM kv_store"));
  if (tables.has("tool_calls")) report.calls = WARREN_TRY(count(database, "SELECT count(*) FROM tool_calls"));
  return Ok{};
}

Status check_tables(Database& database, const TableNames& tables, Findings& findings, FsckReport& report) {
  WARREN_TRY(check_config(database, tables, findings));
  WARREN_TRY(gather_facts(database, tables));
  WARREN_TRY(run_all(database, tables, kTreeChecks, findings));
  WARREN_TRY(run_all(database, tables, kNodeChecks, findings));
  WARREN_TRY(run_all(database, tables, kTrailChecks, findings));
  WARREN_TRY(run_all(database, tables, kOwnChecks, findings));
  WARREN_TRY(check_by_row(database, tables, findings));
  return count_all(database, tables, report);
}

}  // namespace

Result<bool> leads_somewhere(Statement& lookup, std::string_view path) {
  std::int64_t node = 1;
  Result<std::vector<std::string_view>> names = split_path(path);
  if (!names.ok()) return false;
  for (std::string_view name : *names) {
    std::optional<std::int64_t> next = WARREN_TRY(lookup.bind(1, node).bind(2, name).find_integer());
    if (!next) return false;
    node = *next;
  }
  return true;
}

Status gather_facts(Database& database, const TableNames& tables) {
  WARREN_TRY(database.execute(R"sql(
    CREATE TEMP TABLE IF NOT EXISTS fsck_fact (chunk_bytes INTEGER);
    CREATE TEMP TABLE IF NOT EXISTS fsck_orphan (ino INTEGER PRIMARY KEY);
    CREATE TEMP TABLE IF NOT EXISTS fsck_link (ino INTEGER PRIMARY KEY, names INTEGER);
    CREATE TEMP TABLE IF NOT EXISTS fsck_named (ino INTEGER PRIMARY KEY);
    CREATE TEMP TABLE IF NOT EXISTS fsck_reached (ino INTEGER PRIMARY KEY);
    DELETE FROM temp.fsck_fact;
    DELETE FROM temp.fsck_orphan;
    DELETE FROM temp.fsck_link;
    DELETE FROM temp.fsck_named;
    DELETE FROM temp.fsck_reached;
  )sql"));
  std::optional<std::string> size;
  if (tables.has("fs_config")) size = WARREN_TRY(find_config(database, "chunk_size"));
  std::uint32_t bytes = size ? parse_chunk_bytes(*size).value_or(limits::kChunkBytesDefault) : limits::kChunkBytesDefault;
  Statement fact = WARREN_TRY(database.prepare("INSERT INTO temp.fsck_fact VALUES (?)"));
  WARREN_TRY(fact.bind(1, bytes).run());
  if (tables.has("wr_orphan")) {
    WARREN_TRY(database.execute("INSERT INTO temp.fsck_orphan SELECT ino FROM wr_orphan"));
  }
  // A circle is what cannot be reached from the root, nor from a directory that lost its place for
  // another reason (no name, or a parent that is none) and is named for that.
  return database.execute(R"sql(
    INSERT INTO temp.fsck_link
      SELECT ino, count(*) FROM fs_dentry WHERE typeof(ino) = 'integer' GROUP BY ino;
    INSERT OR IGNORE INTO temp.fsck_named
      SELECT d.ino FROM fs_dentry d CROSS JOIN fs_inode p ON p.ino = d.parent_ino
      WHERE (p.mode & 61440) = 16384 AND typeof(d.ino) = 'integer';
    INSERT INTO temp.fsck_reached
      WITH RECURSIVE reached(ino) AS (
        SELECT i.ino FROM fs_inode i WHERE (i.mode & 61440) = 16384 AND
          (i.ino = 1 OR NOT EXISTS (SELECT 1 FROM temp.fsck_named n WHERE n.ino = i.ino))
        UNION
        SELECT d.ino FROM reached r CROSS JOIN fs_dentry d ON d.parent_ino = r.ino
          CROSS JOIN fs_inode i ON i.ino = d.ino WHERE (i.mode & 61440) = 16384)
      SELECT ino FROM reached;
  )sql");
}

Result<FsckReport> run_checks(Database& database) {
  Findings findings;
  FsckReport report;
  Result<Schema> schema = inspect_schema(database);
  if (!schema.ok() && schema.error().code() == Code::kUnsupported) return std::move(schema).take_error();
  TableNames tables = WARREN_TRY(TableNames::read(database));
  if (!tables.has("fs_inode") || !tables.has("fs_dentry")) return std::move(schema).take_error();
  WARREN_TRY(tolerate(check_sqlite(database, findings), "integrity_check stopped", findings));
  WARREN_TRY(check_encoding(database, findings));
  WARREN_TRY(tolerate(check_tables(database, tables, findings, report), "the tables could not be read", findings));
  report.violations = findings.take();
  return report;
}

}  // namespace warren
