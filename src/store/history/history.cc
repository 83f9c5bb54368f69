#include "store/history/history.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "db/transaction.h"
#include "store/files/sqlite_fs.h"
#include "store/record/audit_log.h"
#include "store/record/journal.h"
#include "store/tables/kv.h"
#include "store/tables/usage.h"

namespace warren {
namespace {

constexpr std::size_t kNameBytesMax = 255;
constexpr std::int64_t kIdMax = std::int64_t{1} << 60;
constexpr std::size_t kRowsFollowed = 70'000;    // of the journal; it keeps a few more than 65,536
constexpr std::size_t kNodesFollowed = 200'000;  // beyond that, comparing everything is not slower

constexpr Sql kCheckpointTable = R"sql(
CREATE TABLE IF NOT EXISTS wr_checkpoint (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  at_us INTEGER NOT NULL,
  cause TEXT NOT NULL
);
)sql";

// The first checkpoint copies everything, which must not stay in memory until the commit, as a batch does.
class SpillScope {
 public:
  explicit SpillScope(Database& database) : database_(database) {
    if (database_.is_grouped()) database_.execute("PRAGMA cache_spill=1").ignore("it takes more memory");
  }
  ~SpillScope() {
    if (database_.is_grouped()) database_.execute("PRAGMA cache_spill=0").ignore("a batch may then write early");
  }
  SpillScope(const SpillScope&) = delete;
  SpillScope& operator=(const SpillScope&) = delete;

 private:
  Database& database_;
};

Error not_found(std::string_view which) {
  return {Code::kNotFound, fmt::format("there is no checkpoint {}", quote(which)),
          "`warren checkpoint ID list` shows them"};
}

Checkpoint checkpoint_of(const Rows& rows) {
  return {.id = rows.integer(0),
          .name = std::string(rows.text(1)),
          .at_us = rows.integer(2),
          .cause = std::string(rows.text(3))};
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

template <class T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

Result<bool> has_history(Database& database) {
  Statement query =
      WARREN_TRY(database.prepare("SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'wr_checkpoint'"));
  auto found = WARREN_TRY(query.find_integer());
  return found.has_value();
}

Status check_checkpoint_name(std::string_view name) {
  std::string_view problem = name.empty()                  ? "it is empty"
                             : name.size() > kNameBytesMax ? "it has more than 255 bytes"
                             : !is_printable(name)         ? "it has control characters"
                             : name.find('/') != name.npos ? "it contains '/'"
                             : name.find('@') != name.npos ? "it contains '@'"
                             : is_number(name)             ? "a number would be an id"
                             : name == "." || name == ".." ? "it would be a directory"
                                                           : "";
  if (problem.empty()) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not a valid name for a checkpoint: {}", quote(name), problem));
}

std::string label_of(const Checkpoint& checkpoint) { return fmt::format("{}@{}", checkpoint.name, checkpoint.id); }

Result<bool> History::exists() { return has_history(database_); }

// Returns whether they were all there: otherwise what they have cannot be relied on.
Result<bool> History::make_tables() {
  TableNames names = WARREN_TRY(TableNames::read(database_));
  bool is_complete = names.has("wr_checkpoint") && std::ranges::all_of(past_tables(), [&](const PastTable& table) {
                       return names.has(table.past.text());
                     });
  if (is_complete) return true;
  WARREN_TRY(database_.execute(kCheckpointTable));
  WARREN_TRY(make_past_tables(database_));
  return false;
}

Result<std::optional<History::Position>> History::find_position() {
  Statement get = WARREN_TRY(database_.prepare(
      "SELECT (SELECT value FROM wr_meta WHERE key = 'history_version'), (SELECT value FROM wr_meta WHERE key = "
      "'history_seq'), (SELECT value FROM wr_meta WHERE key = 'history_commit')"));
  Rows rows = get.rows();
  if (!WARREN_TRY(rows.next())) return std::optional<Position>();
  for (int column = 0; column < 3; ++column) {
    if (rows.type(column) != ColumnType::kInteger) return std::optional<Position>();
  }
  return std::optional(Position{rows.integer(0), rows.integer(1), rows.integer(2)});
}

// Up to here, in the row of the journal that is written now. Whatever the transaction changes later gets another row.
Status History::set_position(std::int64_t version) {
  std::int64_t last = WARREN_TRY(store_.journal()->last_seq());
  store_.journal()->note_row();
  WARREN_TRY(store_.journal()->write());
  Statement put = WARREN_TRY(
      database_.prepare("INSERT INTO wr_meta (key, value) VALUES ('history_version', ?1), ('history_seq', ?2), "
                        "('history_commit', ?3) ON CONFLICT (key) DO UPDATE SET value = excluded.value"));
  return put.bind(1, version).bind(2, last + 1).bind(3, database_.next_commit_number().value_or(0)).run();
}

// Every commit since then must have left a row, with consecutive numbers up to this transaction. A commit with a
// checkpoint has several.
Result<History::Dirty> History::find_dirty(const std::optional<Position>& position) {
  Dirty everything{.is_everything = true, .nodes = {}, .names = {}, .keys = {}};
  if (!position) return everything;
  std::unique_ptr<Journal> own;  // a reader has none
  if (store_.journal() == nullptr) own = WARREN_TRY(Journal::open(database_, store_.schema(), store_.clock()));
  Journal& journal = own ? *own : *store_.journal();
  auto rows = WARREN_TRY(journal.read_after(position->seq, kRowsFollowed));
  if (!rows || rows->size() == kRowsFollowed) return everything;
  bool is_alone = store_.path() == ":memory:";
  std::int64_t seq = position->seq;
  std::int64_t number = position->commit_number;
  Dirty dirty;
  for (JournalRow& row : *rows) {
    bool is_next = is_alone || row.commit_number == number || row.commit_number == number + 1;
    if (row.seq != ++seq || !is_next) return everything;
    number = row.commit_number.value_or(number);
    for (Change& change : row.changes) {
      switch (change.kind) {
        case ChangeKind::kEntry:
          dirty.nodes.push_back(change.id);
          dirty.names.emplace_back(change.id, std::move(change.name));
          break;
        case ChangeKind::kData:
        case ChangeKind::kAttributes: dirty.nodes.push_back(change.id); break;
        case ChangeKind::kKey: dirty.keys.push_back(std::move(change.name)); break;
        case ChangeKind::kToolCall:
        case ChangeKind::kAudit:
        case ChangeKind::kBase: break;
        case ChangeKind::kEverything: return everything;
      }
    }
  }
  std::optional<std::int64_t> now = database_.next_commit_number();
  bool is_last = now == number + 1 || (now == number && database_.is_in_transaction());  // of this transaction
  if (!is_alone && !is_last) return everything;
  sort_unique(dirty.names);
  sort_unique(dirty.keys);
  WARREN_TRY(add_nodes_of_names(dirty));
  sort_unique(dirty.nodes);
  if (dirty.nodes.size() > kNodesFollowed) return everything;
  return dirty;
}

// The node that a name leads to now, and the one that it led to.
Status History::add_nodes_of_names(Dirty& dirty) {
  Statement now = WARREN_TRY(database_.prepare("SELECT ino FROM fs_dentry WHERE parent_ino = ? AND name = ?"));
  Statement before = WARREN_TRY(database_.prepare(
      "SELECT ino FROM wr_past_dentry WHERE parent_ino = ? AND name = ? AND until = 9223372036854775807"));
  for (const auto& [parent, name] : dirty.names) {
    for (Statement* find : {&now, &before}) {
      auto node = WARREN_TRY(find->bind(1, parent).bind(2, std::string_view(name)).find_integer());
      if (node) dirty.nodes.push_back(static_cast<std::uint64_t>(*node));
    }
  }
  return Ok{};
}

std::string History::json_list(const std::vector<std::uint64_t>& nodes) const {
  std::string list = "[";
  for (std::uint64_t node : nodes) list += fmt::format("{}{}", list.size() > 1 ? "," : "", node);
  return list + "]";
}

// Makes the open versions what the tables have now.
Status History::follow(const Dirty& dirty, std::int64_t version) {
  TableNames names = WARREN_TRY(TableNames::read(database_));
  std::string nodes = json_list(dirty.nodes);
  Statement last = WARREN_TRY(database_.prepare("SELECT max(id) FROM wr_checkpoint"));
  std::optional<std::int64_t> last_checkpoint = WARREN_TRY(last.find_integer());
  MountedRows mounted(store_);
  bool has_mounted = WARREN_TRY(mounted.has_changes());
  has_mounted = has_mounted || dirty.is_everything;
  for (const PastTable& table : past_tables()) {
    PastSql sql(table, names);
    if (!sql.exists() || (table.scope == PastScope::kMount && !has_mounted)) continue;
    PastSql::Rows rows = dirty.is_everything ? PastSql::Rows::kAll : PastSql::Rows::kListed;
    Statement end = WARREN_TRY(database_.prepare(sql.end_changed(rows)));
    Statement add = WARREN_TRY(database_.prepare(sql.add_new(rows)));
    for (Statement* step : {&end, &add}) {
      step->bind(1, version);
      bool is_whole = table.scope == PastScope::kWhole || table.scope == PastScope::kMount;
      if (rows == PastSql::Rows::kAll || is_whole) {
        WARREN_TRY(step->run());
      } else if (table.scope == PastScope::kNode || table.scope == PastScope::kItem) {
        if (!dirty.nodes.empty()) WARREN_TRY(step->bind(2, std::string_view(nodes)).run());
      } else if (table.scope == PastScope::kName) {
        for (const auto& [parent, name] : dirty.names) {
          WARREN_TRY(step->bind(1, version).bind(2, parent).bind(3, std::string_view(name)).run());
        }
      } else {
        for (const std::string& key : dirty.keys) {
          WARREN_TRY(step->bind(1, version).bind(2, std::string_view(key)).run());
        }
      }
    }
    // Versions between two checkpoints, which none of them needs.
    JoinedSql drop = Sql("DELETE FROM ");
    drop += table.past;
    drop += Sql(" WHERE until = ?1 AND until < 9223372036854775807 AND since > ?2");
    Statement unneeded = WARREN_TRY(database_.prepare(drop));
    WARREN_TRY(unneeded.bind(1, version).bind(2, last_checkpoint.value_or(0)).run());
  }
  return mounted.forget_changes();
}

Result<std::int64_t> History::last_version() {
  Statement get = WARREN_TRY(
      database_.prepare("SELECT value FROM wr_meta WHERE key = 'history_version' AND typeof(value) = 'integer'"));
  auto version = WARREN_TRY(get.find_integer());
  return version.value_or(0);
}

// In the running transaction.
Result<Checkpoint> History::add(std::string_view name, std::string_view cause,
                                const std::vector<CoveredMount>& covered) {
  if (store_.journal()->has_notes()) {
    return Error(Code::kInvalid, "a checkpoint cannot be taken while a unit with changes is open");
  }
  WARREN_TRY(MountedRows(store_).cover(covered));
  bool is_complete = WARREN_TRY(make_tables());
  store_.keep_history();
  std::optional<Position> position;
  if (is_complete) position = WARREN_TRY(find_position());
  Statement newest = WARREN_TRY(database_.prepare("SELECT max(id) FROM wr_checkpoint"));
  std::optional<std::int64_t> newest_id = WARREN_TRY(newest.find_integer());
  std::int64_t highest = newest_id.value_or(0);
  if (position && position->version < highest) position.reset();  // the rows contradict each other
  std::int64_t last = WARREN_TRY(last_version());
  if (std::max(highest, last) > kIdMax) {
    return Error(Code::kCorrupt, "the ids of checkpoints are used up: wr_meta or wr_checkpoint has a wrong number",
                 "`warren fsck` shows what is damaged");
  }
  std::int64_t id = std::max({highest + 1, last + 1, std::int64_t{1}});
  Dirty dirty = WARREN_TRY(find_dirty(position));
  WARREN_TRY(follow(dirty, id));
  Checkpoint made{.id = id, .name = std::string(name), .at_us = store_.clock().now_us(), .cause = std::string(cause)};
  Statement insert =
      WARREN_TRY(database_.prepare("INSERT INTO wr_checkpoint (id, name, at_us, cause) VALUES (?, ?, ?, ?)"));
  WARREN_TRY(insert.bind(1, id).bind(2, name).bind(3, made.at_us).bind(4, cause).run());
  WARREN_TRY(set_position(id));
  store_.audit().note("checkpoint", label_of(made), kCheckpointDoor);
  return made;
}

Result<Checkpoint> History::take(std::string_view name, std::string_view cause,
                                 const std::vector<CoveredMount>& covered) {
  WARREN_TRY(check_checkpoint_name(name));
  auto guard = database_.lock();  // until the spill scope has ended
  SpillScope spill(database_);
  Transaction change = WARREN_TRY(Transaction::begin(database_, Access::kWrite, &guard));
  Checkpoint made = WARREN_TRY(add(name, cause, covered));
  WARREN_TRY(change.commit());
  return made;
}

Result<Checkpoint> History::take_automatic(std::string_view name, std::string_view cause,
                                           const std::vector<CoveredMount>& covered) {
  WARREN_TRY(check_checkpoint_name(name));
  auto guard = database_.lock();
  SpillScope spill(database_);
  Transaction change = WARREN_TRY(Transaction::begin(database_, Access::kWrite, &guard));
  Checkpoint made = WARREN_TRY(add(name, cause, covered));
  WARREN_TRY(remove_older(made));
  WARREN_TRY(change.commit());
  return made;
}

Result<std::vector<Checkpoint>> History::list() {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kRead));
  std::vector<Checkpoint> all;
  if (!WARREN_TRY(exists())) return all;
  Statement query = WARREN_TRY(database_.prepare("SELECT id, name, at_us, cause FROM wr_checkpoint ORDER BY id"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) all.push_back(checkpoint_of(rows));
  return all;
}

Result<Checkpoint> History::get(std::string_view which) {
  std::vector<Checkpoint> all = WARREN_TRY(list());
  std::optional<std::int64_t> id = is_number(which) ? parse_number<std::int64_t>(which) : std::nullopt;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (id ? at->id == *id : at->name == which) return *at;
  }
  return not_found(which);
}

Status History::check_exists(std::int64_t id) {
  bool is_there = WARREN_TRY(exists());
  if (is_there) {
    Statement query = WARREN_TRY(database_.prepare("SELECT 1 FROM wr_checkpoint WHERE id = ?"));
    auto found = WARREN_TRY(query.bind(1, id).find_integer());
    is_there = found.has_value();
  }
  return is_there ? Status(Ok{}) : Status(not_found(std::to_string(id)));
}

Result<bool> History::has_changed() {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kRead));
  if (!WARREN_TRY(exists())) return true;
  std::optional<Position> position = WARREN_TRY(find_position());
  if (!position) return true;
  auto rows = WARREN_TRY(store_.journal()->read_after(position->seq, kRowsFollowed));
  if (!rows || rows->size() == kRowsFollowed) return true;
  bool is_listed = std::ranges::any_of(*rows, [](const JournalRow& row) {
    return std::ranges::any_of(row.changes, [](const Change& one) {
      return one.kind != ChangeKind::kToolCall && one.kind != ChangeKind::kAudit && one.kind != ChangeKind::kBase;
    });
  });
  if (is_listed) return true;
  return MountedRows(store_).has_changes();
}

Result<CheckpointSize> History::measure(std::int64_t id) {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kRead));
  WARREN_TRY(check_exists(id));
  Statement query = WARREN_TRY(database_.prepare(
      "SELECT (SELECT count(*) FROM wr_past_inode WHERE since = ?1), (SELECT count(*) FROM wr_past_dentry WHERE since "
      "= ?1), (SELECT count(*) FROM wr_past_kv WHERE since = ?1), (SELECT coalesce(sum(octet_length(data)), 0) FROM "
      "wr_past_data WHERE since = ?1)"));
  Rows rows = query.bind(1, id).rows();
  CheckpointSize size;
  if (!WARREN_TRY(rows.next())) return size;
  size.nodes = static_cast<std::uint64_t>(rows.integer(0));
  size.names = static_cast<std::uint64_t>(rows.integer(1));
  size.keys = static_cast<std::uint64_t>(rows.integer(2));
  size.bytes = static_cast<std::uint64_t>(rows.integer(3));
  TableNames names = WARREN_TRY(TableNames::read(database_));
  if (!names.has("wr_past_mounted")) return size;  // of an older program
  Statement mounted = WARREN_TRY(database_.prepare(
      "SELECT count(*), coalesce(sum(octet_length(value)), 0) FROM wr_past_mounted WHERE since = ? AND key > ''"));
  Rows values = mounted.bind(1, id).rows();
  if (!WARREN_TRY(values.next())) return size;
  size.mounted = static_cast<std::uint64_t>(values.integer(0));
  size.mounted_bytes = static_cast<std::uint64_t>(values.integer(1));
  return size;
}

Result<std::vector<std::string>> History::list_covered(std::int64_t id) {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kRead));
  WARREN_TRY(check_exists(id));
  std::vector<std::string> mounts;
  TableNames names = WARREN_TRY(TableNames::read(database_));
  if (!names.has("wr_past_mounted")) return mounts;
  Statement query = WARREN_TRY(database_.prepare(
      "SELECT mount FROM wr_past_mounted WHERE key = '' AND since <= ?1 AND until > ?1 ORDER BY mount"));
  Rows rows = query.bind(1, id).rows();
  while (WARREN_TRY(rows.next())) mounts.emplace_back(rows.text(0));
  return mounts;
}

Result<PastChanges> History::list_changed(std::int64_t from, std::optional<std::int64_t> to) {
  TableNames names = WARREN_TRY(TableNames::read(database_));
  PastChanges changed;
  for (const PastTable& table : past_tables()) {
    PastSql sql(table, names);
    if (!sql.exists()) continue;
    Statement query = WARREN_TRY(database_.prepare(to ? sql.list_changed_between() : sql.list_changed_since()));
    query.bind(1, from);
    if (to) query.bind(2, *to);
    Rows rows = query.rows();
    while (WARREN_TRY(rows.next())) {
      Inode node{static_cast<std::uint64_t>(rows.integer(0))};
      switch (table.scope) {
        case PastScope::kNode:
        case PastScope::kItem: changed.nodes.push_back(node); break;
        case PastScope::kName: changed.names.emplace_back(node, std::string(rows.text(1))); break;
        case PastScope::kKey: changed.keys.emplace_back(rows.text(0)); break;
        case PastScope::kWhole: changed.has_base_changes = true; break;
        case PastScope::kMount: break;  // nobody has them in a cache
      }
    }
  }
  std::sort(changed.nodes.begin(), changed.nodes.end(), [](Inode a, Inode b) { return a.value < b.value; });
  changed.nodes.erase(std::unique(changed.nodes.begin(), changed.nodes.end()), changed.nodes.end());
  sort_unique(changed.keys);
  return changed;
}

Result<PastChanges> History::changes(std::int64_t from, std::optional<std::int64_t> to) {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kRead));
  WARREN_TRY(check_exists(from));
  if (to) WARREN_TRY(check_exists(*to));
  if (to) return list_changed(std::min(from, *to), std::max(from, *to));
  std::optional<Position> position = WARREN_TRY(find_position());
  PastChanges changed = WARREN_TRY(list_changed(from, std::nullopt));
  // If somebody commits meanwhile, the numbers do not match, and everything may have changed.
  Dirty dirty = WARREN_TRY(find_dirty(position));
  changed.is_everything = dirty.is_everything;
  for (std::uint64_t node : dirty.nodes) changed.nodes.push_back(Inode{node});
  for (auto& [parent, name] : dirty.names) changed.names.emplace_back(Inode{parent}, std::move(name));
  for (std::string& key : dirty.keys) changed.keys.push_back(std::move(key));
  sort_unique(changed.keys);
  return changed;
}

Result<std::vector<Inode>> History::list_touched_dirs(const PastChanges& changed) {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kRead));
  Statement parents = WARREN_TRY(database_.prepare("SELECT DISTINCT parent_ino FROM wr_past_dentry WHERE ino = ?"));
  std::unordered_set<std::uint64_t> seen;
  std::vector<std::uint64_t> todo;
  auto add = [&](std::uint64_t node) {
    if (seen.insert(node).second) todo.push_back(node);
  };
  for (Inode node : changed.nodes) add(node.value);
  for (const auto& [parent, name] : changed.names) add(parent.value);
  while (!todo.empty()) {
    std::uint64_t node = todo.back();
    todo.pop_back();
    Rows rows = parents.bind(1, node).rows();
    while (WARREN_TRY(rows.next())) add(static_cast<std::uint64_t>(rows.integer(0)));
  }
  std::vector<Inode> dirs;
  for (std::uint64_t node : seen) dirs.push_back(Inode{node});
  return dirs;
}

Result<bool> History::is_exact() {
  Transaction view = WARREN_TRY(store_.begin_write());
  TableNames names = WARREN_TRY(TableNames::read(database_));
  std::int64_t before = database_.total_changes();
  for (const PastTable& table : past_tables()) {
    PastSql sql(table, names);
    if (!sql.exists()) continue;
    Statement end = WARREN_TRY(database_.prepare(sql.end_changed(PastSql::Rows::kAll)));
    Statement add = WARREN_TRY(database_.prepare(sql.add_new(PastSql::Rows::kAll)));
    for (Statement* step : {&end, &add}) WARREN_TRY(step->bind(1, kOpenEnd - 1).run());
  }
  return database_.total_changes() == before;  // and nothing is committed
}

Result<std::int64_t> show_checkpoint(Database& database, std::int64_t id) {
  if (!WARREN_TRY(has_history(database))) return not_found(std::to_string(id));
  Statement find = WARREN_TRY(database.prepare("SELECT at_us FROM wr_checkpoint WHERE id = ?"));
  std::optional<std::int64_t> at_us = WARREN_TRY(find.bind(1, id).find_integer());
  if (!at_us) return not_found(std::to_string(id));
  TableNames names = WARREN_TRY(TableNames::read(database));
  for (const PastTable& table : past_tables()) {
    PastSql sql(table, names);
    if (sql.is_live()) WARREN_TRY(database.execute(sql.make_view(id)));
  }
  return *at_us;
}

}  // namespace warren
