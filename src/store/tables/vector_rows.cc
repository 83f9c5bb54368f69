#include "store/tables/vector_rows.h"

#include <bit>
#include <cstring>

#include "base/bytes.h"

namespace warren {
namespace {

static_assert(std::endian::native == std::endian::little, "embeddings are stored as little-endian floats");

}  // namespace

Result<bool> VectorRows::prepare() {
  if (is_prepared_) return true;
  Database& database = store_.database();
  Statement has = WARREN_TRY(database.prepare("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='wr_vector'"));
  if (!WARREN_TRY(has.find_integer())) return false;
  find_ = WARREN_TRY(database.prepare("SELECT stamp, embedding, text, metadata, problem FROM wr_vector WHERE ino = ?"));
  any_ =
      WARREN_TRY(database.prepare("SELECT length(embedding) / 4 FROM wr_vector WHERE length(embedding) > 0 LIMIT 1"));
  put_ = WARREN_TRY(database.prepare(
      "INSERT OR REPLACE INTO wr_vector (ino, stamp, embedding, text, metadata, problem) VALUES (?, ?, ?, ?, ?, ?)"));
  remove_ = WARREN_TRY(database.prepare("DELETE FROM wr_vector WHERE ino = ?"));
  list_ = WARREN_TRY(database.prepare("SELECT ino FROM wr_vector"));
  is_prepared_ = true;
  return true;
}

Result<std::optional<VectorRow>> VectorRows::find(Inode node) {
  if (!WARREN_TRY(prepare())) return std::optional<VectorRow>();
  Rows rows = find_.bind(1, node.value).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<VectorRow>();
  VectorRow row{.stamp = std::string(rows.text(0)),
                .embedding = {},
                .text = std::string(rows.text(2)),
                .metadata = std::string(rows.text(3)),
                .problem = std::string(rows.text(4))};
  Bytes numbers = rows.blob(1);
  row.embedding.resize(numbers.size() / sizeof(float));
  if (!row.embedding.empty()) std::memcpy(row.embedding.data(), numbers.data(), row.embedding.size() * sizeof(float));
  return std::optional(std::move(row));
}

Result<std::optional<std::size_t>> VectorRows::find_dimension() {
  if (!WARREN_TRY(prepare())) return std::optional<std::size_t>();
  std::optional<std::int64_t> length = WARREN_TRY(any_.find_integer());
  if (!length || *length <= 0) return std::optional<std::size_t>();
  return std::optional(static_cast<std::size_t>(*length));
}

Status VectorRows::put(Inode node, const VectorRow& row) {
  if (!WARREN_TRY(prepare())) {
    WARREN_TRY(
        store_.database().execute("CREATE TABLE IF NOT EXISTS wr_vector (ino INTEGER PRIMARY KEY, stamp TEXT NOT NULL, "
                                  "embedding BLOB, text TEXT, "
                                  "metadata TEXT, problem TEXT)"));
    WARREN_TRY(prepare());
  }
  Bytes numbers = std::as_bytes(std::span(row.embedding));
  return put_.bind(1, node.value)
      .bind(2, row.stamp)
      .bind(3, numbers)
      .bind(4, row.text)
      .bind(5, row.metadata)
      .bind(6, row.problem)
      .run();
}

Status VectorRows::remove(Inode node) {
  if (!WARREN_TRY(prepare())) return Ok{};
  return remove_.bind(1, node.value).run();
}

Result<std::vector<Inode>> VectorRows::list() {
  std::vector<Inode> nodes;
  if (!WARREN_TRY(prepare())) return nodes;
  Rows rows = list_.rows();
  while (WARREN_TRY(rows.next())) nodes.push_back(Inode{static_cast<std::uint64_t>(rows.integer(0))});
  return nodes;
}

}  // namespace warren
