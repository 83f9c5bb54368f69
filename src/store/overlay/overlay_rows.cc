#include "store/overlay/overlay_rows.h"

#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "db/statement.h"
#include "db/transaction.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/overlay/apply_log.h"
#include "store/overlay/overlay_schema.h"
#include "store/record/journal.h"
#include "store/transaction_unit.h"

namespace warren {
namespace {

// The prefix of every path below a directory, and the first text that sorts after all of them.
std::string below(std::string_view dir) { return dir == "/" ? std::string("/") : std::string(dir) + "/"; }
std::string after_all_below(std::string_view dir) { return dir == "/" ? std::string("0") : std::string(dir) + "0"; }

// `first` is the column of the inode number; the others follow in the order of the tables, up to rdev.
Attributes seen_of(const Rows& rows, int first) {
  auto number = [&](int at) { return rows.integer(first + at); };
  return {.inode = Inode{static_cast<std::uint64_t>(number(0))},
          .mode = static_cast<std::uint32_t>(number(1)),
          .nlink = static_cast<std::uint32_t>(number(2)),
          .owner = {static_cast<std::uint32_t>(number(3)), static_cast<std::uint32_t>(number(4))},
          .size = static_cast<std::uint64_t>(number(5)),
          .atime = {},
          .mtime = {number(6), static_cast<std::int32_t>(number(7))},
          .ctime = {number(8), static_cast<std::int32_t>(number(9))},
          .rdev = static_cast<std::uint64_t>(number(10))};
}

void bind_seen(Statement& statement, int first, const Attributes& seen) {
  statement.bind(first, seen.inode.value)
      .bind(first + 1, seen.mode)
      .bind(first + 2, seen.nlink)
      .bind(first + 3, seen.owner.uid)
      .bind(first + 4, seen.owner.gid)
      .bind(first + 5, seen.size)
      .bind(first + 6, seen.mtime.seconds)
      .bind(first + 7, std::int64_t{seen.mtime.nanoseconds})
      .bind(first + 8, seen.ctime.seconds)
      .bind(first + 9, std::int64_t{seen.ctime.nanoseconds})
      .bind(first + 10, seen.rdev);
}

Cover cover_of(const Rows& rows) {
  Cover cover{.base_path = std::string(rows.text(0)),
              .seen = {},
              .at = {rows.integer(1), static_cast<std::int32_t>(rows.integer(2))}};
  if (!rows.is_null(3)) cover.seen = seen_of(rows, 3);
  return cover;
}

// Code that goes up from a path stops at "/". The file may be a stranger's.
Status check_base_path(std::string_view path) {
  if (is_normal_path(path)) return Ok{};
  return Error(Code::kCorrupt, fmt::format("the agent file names {} as a path of the base", quote(path)),
               "the file is damaged, or was written by another program; go back to a backup of it");
}

// Another program may store a name in the root without its '/'. What cannot be a path hides nothing: "".
std::string whiteout_path(std::string_view stored) {
  std::string path = stored.find('/') == stored.npos ? "/" + std::string(stored) : std::string(stored);
  return is_normal_path(path) ? path : "";
}

// Without a generation the column is NULL, as older programs leave it.
void bind_generation(Statement& statement, int column, std::uint64_t generation) {
  if (generation == 0) statement.bind_null(column);
  else statement.bind(column, generation);
}

}  // namespace

struct OverlayRows::Statements {
  Statement list_in;
  Statement list_whiteouts;
  Statement find_removed;
  Statement list_covers;
  Statement put_cover;
  Statement remove_cover;
  Statement list_lost;
  Statement lose_link;
  Statement restore_link;
  Statement remove_lost;
  Statement list_origins;
  Statement list_ranges;
  Statement find_ancestor;
  Statement add_whiteout;
  Statement add_seen;
  Statement remove_whiteout;
  Statement remove_seen;
  Statement list_below;
  Statement put_origin;
  Statement put_own_origin;
  Statement remove_origin;
  Statement remove_own_origin;
  Statement add_range;
  Statement remove_ranges;
  Statement keep_ancestor;
  Statement remove_ancestor;
};

OverlayRows::OverlayRows(Store& store) : store_(store), sql_(std::make_unique<Statements>()) {}

OverlayRows::~OverlayRows() {
  auto guard = store_.database().lock();
  store_.fs().when_collected(nullptr);
  sql_.reset();
}

Result<std::unique_ptr<OverlayRows>> OverlayRows::open(Store& store) {
  auto guard = store.database().lock();  // a thread of the store may be using the connection
  std::unique_ptr<OverlayRows> rows(new OverlayRows(store));
  if (!store.is_read_only()) WARREN_TRY(complete_overlay(store));
  Database& database = store.database();
  {
    auto view = WARREN_TRY(Transaction::begin(database, Access::kRead));
    Statement columns =
        WARREN_TRY(database.prepare("SELECT count(*) FROM pragma_table_info('fs_whiteout') WHERE name='parent_path'"));
    rows->has_parent_path_ = WARREN_TRY(columns.find_integer())
    .value_or(0) > 0;
    Statement own =
        WARREN_TRY(database.prepare("SELECT count(*) FROM sqlite_schema WHERE type='table' AND name IN "
                                    "('wr_origin', 'wr_whiteout', 'wr_lost_link', 'wr_base_range', 'wr_ancestor')"));
    rows->has_own_ = WARREN_TRY(own.find_integer())
    .value_or(0) == 5;
    Statement covers =
        WARREN_TRY(database.prepare("SELECT count(*) FROM sqlite_schema WHERE type='table' AND name='wr_covered'"));
    rows->has_covers_ = WARREN_TRY(covers.find_integer())
    .value_or(0) > 0;
    Statement generation = WARREN_TRY(
        database.prepare("SELECT (SELECT count(*) FROM pragma_table_info('wr_origin') WHERE name='generation') "
                         "+ (SELECT count(*) FROM pragma_table_info('wr_lost_link') WHERE name='generation')"));
    rows->has_generation_ = WARREN_TRY(generation.find_integer())
    .value_or(0) == 2;
  }
  WARREN_TRY(rows->prepare());
  if (!store.is_read_only()) WARREN_TRY(rows->collect_leftovers());
  store.fs().when_collected([own = rows.get()](Inode node) { return own->remove_origin(node); });
  return rows;
}

Status OverlayRows::prepare() {
  WARREN_TRY(prepare_whiteouts());
  WARREN_TRY(prepare_origins());
  WARREN_TRY(prepare_covers());
  return store_.is_read_only() ? Status(Ok{}) : prepare_writing();
}

Status OverlayRows::prepare_whiteouts() {
  Database& db = store_.database();
  // Rows of other programs have an empty parent, if the table has the column at all: they
  // are checked one by one.
  Sql list_in = has_parent_path_ ? Sql("SELECT path FROM fs_whiteout WHERE parent_path = ?1 OR parent_path = ''")
                                 : Sql("SELECT path FROM fs_whiteout WHERE path >= ?1");
  Sql list = has_own_ ? Sql("SELECT w.path, s.base_ino, s.mode, s.nlink, s.uid, s.gid, s.size, s.mtime, s.mtime_nsec, "
                            "s.ctime, s.ctime_nsec, s.rdev FROM fs_whiteout w "
                            "LEFT JOIN wr_whiteout s ON s.path = w.path ORDER BY w.path")
                      : Sql("SELECT path, NULL FROM fs_whiteout ORDER BY path");
  sql_->list_in = WARREN_TRY(db.prepare(list_in));
  sql_->list_whiteouts = WARREN_TRY(db.prepare(list));
  if (!has_own_) return Ok{};
  sql_->find_removed =
      WARREN_TRY(db.prepare("SELECT base_ino, mode, nlink, uid, gid, size, mtime, mtime_nsec, ctime, ctime_nsec, rdev "
                            "FROM wr_whiteout WHERE path = ?"));
  return Ok{};
}

Status OverlayRows::prepare_origins() {
  if (!has_own_) return Ok{};
  Database& db = store_.database();
  Sql lost = has_generation_ ? Sql("SELECT base_path, base_ino, at, at_nsec, generation FROM wr_lost_link")
                             : Sql("SELECT base_path, base_ino, at, at_nsec, NULL FROM wr_lost_link");
  Sql origins = has_generation_
                    ? Sql("SELECT delta_ino, base_path, hidden_names, base_ino, mode, nlink, uid, gid, size, mtime, "
                          "mtime_nsec, ctime, ctime_nsec, rdev, generation, EXISTS (SELECT 1 FROM wr_orphan o "
                          "WHERE o.ino = delta_ino AND o.boot <> '') FROM wr_origin")
                    : Sql("SELECT delta_ino, base_path, hidden_names, base_ino, mode, nlink, uid, gid, size, mtime, "
                          "mtime_nsec, ctime, ctime_nsec, rdev, NULL, 0 FROM wr_origin");
  sql_->list_lost = WARREN_TRY(db.prepare(lost));
  sql_->list_origins = WARREN_TRY(db.prepare(origins));
  sql_->list_ranges =
      WARREN_TRY(db.prepare("SELECT first_byte, end_byte FROM wr_base_range WHERE delta_ino = ? ORDER BY first_byte"));
  sql_->find_ancestor = WARREN_TRY(db.prepare("SELECT content FROM wr_ancestor WHERE delta_ino = ?"));
  return Ok{};
}

Status OverlayRows::prepare_covers() {
  if (!has_covers_) return Ok{};
  Database& db = store_.database();
  sql_->list_covers =
      WARREN_TRY(db.prepare("SELECT base_path, at, at_nsec, base_ino, mode, nlink, uid, gid, size, mtime, mtime_nsec, "
                            "ctime, ctime_nsec, rdev FROM wr_covered WHERE base_path >= ?1 AND base_path < ?2"));
  if (store_.is_read_only()) return Ok{};
  sql_->put_cover = WARREN_TRY(
      db.prepare("INSERT OR REPLACE INTO wr_covered (base_path, at, at_nsec, base_ino, mode, nlink, uid, gid, size, "
                 "mtime, mtime_nsec, ctime, ctime_nsec, rdev) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  sql_->remove_cover = WARREN_TRY(db.prepare("DELETE FROM wr_covered WHERE base_path = ?"));
  return Ok{};
}

Status OverlayRows::prepare_writing() {
  WARREN_TRY(prepare_whiteout_changes());
  Database& db = store_.database();
  sql_->put_origin = WARREN_TRY(db.prepare("INSERT OR REPLACE INTO fs_origin (delta_ino, base_ino) VALUES (?, ?)"));
  sql_->put_own_origin = WARREN_TRY(db.prepare(
      "INSERT OR REPLACE INTO wr_origin (delta_ino, base_path, hidden_names, base_ino, mode, nlink, uid, "
      "gid, size, mtime, mtime_nsec, ctime, ctime_nsec, rdev, generation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, "
      "?, ?, ?, ?, ?, ?)"));
  sql_->remove_origin = WARREN_TRY(db.prepare("DELETE FROM fs_origin WHERE delta_ino = ?"));
  sql_->remove_own_origin = WARREN_TRY(db.prepare("DELETE FROM wr_origin WHERE delta_ino = ?"));
  sql_->add_range =
      WARREN_TRY(db.prepare("INSERT INTO wr_base_range (delta_ino, first_byte, end_byte) VALUES (?, ?, ?)"));
  sql_->remove_ranges = WARREN_TRY(db.prepare("DELETE FROM wr_base_range WHERE delta_ino = ?"));
  sql_->keep_ancestor = WARREN_TRY(db.prepare("INSERT OR REPLACE INTO wr_ancestor (delta_ino, content) VALUES (?, ?)"));
  sql_->remove_ancestor = WARREN_TRY(db.prepare("DELETE FROM wr_ancestor WHERE delta_ino = ?"));
  return Ok{};
}

Status OverlayRows::prepare_whiteout_changes() {
  Database& db = store_.database();
  Sql add = has_parent_path_
                ? Sql("INSERT OR REPLACE INTO fs_whiteout (path, created_at, parent_path) VALUES (?, ?, ?)")
                : Sql("INSERT OR REPLACE INTO fs_whiteout (path, created_at) VALUES (?, ?)");
  sql_->add_whiteout = WARREN_TRY(db.prepare(add));
  sql_->add_seen = WARREN_TRY(
      db.prepare("INSERT OR REPLACE INTO wr_whiteout (path, base_ino, mode, nlink, uid, gid, size, mtime, mtime_nsec, "
                 "ctime, ctime_nsec, rdev, base_path) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  sql_->remove_whiteout = WARREN_TRY(db.prepare("DELETE FROM fs_whiteout WHERE path IN (?1, substr(?1, 2))"));
  // A link that is already lost keeps the time at which it was lost.
  sql_->lose_link = WARREN_TRY(db.prepare(
      "INSERT OR IGNORE INTO wr_lost_link (base_path, base_ino, at, at_nsec, generation) VALUES (?, ?, ?, ?, ?)"));
  sql_->restore_link = WARREN_TRY(
      db.prepare("DELETE FROM wr_lost_link WHERE base_path = (SELECT base_path FROM wr_whiteout WHERE path = ?)"));
  sql_->remove_lost = WARREN_TRY(db.prepare("DELETE FROM wr_lost_link WHERE base_path = ?"));
  sql_->remove_seen = WARREN_TRY(db.prepare("DELETE FROM wr_whiteout WHERE path = ?"));
  sql_->list_below =
      WARREN_TRY(db.prepare("SELECT w.path, w.created_at, s.base_ino, s.mode, s.nlink, s.uid, s.gid, s.size, s.mtime, "
                            "s.mtime_nsec, s.ctime, s.ctime_nsec, s.rdev, s.base_path FROM fs_whiteout w "
                            "LEFT JOIN wr_whiteout s ON s.path = w.path WHERE w.path > ?1 AND w.path < ?2"));
  return Ok{};
}

// Removes rows of nodes that no longer exist: removed by another program, or left by a crash.
Status OverlayRows::collect_leftovers() {
  Database& db = store_.database();
  auto change = WARREN_TRY(Transaction::begin(db, Access::kWrite));
  WARREN_TRY(db.execute(R"sql(
DELETE FROM fs_origin WHERE delta_ino NOT IN (SELECT ino FROM fs_inode);
DELETE FROM wr_origin WHERE delta_ino NOT IN (SELECT ino FROM fs_inode);
DELETE FROM wr_base_range WHERE delta_ino NOT IN (SELECT ino FROM fs_inode);
DELETE FROM wr_ancestor WHERE delta_ino NOT IN (SELECT ino FROM fs_inode);
DELETE FROM wr_whiteout WHERE path NOT IN (SELECT path FROM fs_whiteout);
)sql"));
  return change.commit();
}

FileSystem& OverlayRows::fs() { return store_.fs(); }

Result<std::unique_ptr<Unit>> OverlayRows::begin(UnitAccess access) {
  return TransactionUnit::begin(store_.database(),
                                access == UnitAccess::kWrite ? Access::kSharedWrite : Access::kSharedRead);
}

Result<std::unique_ptr<Unit>> OverlayRows::begin(UnitAccess access, Batched batched,
                                                 std::unique_lock<std::recursive_mutex>& held) {
  Access wanted = access == UnitAccess::kRead ? Access::kSharedRead
                  : batched == Batched::kYes  ? Access::kSharedWrite
                                              : Access::kWrite;
  return TransactionUnit::begin(store_.database(), wanted, &held);
}

Status OverlayRows::reserve(std::uint64_t bytes) { return store_.database().reserve(bytes); }

std::uint64_t OverlayRows::epoch() {
  Database& database = store_.database();
  if (checked_transaction_ != database.transaction_number()) {
    database.look().ignore("the next read returns the error");
    checked_transaction_ = database.transaction_number();
    foreign_epoch_ = database.foreign_epoch();
  }
  return (foreign_epoch_ << 20) + store_.rollbacks();
}

Result<bool> OverlayRows::is_applying() { return is_base_changing(store_); }

Result<Inode> OverlayRows::adopt(Inode parent, std::string_view name, const Attributes& as, std::string_view target) {
  return store_.fs().adopt_copy(parent, name, as, target);
}

Status OverlayRows::restore(Inode node, const Attributes& as) { return store_.fs().restore(node, as); }
Status OverlayRows::keep_nameless(Inode node) { return store_.fs().keep_nameless(node); }
Status OverlayRows::let_go(Inode node) { return store_.fs().let_go(node); }
void OverlayRows::note_name(Inode dir, std::string_view name) { store_.journal()->note_entry(dir, name); }

// Removing and renaming write rows, too, and must be possible on a full disk.
Status OverlayRows::reserve_row(std::size_t bytes) {
  constexpr std::size_t kNumbers = 256;
  return store_.database().reserve(bytes + kNumbers, Room::kLast);
}

Status OverlayRows::add_whiteout(Inode upper_dir, std::string_view path, const Attributes& seen,
                                 std::string_view base_path) {
  WARREN_TRY(reserve_row(2 * path.size() + base_path.size()));
  Timestamp now = store_.clock().now();
  sql_->add_whiteout.bind(1, path).bind(2, now.seconds);
  if (has_parent_path_) sql_->add_whiteout.bind(3, directory_of(path));
  WARREN_TRY(sql_->add_whiteout.run());
  bind_seen(sql_->add_seen.bind(1, path), 2, seen);
  WARREN_TRY(sql_->add_seen.bind(13, base_path).run());
  store_.journal()->note_entry(upper_dir, base_name(path));
  if (seen.is_directory() || seen.nlink <= 1) return Ok{};
  return lose_link({.base_path = std::string(base_path), .base = seen.inode, .generation = seen.generation, .at = now});
}

Status OverlayRows::remove_whiteout(std::string_view path) {
  WARREN_TRY(sql_->restore_link.bind(1, path).run());
  WARREN_TRY(cover_whiteout(path));
  // The base's node shows again. If the directory is gone, that is noted of it.
  Result<Attributes> dir = lstat(store_.fs(), directory_of(path));
  if (dir.ok()) store_.journal()->note_entry(dir->inode, base_name(path));
  return Ok{};
}

Status OverlayRows::cover_whiteout(std::string_view path) {
  WARREN_TRY(sql_->remove_whiteout.bind(1, path).run());
  return sql_->remove_seen.bind(1, path).run();
}

Result<std::vector<LostLink>> OverlayRows::list_lost_links() {
  std::vector<LostLink> lost;
  if (!has_own_) return lost;
  Rows rows = sql_->list_lost.rows();
  while (WARREN_TRY(rows.next())) {
    WARREN_TRY(check_base_path(rows.text(0)));
    lost.push_back({.base_path = std::string(rows.text(0)),
                    .base = Inode{static_cast<std::uint64_t>(rows.integer(1))},
                    .generation = static_cast<std::uint64_t>(rows.integer(4)),
                    .at = {rows.integer(2), static_cast<std::int32_t>(rows.integer(3))}});
  }
  return lost;
}

Status OverlayRows::put_lost_link(const LostLink& link) {
  WARREN_TRY(remove_lost_link(link.base_path));
  return lose_link(link);
}

Status OverlayRows::lose_link(const LostLink& link) {
  WARREN_TRY(reserve_row(link.base_path.size()));
  sql_->lose_link.bind(1, link.base_path).bind(2, link.base.value);
  sql_->lose_link.bind(3, link.at.seconds).bind(4, std::int64_t{link.at.nanoseconds});
  bind_generation(sql_->lose_link, 5, link.generation);
  return sql_->lose_link.run();
}

Status OverlayRows::remove_lost_link(std::string_view base_path) { return sql_->remove_lost.bind(1, base_path).run(); }

Status OverlayRows::rewrite_below(std::string_view from, std::string_view to) {
  struct Moving {
    std::string path;
    std::int64_t created_at;
    std::optional<Attributes> seen;
    std::string base_path;
  };
  std::vector<Moving> moving;
  {
    std::string first = below(from);
    std::string last = after_all_below(from);
    sql_->list_below.bind(1, first).bind(2, last);
    Rows rows = sql_->list_below.rows();
    while (WARREN_TRY(rows.next())) {
      moving.push_back({std::string(rows.text(0)), rows.integer(1),
                        rows.is_null(2) ? std::optional<Attributes>() : std::optional(seen_of(rows, 2)),
                        std::string(rows.text(13))});
    }
  }
  std::size_t bytes = 0;
  for (const Moving& row : moving) bytes += 2 * (row.path.size() + to.size()) + row.base_path.size();
  if (!to.empty() && !moving.empty()) WARREN_TRY(reserve_row(bytes));
  for (const Moving& row : moving) WARREN_TRY(cover_whiteout(row.path));
  if (to.empty()) return Ok{};
  for (const Moving& row : moving) {
    std::string path = below(to) + row.path.substr(below(from).size());
    sql_->add_whiteout.bind(1, path).bind(2, row.created_at);
    if (has_parent_path_) sql_->add_whiteout.bind(3, directory_of(path));
    WARREN_TRY(sql_->add_whiteout.run());
    if (!row.seen) continue;
    bind_seen(sql_->add_seen.bind(1, path), 2, *row.seen);
    WARREN_TRY(sql_->add_seen.bind(13, row.base_path).run());
  }
  return Ok{};
}

Status OverlayRows::move_whiteouts_below(std::string_view from, std::string_view to) { return rewrite_below(from, to); }
Status OverlayRows::remove_whiteouts_below(std::string_view dir) { return rewrite_below(dir, ""); }

Result<std::vector<std::string>> OverlayRows::list_whiteouts_in(std::string_view dir) {
  std::set<std::string> names;  // another program may have stored one of them twice, with and without its '/'
  sql_->list_in.bind(1, dir);
  Rows rows = sql_->list_in.rows();
  while (WARREN_TRY(rows.next())) {
    std::string path = whiteout_path(rows.text(0));
    if (!path.empty() && path != "/" && directory_of(path) == dir) names.emplace(base_name(path));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<std::vector<Whiteout>> OverlayRows::list_whiteouts() {
  std::vector<Whiteout> whiteouts;
  std::map<std::string, std::size_t> known;  // another program may have stored "/x" as "x", too, without a record
  Rows rows = sql_->list_whiteouts.rows();
  while (WARREN_TRY(rows.next())) {
    std::string path = whiteout_path(rows.text(0));
    if (path.empty()) continue;
    auto [at, is_first] = known.emplace(path, whiteouts.size());
    if (is_first) whiteouts.push_back({.path = std::move(path), .seen = {}});
    if (!rows.is_null(1)) whiteouts[at->second].seen = seen_of(rows, 1);
  }
  return whiteouts;
}

Result<std::optional<Attributes>> OverlayRows::find_removed(std::string_view path) {
  if (!has_own_) return std::optional<Attributes>();
  sql_->find_removed.bind(1, path);
  Rows rows = sql_->find_removed.rows();
  if (!WARREN_TRY(rows.next())) return std::optional<Attributes>();
  return std::optional(seen_of(rows, 0));
}

Result<std::vector<Cover>> OverlayRows::list_covers_between(std::string_view first, std::string_view end) {
  std::vector<Cover> covers;
  if (!has_covers_) return covers;
  sql_->list_covers.bind(1, first).bind(2, end);
  Rows rows = sql_->list_covers.rows();
  while (WARREN_TRY(rows.next())) {
    WARREN_TRY(check_base_path(rows.text(0)));
    covers.push_back(cover_of(rows));
  }
  return covers;
}

Result<std::optional<Cover>> OverlayRows::find_cover(std::string_view base_path) {
  std::string end(base_path);
  end += '\0';  // the next text in order, which is no path
  std::vector<Cover> found = WARREN_TRY(list_covers_between(base_path, end));
  return found.empty() ? std::optional<Cover>() : std::optional(std::move(found.front()));
}

Result<std::vector<Cover>> OverlayRows::list_covers() { return list_covers_below("/"); }

Status OverlayRows::put_cover(const Cover& cover) {
  WARREN_TRY(reserve_row(cover.base_path.size()));
  Timestamp at = cover.at == Timestamp{} ? store_.clock().now() : cover.at;
  Statement& put = sql_->put_cover;
  put.bind(1, cover.base_path).bind(2, at.seconds).bind(3, std::int64_t{at.nanoseconds});
  if (cover.seen) {
    bind_seen(put, 4, *cover.seen);
  } else {
    for (int column = 4; column <= 14; ++column) put.bind_null(column);
  }
  return put.run();
}

Status OverlayRows::remove_cover(std::string_view base_path) { return sql_->remove_cover.bind(1, base_path).run(); }

Result<std::vector<Cover>> OverlayRows::list_covers_below(std::string_view base_dir) {
  return list_covers_between(below(base_dir), after_all_below(base_dir));
}

Result<std::vector<Origin>> OverlayRows::list_origins() {
  std::vector<Origin> origins;
  if (!has_own_) return origins;
  Rows rows = sql_->list_origins.rows();
  while (WARREN_TRY(rows.next())) {
    if (!rows.text(1).empty()) WARREN_TRY(check_base_path(rows.text(1)));
    Origin row{.upper = Inode{static_cast<std::uint64_t>(rows.integer(0))},
               .base_path = std::string(rows.text(1)),
               .seen = {},
               .hidden_names = static_cast<std::uint32_t>(rows.integer(2)),
               .is_orphan = rows.integer(15) != 0};
    if (!rows.is_null(3)) row.seen = seen_of(rows, 3);
    if (row.seen) row.seen->generation = static_cast<std::uint64_t>(rows.integer(14));
    origins.push_back(std::move(row));
  }
  return origins;
}

// Where a node comes from is noted in the journal like its attributes: checkpoints follow it.
Status OverlayRows::put_origin(const Origin& origin) {
  store_.journal()->note_attributes(origin.upper);
  WARREN_TRY(reserve_row(origin.base_path.size()));
  if (origin.seen && !origin.base_path.empty() && origin.upper != kRootInode) {
    WARREN_TRY(sql_->put_origin.bind(1, origin.upper.value).bind(2, origin.seen->inode.value).run());
  }
  sql_->put_own_origin.bind(1, origin.upper.value).bind(2, origin.base_path).bind(3, origin.hidden_names);
  if (origin.seen) {
    bind_seen(sql_->put_own_origin, 4, *origin.seen);
  } else {
    for (int column = 4; column <= 14; ++column) sql_->put_own_origin.bind_null(column);
  }
  bind_generation(sql_->put_own_origin, 15, origin.seen ? origin.seen->generation : 0);
  return sql_->put_own_origin.run();
}

Status OverlayRows::remove_origin(Inode upper) {
  store_.journal()->note_attributes(upper);
  WARREN_TRY(sql_->remove_origin.bind(1, upper.value).run());
  WARREN_TRY(sql_->remove_own_origin.bind(1, upper.value).run());
  WARREN_TRY(sql_->remove_ranges.bind(1, upper.value).run());
  return sql_->remove_ancestor.bind(1, upper.value).run();
}

Result<std::vector<ByteRange>> OverlayRows::list_base_ranges(Inode upper) {
  std::vector<ByteRange> ranges;
  if (!has_own_) return ranges;
  sql_->list_ranges.bind(1, upper.value);
  Rows rows = sql_->list_ranges.rows();
  while (WARREN_TRY(rows.next())) {
    ByteRange range{static_cast<std::uint64_t>(rows.integer(0)), static_cast<std::uint64_t>(rows.integer(1))};
    bool is_valid =
        range.begin < range.end && range.end <= limits::kFileBytes;  // a negative number is a large one here
    if (!is_valid || (!ranges.empty() && range.begin < ranges.back().end)) {
      return Error(Code::kCorrupt,
                   fmt::format("the agent file is damaged: node {} takes bytes {} to {} from the base", upper.value,
                               rows.integer(0), rows.integer(1)),
                   "`warren fsck` lists what is damaged");
    }
    ranges.push_back(range);
  }
  return ranges;
}

Status OverlayRows::set_base_ranges(Inode upper, const std::vector<ByteRange>& ranges) {
  store_.journal()->note_attributes(upper);
  WARREN_TRY(reserve_row(ranges.size() * sizeof(ByteRange)));
  WARREN_TRY(sql_->remove_ranges.bind(1, upper.value).run());
  for (const ByteRange& range : ranges) {
    WARREN_TRY(sql_->add_range.bind(1, upper.value).bind(2, range.begin).bind(3, range.end).run());
  }
  return Ok{};
}

// None is kept of an encrypted file: it would not be encrypted.
Status OverlayRows::keep_ancestor(Inode upper, Bytes content) {
  if (WARREN_TRY(store_.fs().find_content_key(upper))) return Ok{};
  store_.journal()->note_attributes(upper);
  return sql_->keep_ancestor.bind(1, upper.value).bind(2, content).run();
}

Result<std::optional<std::string>> OverlayRows::find_ancestor(Inode upper) {
  if (!has_own_) return std::optional<std::string>();
  sql_->find_ancestor.bind(1, upper.value);
  Rows rows = sql_->find_ancestor.rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  Bytes content = rows.blob(0);
  return std::optional(std::string(reinterpret_cast<const char*>(content.data()), content.size()));
}

}  // namespace warren
