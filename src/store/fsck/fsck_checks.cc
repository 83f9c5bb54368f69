#include "store/fsck/fsck_checks.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "store/ciphers/content_keys.h"
#include "store/fsck/fsck_rules.h"
#include "store/history/mounted_rows.h"
#include "store/history/past_tables.h"
#include "store/record/journal.h"
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

// A damaged page stops the query that reads it, not the whole check.
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

// REINDEX repairs these.
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
    findings.add("FS-19", "fs_config has no chunk_size; 4096 is assumed", true);
  } else if (!parse_chunk_bytes(*size)) {
    findings.add("FS-19", fmt::format("fs_config has chunk_size {}, which is not a valid size", quote(*size)), false);
  }
  std::optional<std::string> said;
  if (tables.has("fs_config")) said = WARREN_TRY(find_config(database, "schema_version"));
  std::string_view is = !tables.has("fs_inode.nlink") ? "0.0"
                        : tables.has("fs_inode.rdev") && tables.has("fs_inode.atime_nsec") &&
                                tables.has("fs_inode.mtime_nsec") && tables.has("fs_inode.ctime_nsec")
                            ? "0.4"
                            : "0.2";
  if (said && *said != is) {
    findings.add("FS-20", fmt::format("fs_config has schema_version {}, but the tables are {}", quote(*said), is),
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
      findings.add("TC-4", fmt::format("the {} of tool call {} is not JSON", rows.column_name(column), rows.integer(0)),
                   false);
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
    if (!is_normal_path(path)) {
      findings.add("OV-2", fmt::format("the whiteout {} is not a normalised absolute path", show(rows, 0)), false);
    } else if (path != "/" && WARREN_TRY(leads_somewhere(lookup, path))) {
      findings.add("OV-6", fmt::format("{} exists, but has a whiteout", show(rows, 0)), true);
    }
  }
  return Ok{};
}

Status check_whiteout_parents(Database& database, Findings& findings) {
  Statement query = WARREN_TRY(database.prepare("SELECT path, parent_path FROM fs_whiteout"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    std::string_view path = rows.text(0);
    if (!path.starts_with('/')) continue;  // already reported as OV-2
    std::string_view parent = path == "/" ? path : split_parent(path).parent;
    if (rows.type(1) == ColumnType::kText && rows.text(1) == parent) continue;
    findings.add("OV-1", fmt::format("the whiteout {} has the wrong parent {}", show(rows, 0), show(rows, 1)), true);
  }
  return Ok{};
}

Status check_versions(Database& database, const TableNames& tables, Findings& findings) {
  for (const PastTable& table : past_tables()) {
    if (!tables.has(table.past.text())) continue;
    Statement invalid = WARREN_TRY(database.prepare(count_invalid_versions(table)));
    std::optional<std::int64_t> wrong = WARREN_TRY(invalid.find_integer());
    if (wrong.value_or(0) > 0) {
      findings.add("WR-50", fmt::format("{} rows of {} hold for no checkpoint", *wrong, table.past.text()), true);
    }
    Statement overlap = WARREN_TRY(database.prepare(count_overlapping_versions(table)));
    std::optional<std::int64_t> twice = WARREN_TRY(overlap.find_integer());
    if (twice.value_or(0) > 0) {
      findings.add("WR-51",
                   fmt::format("{} rows of {} overlap a later version of the same row", *twice, table.past.text()),
                   true);
    }
  }
  return Ok{};
}

Status check_mounted(Database& database, const TableNames& tables, Findings& findings) {
  if (tables.has("wr_mounted")) {
    std::int64_t live = WARREN_TRY(count_invalid_mounted(database, MountedTable::kLive));
    if (live > 0) findings.add("WR-55", fmt::format("{} rows of wr_mounted are not valid copies", live), true);
  }
  if (!tables.has("wr_past_mounted")) return Ok{};
  std::int64_t past = WARREN_TRY(count_invalid_mounted(database, MountedTable::kPast));
  if (past > 0) findings.add("WR-55", fmt::format("{} rows of wr_past_mounted are not valid copies", past), false);
  return Ok{};
}

// The checks that SQL alone cannot do.
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
  if (tables.has("wr_checkpoint")) {
    WARREN_TRY(tolerate(check_versions(database, tables, findings), "WR-50 could not be checked", findings));
  }
  if (tables.has("wr_mounted.value") || tables.has("wr_past_mounted")) {
    WARREN_TRY(tolerate(check_mounted(database, tables, findings), "WR-55 could not be checked", findings));
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

void check_cipher_tables(const TableNames& tables, Findings& findings) {
  for (std::string_view missing : list_missing_for_ciphers(tables)) {
    bool is_table = missing.find('.') == missing.npos;
    findings.add("WR-85", fmt::format("{} is missing, and the file has other tables of encrypted files", missing),
                 is_table);
  }
}

Status check_tables(Database& database, const TableNames& tables, Findings& findings, FsckReport& report) {
  WARREN_TRY(check_config(database, tables, findings));
  check_cipher_tables(tables, findings);
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
  if (!is_normal_path(path)) return false;
  std::int64_t node = 1;
  for (std::size_t at = 0; path != "/" && at != path.npos;) {
    std::size_t start = at + 1;
    at = path.find('/', start);
    std::optional<std::int64_t> next =
        WARREN_TRY(lookup.bind(1, node).bind(2, path.substr(start, at - start)).find_integer());
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
  std::uint32_t bytes = parse_chunk_bytes(size.value_or("")).value_or(limits::kChunkBytesDefault);
  Statement fact = WARREN_TRY(database.prepare("INSERT INTO temp.fsck_fact VALUES (?)"));
  WARREN_TRY(fact.bind(1, bytes).run());
  if (tables.has("wr_orphan")) {
    WARREN_TRY(database.execute("INSERT INTO temp.fsck_orphan SELECT ino FROM wr_orphan"));
  }
  // A cycle is unreachable both from the root and from directories that are out of the tree for
  // another reason (no name, or a parent that is not a directory), which has its own violation.
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
