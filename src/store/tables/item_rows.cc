#include "store/tables/item_rows.h"

#include "db/transaction.h"

namespace warren {
namespace {

#define WARREN_ITEM_COLUMNS "ino, id, path, source, fetched_at, sha256, mime, title, stamp"

constexpr Sql kItemTable = R"sql(
CREATE TABLE IF NOT EXISTS wr_item (
  ino INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  path TEXT NOT NULL,
  source TEXT,
  fetched_at INTEGER,
  sha256 TEXT,
  mime TEXT,
  title TEXT,
  stamp TEXT
);
CREATE INDEX IF NOT EXISTS idx_wr_item_path ON wr_item(path);
)sql";

Result<std::optional<ItemRow>> next_item(Rows rows) {
  if (!WARREN_TRY(rows.next())) return std::optional<ItemRow>();
  ItemRow row{.node = Inode{static_cast<std::uint64_t>(rows.integer(0))},
              .id = std::string(rows.text(1)),
              .path = std::string(rows.text(2)),
              .source = std::string(rows.text(3)),
              .fetched_at = rows.is_null(4) ? std::nullopt : std::optional(rows.integer(4)),
              .sha256 = std::string(rows.text(5)),
              .mime = std::string(rows.text(6)),
              .title = std::string(rows.text(7)),
              .stamp = std::string(rows.text(8))};
  return std::optional(std::move(row));
}

}  // namespace

// A connection, also the end of a statement, is for one thread at a time.
ItemRows::~ItemRows() {
  auto lock = store_.database().lock();
  for (Statement* one : {&find_, &find_id_, &find_path_, &put_, &remove_, &rekey_, &set_path_, &move_below_}) {
    *one = Statement();
  }
  take_over_.reset();
  has_table_.reset();
}

Result<bool> ItemRows::has_table() {
  if (!has_table_) {
    has_table_ =
        WARREN_TRY(store_.database().prepare("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='wr_item'"));
  }
  std::optional<std::int64_t> found = WARREN_TRY(has_table_->find_integer());
  return found.has_value();
}

Result<bool> ItemRows::prepare() {
  if (is_prepared_) return true;
  Database& database = store_.database();
  if (!WARREN_TRY(has_table())) return false;
  find_ = WARREN_TRY(database.prepare("SELECT " WARREN_ITEM_COLUMNS " FROM wr_item WHERE ino = ?"));
  find_id_ = WARREN_TRY(database.prepare("SELECT " WARREN_ITEM_COLUMNS " FROM wr_item WHERE id = ?"));
  find_path_ = WARREN_TRY(
      database.prepare("SELECT " WARREN_ITEM_COLUMNS " FROM wr_item WHERE path = ? ORDER BY ino DESC LIMIT 1"));
  if (!database.is_read_only()) {
    put_ = WARREN_TRY(database.prepare("INSERT INTO wr_item (" WARREN_ITEM_COLUMNS
                                       ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (ino) DO UPDATE SET "
                                       "id = ?2, path = ?3, source = ?4, fetched_at = ?5, sha256 = ?6, mime = ?7, "
                                       "title = ?8, stamp = ?9"));
    remove_ = WARREN_TRY(database.prepare("DELETE FROM wr_item WHERE ino = ?"));
    rekey_ = WARREN_TRY(database.prepare("UPDATE OR REPLACE wr_item SET ino = ?2 WHERE ino = ?1"));
    set_path_ = WARREN_TRY(database.prepare("UPDATE wr_item SET path = ?2 WHERE ino = ?1"));
    // '0' is the byte after '/': exactly the paths that begin with "FROM/".
    move_below_ =
        WARREN_TRY(database.prepare("UPDATE wr_item SET path = ?2 || substr(path, length(?1) + 1) "
                                    "WHERE path > ?1 || '/' AND path < ?1 || '0' RETURNING ino"));
  }
  is_prepared_ = true;
  return true;
}

// Otherwise other processes would take the change for that of an unknown program and drop their caches, and a
// checkpoint would miss it.
void ItemRows::note(Inode node) {
  if (store_.journal() != nullptr) store_.journal()->note_attributes(node);
}

Result<std::optional<ItemRow>> ItemRows::find(Inode node) {
  Transaction scope = WARREN_TRY(Transaction::begin(store_.database(), Access::kRead));
  if (!WARREN_TRY(prepare())) return std::optional<ItemRow>();
  return next_item(find_.bind(1, node.value).rows());
}

Result<std::optional<ItemRow>> ItemRows::find_by_id(std::string_view id) {
  Transaction scope = WARREN_TRY(Transaction::begin(store_.database(), Access::kRead));
  if (!WARREN_TRY(prepare())) return std::optional<ItemRow>();
  return next_item(find_id_.bind(1, id).rows());
}

Result<std::optional<ItemRow>> ItemRows::find_by_path(std::string_view path) {
  Transaction scope = WARREN_TRY(Transaction::begin(store_.database(), Access::kRead));
  if (!WARREN_TRY(prepare())) return std::optional<ItemRow>();
  return next_item(find_path_.bind(1, path).rows());
}

Result<std::optional<ItemRow>> ItemRows::find_by_source(std::string_view source) {
  Transaction scope = WARREN_TRY(Transaction::begin(store_.database(), Access::kRead));
  if (!WARREN_TRY(prepare())) return std::optional<ItemRow>();
  Statement query = WARREN_TRY(store_.database().prepare("SELECT " WARREN_ITEM_COLUMNS
                                                         " FROM wr_item WHERE source = ? ORDER BY ino DESC LIMIT 1"));
  return next_item(query.bind(1, source).rows());
}

Status ItemRows::put(const ItemRow& row) {
  auto lock = store_.database().lock();
  if (!WARREN_TRY(prepare())) {
    WARREN_TRY(store_.database().execute(kItemTable));
    WARREN_TRY(prepare());
  }
  note(row.node);
  put_.bind(1, row.node.value).bind(2, row.id).bind(3, row.path).bind(4, row.source);
  if (row.fetched_at) put_.bind(5, *row.fetched_at);
  else put_.bind_null(5);
  return put_.bind(6, row.sha256).bind(7, row.mime).bind(8, row.title).bind(9, row.stamp).run();
}

Status ItemRows::remove(Inode node) {
  auto lock = store_.database().lock();
  if (!WARREN_TRY(prepare())) return Ok{};
  note(node);
  return remove_.bind(1, node.value).run();
}

Status ItemRows::rekey(Inode from, Inode to) {
  auto lock = store_.database().lock();
  if (!WARREN_TRY(prepare())) return Ok{};
  note(from);
  note(to);
  return rekey_.bind(1, from.value).bind(2, to.value).run();
}

Status ItemRows::take_over(Inode replaced, Inode by) {
  auto lock = store_.database().lock();
  if (!take_over_ && !WARREN_TRY(has_table())) return Ok{};
  if (!take_over_) {
    Result<Statement> made =
        store_.database().prepare("UPDATE OR IGNORE wr_item SET ino = ?2 WHERE ino = ?1 RETURNING ino");
    if (!made.ok()) return Ok{};  // not a table of ours: no reason to refuse the rename
    take_over_ = std::move(made).take_value();
  }
  Rows taken = take_over_->bind(1, replaced.value).bind(2, by.value).rows();
  bool is_taken_over = false;
  while (WARREN_TRY(taken.next())) {
    is_taken_over = true;
    note(replaced);
    note(by);
  }
  Result<bool> ready = prepare();
  if (is_taken_over || !ready.ok() || !*ready) return Ok{};
  std::optional<ItemRow> left = WARREN_TRY(next_item(find_.bind(1, replaced.value).rows()));
  return left ? remove(replaced) : Status(Ok{});  // the other one is an item of its own, and this one is gone
}

Status ItemRows::set_path(Inode node, std::string_view path) {
  auto lock = store_.database().lock();
  if (!WARREN_TRY(prepare())) return Ok{};
  note(node);
  return set_path_.bind(1, node.value).bind(2, path).run();
}

Status ItemRows::move_below(std::string_view from, std::string_view to) {
  auto lock = store_.database().lock();
  if (!WARREN_TRY(prepare())) return Ok{};
  Rows moved = move_below_.bind(1, from).bind(2, to).rows();
  while (WARREN_TRY(moved.next())) note(Inode{static_cast<std::uint64_t>(moved.integer(0))});
  return Ok{};
}

}  // namespace warren
