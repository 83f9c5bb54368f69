#include "store/migrate.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "db/database.h"
#include "db/transaction.h"
#include "store/schema.h"
#include "store/table_names.h"

namespace warren {
namespace {

// The missing parts of a file, determined before anything is changed.
struct Plan {
  SchemaVersion from = SchemaVersion::k0_4;
  std::string stored_version;  // in fs_config; may be wrong
  bool splits_data = false;
  TableNames tables;
};

Result<std::string> find_stored_version(Database& database, const TableNames& tables) {
  if (!tables.has("fs_config")) return std::string();
  Statement query = WARREN_TRY(database.prepare("SELECT value FROM fs_config WHERE key = 'schema_version'"));
  Rows rows = query.rows();
  if (!WARREN_TRY(rows.next())) return std::string();
  return std::string(rows.text(0));
}

Result<Plan> make_plan(Database& database) {
  Plan plan;
  Schema schema = WARREN_TRY(inspect_schema(database));
  plan.from = schema.version;
  plan.tables = WARREN_TRY(TableNames::read(database));
  plan.stored_version = WARREN_TRY(find_stored_version(database, plan.tables));
  plan.splits_data = plan.tables.has("fs_data") && !plan.tables.has("fs_data.chunk_index");
  if (plan.splits_data && (!plan.tables.has("fs_data.offset") || !plan.tables.has("fs_data.data"))) {
    return Error(Code::kUnsupported, "fs_data has neither chunk_index nor offset, which is not a known format");
  }
  if (plan.splits_data) plan.from = SchemaVersion::k0_0;  // that format is older than any column of fs_inode
  return plan;
}

std::string column_action(const Plan& plan, std::string_view column) {
  bool is_there = plan.tables.has(fmt::format("fs_inode.{}", column));
  return is_there ? fmt::format("{} column already exists (skipping)", column)
                  : fmt::format("Added {} column to fs_inode", column);
}

MigrationReport describe(const Plan& plan) {
  MigrationReport report{.from = std::string(name_of(plan.from)), .to = "0.4", .steps = {}};
  if (plan.from < SchemaVersion::k0_2) {
    MigrationStep step{.from = "0.0", .to = "0.2", .actions = {}};
    if (plan.splits_data) step.actions.push_back("Split fs_data into chunks of one size");
    step.actions.push_back(column_action(plan, "nlink"));
    step.actions.push_back("Counted nlink of every inode from its entries");
    report.steps.push_back(std::move(step));
  }
  if (plan.from < SchemaVersion::k0_4) {
    MigrationStep step{.from = "0.2", .to = "0.4", .actions = {}};
    for (std::string_view column : {"atime_nsec", "mtime_nsec", "ctime_nsec", "rdev"}) {
      step.actions.push_back(column_action(plan, column));
    }
    if (plan.from == SchemaVersion::k0_2) step.actions.push_back("Counted nlink of every inode from its entries");
    report.steps.push_back(std::move(step));
  } else if (!plan.stored_version.empty() && plan.stored_version != "0.4") {
    report.steps.push_back({.from = plan.stored_version, .to = "0.4", .actions = {"Set schema_version in fs_config"}});
  }
  return report;
}

// Collects the bytes of one file in order and stores them in chunks of one size.
class ChunkWriter {
 public:
  ChunkWriter(Statement insert, std::uint32_t chunk_bytes) : insert_(std::move(insert)), chunk_bytes_(chunk_bytes) {}

  Status add(std::int64_t ino, std::int64_t offset, Bytes data) {
    if (ino != ino_) {
      WARREN_TRY(flush());
      ino_ = ino;
      end_ = 0;
    }
    if (offset < end_) {
      return Error(Code::kUnsupported, fmt::format("the pieces of inode {} overlap at offset {}", ino, offset));
    }
    while (!data.empty()) {
      std::int64_t index = offset / chunk_bytes_;
      if (index != index_) WARREN_TRY(flush());
      index_ = index;
      auto within = static_cast<std::size_t>(offset % chunk_bytes_);
      std::size_t take = std::min<std::size_t>(data.size(), chunk_bytes_ - within);
      chunk_.resize(within, '\0');
      chunk_ += as_text(data.first(take));
      data = data.subspan(take);
      offset += static_cast<std::int64_t>(take);
    }
    end_ = offset;
    return Ok{};
  }

  // Stores the current chunk: it is complete, or the last one of its file, or before a gap.
  Status flush() {
    if (index_ >= 0) {
      WARREN_TRY(insert_.bind(1, ino_).bind(2, index_).bind(3, as_bytes(chunk_)).run());
    }
    chunk_.clear();
    index_ = -1;
    return Ok{};
  }

 private:
  Statement insert_;
  std::uint32_t chunk_bytes_;
  std::int64_t ino_ = -1;
  std::int64_t index_ = -1;
  std::int64_t end_ = 0;
  std::string chunk_;
};

// In the oldest format each row has an offset, and any size.
Status split_data(Database& database, std::uint32_t chunk_bytes) {
  WARREN_TRY(
      database.execute("ALTER TABLE fs_data RENAME TO wr_old_data;"
                       "CREATE TABLE fs_data (ino INTEGER NOT NULL, chunk_index INTEGER NOT NULL,"
                       " data BLOB NOT NULL, PRIMARY KEY (ino, chunk_index));"));
  {
    Statement insert = WARREN_TRY(database.prepare("INSERT INTO fs_data (ino, chunk_index, data) VALUES (?, ?, ?)"));
    Statement select = WARREN_TRY(database.prepare("SELECT ino, offset, data FROM wr_old_data ORDER BY ino, offset"));
    ChunkWriter writer(std::move(insert), chunk_bytes);
    Rows rows = select.rows();
    while (WARREN_TRY(rows.next())) {
      if (rows.integer(1) < 0) return Error(Code::kUnsupported, "fs_data has a piece with a negative offset");
      WARREN_TRY(writer.add(rows.integer(0), rows.integer(1), rows.blob(2)));
    }
    WARREN_TRY(writer.flush());
  }
  // A gap within a file leaves a short chunk before it, which must be padded to the chunk size.
  Statement pad = WARREN_TRY(database.prepare(
      "UPDATE fs_data SET data = CAST(data || zeroblob(?1 - octet_length(data)) AS BLOB) WHERE octet_length(data) < ?1"
      " AND EXISTS (SELECT 1 FROM fs_data n WHERE n.ino = fs_data.ino AND n.chunk_index > fs_data.chunk_index)"));
  WARREN_TRY(pad.bind(1, chunk_bytes).run());
  return database.execute("DROP TABLE wr_old_data");
}

// Directories have 1, whatever they contain: docs/format.md, FS-24.
Status count_links(Database& database) {
  return database.execute(R"sql(
    UPDATE fs_inode SET nlink = 0 WHERE (mode & 61440) <> 16384;
    UPDATE fs_inode SET nlink = 1 WHERE (mode & 61440) = 16384;
    UPDATE fs_inode SET nlink = counted.names
      FROM (SELECT ino, count(*) AS names FROM fs_dentry GROUP BY ino) AS counted
      WHERE counted.ino = fs_inode.ino AND (mode & 61440) <> 16384;
  )sql");
}

Status add_columns(Database& database, const TableNames& tables) {
  auto add = [&](std::string_view column, Sql sql) -> Status {
    return tables.has(column) ? Status(Ok{}) : database.execute(sql);
  };
  WARREN_TRY(add("fs_inode.nlink", "ALTER TABLE fs_inode ADD COLUMN nlink INTEGER NOT NULL DEFAULT 0"));
  WARREN_TRY(add("fs_inode.atime_nsec", "ALTER TABLE fs_inode ADD COLUMN atime_nsec INTEGER NOT NULL DEFAULT 0"));
  WARREN_TRY(add("fs_inode.mtime_nsec", "ALTER TABLE fs_inode ADD COLUMN mtime_nsec INTEGER NOT NULL DEFAULT 0"));
  WARREN_TRY(add("fs_inode.ctime_nsec", "ALTER TABLE fs_inode ADD COLUMN ctime_nsec INTEGER NOT NULL DEFAULT 0"));
  return add("fs_inode.rdev", "ALTER TABLE fs_inode ADD COLUMN rdev INTEGER NOT NULL DEFAULT 0");
}

Status apply(Database& database, const Plan& plan) {
  Schema schema = WARREN_TRY(inspect_schema(database));
  if (plan.splits_data) WARREN_TRY(split_data(database, schema.chunk_bytes));
  WARREN_TRY(add_columns(database, plan.tables));
  if (plan.from < SchemaVersion::k0_4) WARREN_TRY(count_links(database));
  WARREN_TRY(complete_schema(database));
  return database.execute("INSERT OR REPLACE INTO fs_config (key, value) VALUES ('schema_version', '0.4')");
}

Result<MigrationReport> look(const std::string& path, const KeyFinder& find_key) {
  auto database = WARREN_TRY(Database::open(path, {.mode = OpenMode::kReadOnly, .find_key = find_key}));
  Transaction view = WARREN_TRY(Transaction::begin(*database, Access::kRead));
  Plan plan = WARREN_TRY(make_plan(*database));
  return describe(plan);
}

}  // namespace

Result<MigrationReport> migrate_agent(const std::string& path, DryRun dry_run, const KeyFinder& find_key) {
  std::string what = fmt::format("migrate {}", quote(path));
  MigrationReport seen = WARREN_TRY(look(path, find_key).within(what));
  if (dry_run == DryRun::kYes || seen.steps.empty()) return seen;
  auto database = WARREN_TRY(Database::open(path, {.mode = OpenMode::kReadWrite, .find_key = find_key}).within(what));
  Transaction change = WARREN_TRY(Transaction::begin(*database, Access::kWrite).within(what));
  // Planned again: another process may have migrated the file in the meantime.
  Plan plan = WARREN_TRY(make_plan(*database).within(what));
  MigrationReport report = describe(plan);
  if (!report.steps.empty()) WARREN_TRY(apply(*database, plan).within(what));
  WARREN_TRY(change.commit().within(what));
  return report;
}

}  // namespace warren
