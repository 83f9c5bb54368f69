#include "store/info.h"

#include <sys/stat.h>

#include "db/statement.h"
#include "store/table_names.h"
#include "store/tables/usage.h"

namespace warren {
namespace {

Result<std::uint64_t> find_number(Database& database, Sql sql) {
  Statement query = WARREN_TRY(database.prepare(sql));
  std::optional<std::int64_t> found = WARREN_TRY(query.find_integer());
  return static_cast<std::uint64_t>(found.value_or(0));
}

std::uint64_t size_of_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

Status describe_file(Database& database, AgentInfo& info) {
  std::uint64_t page_bytes = WARREN_TRY(find_number(database, "PRAGMA page_size"));
  std::uint64_t free_pages = WARREN_TRY(find_number(database, "PRAGMA freelist_count"));
  info.page_bytes = static_cast<std::uint32_t>(page_bytes);
  info.is_encrypted = database.key() != nullptr;
  info.free_bytes = free_pages * page_bytes;
  if (database.path() == ":memory:") {
    std::uint64_t pages = WARREN_TRY(find_number(database, "PRAGMA page_count"));
    info.file_bytes = pages * page_bytes;
    return Ok{};
  }
  info.file_bytes = size_of_file(database.path());
  info.wal_bytes = size_of_file(database.path() + "-wal");
  return Ok{};
}

Status describe_nodes(Database& database, AgentInfo& info) {
  // Added here and not by SUM, which fails on overflow: sparse files can have any size.
  Statement query = WARREN_TRY(database.prepare("SELECT mode & 61440, size FROM fs_inode"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    switch (static_cast<mode_t>(rows.integer(0))) {
      case S_IFREG:
        ++info.files;
        info.content_bytes += static_cast<std::uint64_t>(rows.integer(1));
        break;
      case S_IFDIR: ++info.directories; break;
      case S_IFLNK: ++info.symlinks; break;
      default: ++info.other; break;
    }
  }
  return Ok{};
}

Status describe_chunks(Database& database, AgentInfo& info) {
  info.chunks = WARREN_TRY(find_number(database, "SELECT count(*) FROM fs_data"));
  info.stored_bytes = WARREN_TRY(find_number(database, "SELECT sum(octet_length(data)) FROM fs_data"));
  // Rows are stored in the order of their rowids, so consecutive chunks of a file should have
  // consecutive rowids. The index alone answers this.
  Statement query = WARREN_TRY(database.prepare(R"sql(
    SELECT count(before), count(iif(here <> before + 1, 1, NULL)) FROM
      (SELECT rowid AS here, lag(rowid) OVER (PARTITION BY ino ORDER BY chunk_index) AS before FROM fs_data)
    )sql"));
  Rows rows = query.rows();
  if (!WARREN_TRY(rows.next()) || rows.integer(0) == 0) return Ok{};
  info.fragmentation = static_cast<double>(rows.integer(1)) / static_cast<double>(rows.integer(0));
  return Ok{};
}

Status describe_trail(Database& database, const TableNames& tables, AgentInfo& info) {
  if (tables.has("kv_store")) info.keys = WARREN_TRY(find_number(database, "SELECT count(*) FROM kv_store"));
  if (tables.has("tool_calls")) {
    info.tool_calls = WARREN_TRY(find_number(database, "SELECT count(*) FROM tool_calls"));
  }
  if (tables.has("tool_calls.status")) {
    info.pending_calls = WARREN_TRY(find_number(database, "SELECT count(*) FROM tool_calls WHERE status = 'pending'"));
  }
  if (tables.has("wr_journal")) {
    info.journal_rows = WARREN_TRY(find_number(database, "SELECT count(*) FROM wr_journal"));
  }
  return Ok{};
}

}  // namespace

Result<AgentInfo> describe_agent(Store& store) {
  Database& database = store.database();
  Transaction view = WARREN_TRY(Transaction::begin(database, Access::kRead));
  TableNames tables = WARREN_TRY(TableNames::read(database));
  AgentInfo info;
  info.path = store.path();
  info.schema_version = name_of(store.schema().version);
  info.chunk_bytes = store.schema().chunk_bytes;
  WARREN_TRY(describe_file(database, info));
  WARREN_TRY(describe_nodes(database, info));
  if (tables.has("fs_data")) WARREN_TRY(describe_chunks(database, info));
  WARREN_TRY(describe_trail(database, tables, info));
  Quota quota = WARREN_TRY(store.usage().quota());
  info.quota_bytes = quota.bytes;
  info.quota_inodes = quota.inodes;
  return info;
}

}  // namespace warren
