#include "store/files/nodes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

// Columns that an older schema lacks are computed or zero; their order is the same in each.
#define WARREN_COLUMNS_0_4                                                                                \
  "i.ino, i.mode, i.nlink, i.uid, i.gid, i.size, i.atime, i.atime_nsec, i.mtime, i.mtime_nsec, i.ctime, " \
  "i.ctime_nsec, i.rdev"
#define WARREN_COLUMNS_0_2 "i.ino, i.mode, i.nlink, i.uid, i.gid, i.size, i.atime, 0, i.mtime, 0, i.ctime, 0, 0"
#define WARREN_COLUMNS_0_0                                                                                    \
  "i.ino, i.mode, (SELECT count(*) FROM fs_dentry l WHERE l.ino = i.ino), i.uid, i.gid, i.size, i.atime, 0, " \
  "i.mtime, 0, i.ctime, 0, 0"
constexpr int kColumns = 13;

// One query for each of the three schemas: EACH_SCHEMA("SELECT ", " FROM fs_inode i").
#define WARREN_EACH_SCHEMA(before, after) \
  before WARREN_COLUMNS_0_4 after, before WARREN_COLUMNS_0_2 after, before WARREN_COLUMNS_0_0 after

Result<Statement> prepare_for(Database& database, SchemaVersion version, Sql v0_4, Sql v0_2, Sql v0_0) {
  switch (version) {
    case SchemaVersion::k0_0: return database.prepare(v0_0);
    case SchemaVersion::k0_2: return database.prepare(v0_2);
    case SchemaVersion::k0_4: break;
  }
  return database.prepare(v0_4);
}

Timestamp timestamp_at(const Rows& rows, int column) {
  return {.seconds = rows.integer(column), .nanoseconds = static_cast<std::int32_t>(rows.integer(column + 1))};
}

Attributes attributes_at(const Rows& rows, int first) {
  Attributes node;
  node.inode = Inode{static_cast<std::uint64_t>(rows.integer(first))};
  node.mode = static_cast<std::uint32_t>(rows.integer(first + 1));
  node.nlink = static_cast<std::uint32_t>(rows.integer(first + 2));
  node.owner = {.uid = static_cast<std::uint32_t>(rows.integer(first + 3)),
                .gid = static_cast<std::uint32_t>(rows.integer(first + 4))};
  node.size = static_cast<std::uint64_t>(rows.integer(first + 5));
  node.atime = timestamp_at(rows, first + 6);
  node.mtime = timestamp_at(rows, first + 8);
  node.ctime = timestamp_at(rows, first + 10);
  node.rdev = static_cast<std::uint64_t>(rows.integer(first + 12));
  return node;
}

Error missing_node(std::string_view name, Inode node) {
  return {Code::kCorrupt, fmt::format("the entry {} leads to node {}, which does not exist", quote(name), node.value),
          "`warren fsck --repair` repairs it"};
}

// Parameters 1 to 12 of insert_ and update_.
Statement& bind_node(Statement& statement, const Attributes& node) {
  return statement.bind(1, node.mode)
      .bind(2, node.nlink)
      .bind(3, node.owner.uid)
      .bind(4, node.owner.gid)
      .bind(5, node.size)
      .bind(6, node.atime.seconds)
      .bind(7, node.atime.nanoseconds)
      .bind(8, node.mtime.seconds)
      .bind(9, node.mtime.nanoseconds)
      .bind(10, node.ctime.seconds)
      .bind(11, node.ctime.nanoseconds)
      .bind(12, node.rdev);
}

}  // namespace

Result<std::unique_ptr<Nodes>> Nodes::open(Database& database, const Schema& schema, UndoLog& undo) {
  auto nodes = std::make_unique<Nodes>();
  nodes->database_ = &database;
  nodes->undo_ = &undo;
  WARREN_TRY(nodes->prepare(database, schema));
  return nodes;
}

Status Nodes::prepare(Database& db, const Schema& schema) {
  SchemaVersion version = schema.version;
  find_ = WARREN_TRY(prepare_for(db, version, WARREN_EACH_SCHEMA("SELECT ", " FROM fs_inode i WHERE i.ino = ?")));
  find_entry_ =
      WARREN_TRY(prepare_for(db, version,
                             WARREN_EACH_SCHEMA("SELECT ",
                                                ", d.ino FROM fs_dentry d LEFT JOIN fs_inode i ON i.ino = d.ino "
                                                "WHERE d.parent_ino = ? AND d.name = ?")));
  list_names_ =
      WARREN_TRY(db.prepare("SELECT id, name FROM fs_dentry WHERE parent_ino = ? AND name > ? ORDER BY name LIMIT ?"));
  list_types_ =
      WARREN_TRY(db.prepare("SELECT d.id, d.name, d.ino, i.mode FROM fs_dentry d LEFT JOIN fs_inode i ON i.ino = d.ino "
                            "WHERE d.parent_ino = ? AND d.name > ? ORDER BY d.name LIMIT ?"));
  list_attributes_ =
      WARREN_TRY(prepare_for(db, version,
                             WARREN_EACH_SCHEMA("SELECT d.id, d.name, d.ino, i.mode, ",
                                                " FROM fs_dentry d LEFT JOIN fs_inode i ON i.ino = d.ino "
                                                "WHERE d.parent_ino = ? AND d.name > ? ORDER BY d.name LIMIT ?")));
  has_entries_ = WARREN_TRY(db.prepare("SELECT 1 FROM fs_dentry WHERE parent_ino = ? LIMIT 1"));
  count_subdirectories_ = WARREN_TRY(
      db.prepare("SELECT count(*), coalesce(sum((i.mode & 61440) = 16384), 0) FROM "
                 "(SELECT ino FROM fs_dentry WHERE parent_ino = ? LIMIT ?) d LEFT JOIN fs_inode i ON i.ino = d.ino"));
  count_entries_of_ = WARREN_TRY(db.prepare("SELECT count(*) FROM fs_dentry WHERE ino = ?"));
  list_entries_of_ = WARREN_TRY(db.prepare("SELECT parent_ino, name FROM fs_dentry WHERE ino = ?"));
#define WARREN_GATHER "SELECT d.ino, d.parent_ino, d.name FROM fs_dentry d JOIN fs_inode i ON i.ino = d.ino WHERE "
  gather_entries_ = WARREN_TRY(prepare_for(db, version, WARREN_GATHER "(i.mode & 61440) = 16384 OR i.nlink > 1 LIMIT ?",
                                           WARREN_GATHER "(i.mode & 61440) = 16384 OR i.nlink > 1 LIMIT ?",
                                           WARREN_GATHER "(i.mode & 61440) = 16384 LIMIT ?"));
#undef WARREN_GATHER
  find_parent_ = WARREN_TRY(db.prepare("SELECT parent_ino FROM fs_dentry WHERE ino = ? LIMIT 1"));
  find_name_ = WARREN_TRY(db.prepare("SELECT name FROM fs_dentry WHERE id = ? AND parent_ino = ?"));
  find_entry_id_ = WARREN_TRY(db.prepare("SELECT id FROM fs_dentry WHERE parent_ino = ? AND name = ?"));
  count_nodes_ = WARREN_TRY(db.prepare("SELECT count(*) FROM fs_inode"));
  if (schema.has_symlinks) get_target_ = WARREN_TRY(db.prepare("SELECT target FROM fs_symlink WHERE ino = ?"));
  if (!schema.is_current() || db.is_read_only()) return Ok{};

  insert_ = WARREN_TRY(
      db.prepare("INSERT INTO fs_inode (mode, nlink, uid, gid, size, atime, atime_nsec, mtime, mtime_nsec, ctime, "
                 "ctime_nsec, rdev) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert_numbered_ = WARREN_TRY(
      db.prepare("INSERT INTO fs_inode (mode, nlink, uid, gid, size, atime, atime_nsec, mtime, mtime_nsec, ctime, "
                 "ctime_nsec, rdev, ino) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  last_inode_ =
      WARREN_TRY(db.prepare("SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'fs_inode'), 0), "
                            "coalesce((SELECT max(ino) FROM fs_inode), 0))"));
  update_ =
      WARREN_TRY(db.prepare("UPDATE fs_inode SET mode = ?1, nlink = ?2, uid = ?3, gid = ?4, size = ?5, atime = ?6, "
                            "atime_nsec = ?7, mtime = ?8, mtime_nsec = ?9, ctime = ?10, ctime_nsec = ?11, rdev = ?12 "
                            "WHERE ino = ?13"));
  touch_ = WARREN_TRY(
      db.prepare("UPDATE fs_inode SET mtime = ?1, mtime_nsec = ?2, ctime = ?1, ctime_nsec = ?2 WHERE ino = ?3"));
  erase_ = WARREN_TRY(db.prepare("DELETE FROM fs_inode WHERE ino = ?"));
  insert_entry_ = WARREN_TRY(db.prepare("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES (?, ?, ?)"));
  move_entry_ =
      WARREN_TRY(db.prepare("UPDATE fs_dentry SET parent_ino = ?, name = ? WHERE parent_ino = ? AND name = ?"));
  retarget_entry_ = WARREN_TRY(db.prepare("UPDATE fs_dentry SET ino = ? WHERE parent_ino = ? AND name = ?"));
  erase_entry_ = WARREN_TRY(db.prepare("DELETE FROM fs_dentry WHERE parent_ino = ? AND name = ?"));
  set_target_ = WARREN_TRY(db.prepare("INSERT INTO fs_symlink (ino, target) VALUES (?, ?)"));
  erase_target_ = WARREN_TRY(db.prepare("DELETE FROM fs_symlink WHERE ino = ?"));
  return Ok{};
}

Status Nodes::refresh() {
  if (database_->transaction_number() == checked_transaction_) return Ok{};
  WARREN_TRY(database_->look());
  std::uint64_t epoch = database_->foreign_epoch();
  if (epoch != foreign_epoch_) {
    cache_.clear();
    node_count_.reset();
    forget_gathered();
  }
  foreign_epoch_ = epoch;
  checked_transaction_ = database_->transaction_number();
  return Ok{};
}

void Nodes::forget_rows() {
  forget_cache();
  kept_.clear();
  kept_entries_.clear();
  kept_queue_.clear();
  kept_entry_queue_.clear();
  numbered_transaction_ = 0;
}

void Nodes::forget_cache() {
  cache_.clear();
  node_count_.reset();
  forget_gathered();
}

// Before a kept row changes, or stops being kept.
void Nodes::remember_for_undo(Inode node) {
  if (!undo_->is_active()) return;
  auto kept = kept_.find(node);
  if (kept == kept_.end()) {
    undo_->add([this, node] { kept_.erase(node); });
    return;
  }
  undo_->add([this, node, before = kept->second] {
    kept_.insert_or_assign(node, before);
    kept_queue_.push(node);
  });
}

void Nodes::remember_for_undo(Inode parent, std::string_view name) {
  if (!undo_->is_active()) return;
  const KeptEntry* kept = find_kept_entry(parent, name);
  if (kept == nullptr) {
    undo_->add([this, parent, key = std::string(name)] {
      auto dir = kept_entries_.find(parent);
      if (dir != kept_entries_.end()) dir->second.erase(key);
    });
    return;
  }
  undo_->add([this, parent, key = std::string(name), before = *kept] {
    kept_entries_[parent].insert_or_assign(key, before);
    kept_entry_queue_.push(parent, key);
  });
}

Result<std::optional<Attributes>> Nodes::find(Inode node) {
  WARREN_TRY(refresh());
  if (std::optional<Attributes> known = cache_.find(node)) return known;
  if (auto kept = kept_.find(node); kept != kept_.end()) {
    cache_.put(kept->second.row);
    return std::optional(kept->second.row);
  }
  Rows rows = find_.bind(1, node.value).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<Attributes>();
  Attributes found = attributes_at(rows, 0);
  cache_.put(found);
  return std::optional(found);
}

Result<std::optional<Attributes>> Nodes::find_entry(Inode parent, std::string_view name) {
  WARREN_TRY(refresh());
  if (std::optional<Inode> known = cache_.find_entry(parent, name)) {
    if (*known == kNoEntry) return std::optional<Attributes>();
    return find(*known);
  }
  if (const KeptEntry* kept = find_kept_entry(parent, name); kept != nullptr) {
    cache_.put_entry(parent, name, kept->now.value_or(kNoEntry));
    if (!kept->now) return std::optional<Attributes>();
    return find(*kept->now);
  }
  Rows rows = find_entry_.bind(1, parent.value).bind(2, name).rows();
  if (!WARREN_TRY(rows.next())) {
    cache_.put_entry(parent, name, kNoEntry);
    return std::optional<Attributes>();
  }
  Inode node{static_cast<std::uint64_t>(rows.integer(kColumns))};
  Attributes found;
  if (auto kept = kept_.find(node); kept != kept_.end()) {
    found = kept->second.row;
  } else if (rows.is_null(0)) {
    return missing_node(name, node);
  } else {
    found = attributes_at(rows, 0);
  }
  cache_.put(found);
  cache_.put_entry(parent, name, found.inode);
  return std::optional(found);
}

// The number that SQLite would assign, but never one that we assigned before: a node that was removed before
// its batch ended has left no trace in the file. Nobody else can take the number while our transaction is open.
Result<Inode> Nodes::take_inode() {
  if (numbered_transaction_ != database_->transaction_number()) {
    auto last = WARREN_TRY(last_inode_.find_integer());
    next_inode_ = std::max(next_inode_, static_cast<std::uint64_t>(last.value_or(0)) + 1);
    numbered_transaction_ = database_->transaction_number();
  }
  return Inode{next_inode_++};
}

// What a row counts towards limits::kBatchBytes: more than its size, because writing many back takes time too.
constexpr std::uint64_t kNodeRowBytes = 2048;

Status Nodes::keep(const Attributes& node) {
  remember_for_undo(node.inode);
  auto [kept, is_first] = kept_.try_emplace(node.inode);
  if (is_first) kept_queue_.push(node.inode);
  kept->second.row = node;
  kept->second.changed = ++changes_;
  cache_.put(node);
  database_->batch().note_kept_back(is_first ? kNodeRowBytes : 0);
  return Ok{};
}

Result<Inode> Nodes::insert(const Attributes& node) {
  WARREN_TRY(refresh());
  if (node_count_) ++*node_count_;
  Attributes stored = node;
  if (database_->batch().is_open()) {
    stored.inode = WARREN_TRY(take_inode());
    WARREN_TRY(keep(stored));
    kept_[stored.inode].is_new = true;
    return stored.inode;
  }
  if (next_inode_ > 0) {
    stored.inode = WARREN_TRY(take_inode());
    WARREN_TRY(bind_node(insert_numbered_, node).bind(13, stored.inode.value).run());
  } else {
    WARREN_TRY(bind_node(insert_, node).run());
    stored.inode = Inode{static_cast<std::uint64_t>(database_->last_insert_id())};
  }
  cache_.put(stored);
  return stored.inode;
}

Status Nodes::update(const Attributes& node) {
  WARREN_TRY(refresh());
  if (database_->batch().is_open()) return keep(node);
  WARREN_TRY(bind_node(update_, node).bind(13, node.inode.value).run());
  cache_.put(node);
  return Ok{};
}

Status Nodes::touch(Inode node, Timestamp now) {
  WARREN_TRY(refresh());
  if (database_->batch().is_open()) {
    std::optional<Attributes> row = WARREN_TRY(find(node));
    if (!row) return Ok{};
    row->mtime = now;
    row->ctime = now;
    return keep(*row);
  }
  WARREN_TRY(touch_.bind(1, now.seconds).bind(2, now.nanoseconds).bind(3, node.value).run());
  cache_.touch(node, now);
  return Ok{};
}

Status Nodes::erase(const Attributes& node) {
  WARREN_TRY(refresh());
  if (node_count_) --*node_count_;
  cache_.erase(node.inode);
  auto kept = kept_.find(node.inode);
  bool is_stored = kept == kept_.end() || !kept->second.is_new;
  if (kept != kept_.end()) {
    remember_for_undo(node.inode);
    kept_.erase(kept);
  }
  if (node.is_symlink()) WARREN_TRY(erase_target_.bind(1, node.inode.value).run());
  if (!is_stored) {
    database_->batch().note_kept_back(0);
    return Ok{};
  }
  return erase_.bind(1, node.inode.value).run();
}

Status Nodes::write_back() {
  WARREN_TRY(write_back_nodes());
  return write_back_entries();
}

Status Nodes::write_back_nodes() {
  if (kept_.empty()) return Ok{};
  std::vector<Inode> ordered;  // by number, as in the file
  ordered.reserve(kept_.size());
  for (const auto& [inode, kept] : kept_) ordered.push_back(inode);
  std::sort(ordered.begin(), ordered.end());
  // A row is no longer kept as soon as SQLite has it: an error in between leaves neither of them out nor in twice.
  WARREN_TRY(write_back_kept(*database_, [&]() -> Status {
    for (Inode node : ordered) {
      auto kept = kept_.find(node);
      WARREN_TRY(write_back_node(kept->second));
      remember_for_undo(node);
      kept_.erase(kept);
    }
    return Ok{};
  }));
  kept_queue_.clear();
  return Ok{};
}

Status Nodes::write_back_node(const Kept& kept) {
  Statement& statement = kept.is_new ? insert_numbered_ : update_;
  return bind_node(statement, kept.row).bind(13, kept.row.inode.value).run();
}

Result<bool> Nodes::write_back_one() {
  if (WARREN_TRY(write_back_one_node())) return true;
  return write_back_one_entry();
}

Result<bool> Nodes::write_back_one_node() {
  auto find = [this](Inode node) -> const Kept* {
    auto kept = kept_.find(node);
    return kept == kept_.end() ? nullptr : &kept->second;
  };
  auto write = [this](Inode, const Kept& kept) { return write_back_node(kept); };
  auto erase = [this](Inode node) {
    remember_for_undo(node);
    kept_.erase(node);
  };
  return kept_queue_.write_back_one(*database_, changes_, find, write, erase);
}

Result<bool> Nodes::write_back_one_entry() {
  auto find = [this](const EntryKey& key) { return find_kept_entry(key.first, key.second); };
  auto write = [this](const EntryKey& key, const KeptEntry& entry) {
    return write_back_entry(key.first, key.second, entry);
  };
  auto erase = [this](const EntryKey& key) {
    remember_for_undo(key.first, key.second);
    kept_entries_.at(key.first).erase(key.second);
  };
  return kept_entry_queue_.write_back_one(*database_, changes_, find, write, erase);
}

const Nodes::KeptEntry* Nodes::find_kept_entry(Inode parent, std::string_view name) const {
  auto dir = kept_entries_.find(parent);
  if (dir == kept_entries_.end()) return nullptr;
  auto entry = dir->second.find(name);
  return entry == dir->second.end() ? nullptr : &entry->second;
}

// `is_stored` applies if the entry was not kept before.
Status Nodes::keep_entry(Inode parent, std::string_view name, std::optional<Inode> now, bool is_stored) {
  remember_for_undo(parent, name);
  KeptDirectory& entries = kept_entries_[parent];
  auto kept = entries.find(name);
  if (kept == entries.end()) {
    kept = entries.emplace(std::string(name), KeptEntry{.now = now, .is_stored = is_stored}).first;
    kept_entry_queue_.push(parent, name);
    database_->batch().note_kept_back(kNodeRowBytes);
  } else {
    kept->second.now = now;
    database_->batch().note_kept_back(0);
  }
  kept->second.changed = ++changes_;
  if (!now && !kept->second.is_stored) entries.erase(kept);  // created and removed within the batch
  cache_.put_entry(parent, name, now.value_or(kNoEntry));
  return Ok{};
}

Status Nodes::write_back_entry(Inode parent, std::string_view name, const KeptEntry& entry) {
  if (!entry.now) return erase_entry_.bind(1, parent.value).bind(2, name).run();
  if (entry.is_stored) return retarget_entry_.bind(1, entry.now->value).bind(2, parent.value).bind(3, name).run();
  return insert_entry_.bind(1, name).bind(2, parent.value).bind(3, entry.now->value).run();
}

Status Nodes::write_back_entries(Inode parent) {
  auto dir = kept_entries_.find(parent);
  if (dir == kept_entries_.end()) return Ok{};
  WARREN_TRY(write_back_kept(*database_, [&]() -> Status {
    while (!dir->second.empty()) {
      auto entry = dir->second.begin();
      WARREN_TRY(write_back_entry(parent, entry->first, entry->second));
      remember_for_undo(parent, entry->first);
      dir->second.erase(entry);
    }
    return Ok{};
  }));
  kept_entries_.erase(dir);
  return Ok{};
}

Status Nodes::write_back_entries() {
  std::vector<Inode> parents;
  parents.reserve(kept_entries_.size());
  for (const auto& [parent, entries] : kept_entries_) parents.push_back(parent);
  std::sort(parents.begin(), parents.end());
  for (Inode parent : parents) WARREN_TRY(write_back_entries(parent));
  kept_entry_queue_.clear();
  return Ok{};
}

Status Nodes::insert_entry(Inode parent, std::string_view name, Inode node) {
  WARREN_TRY(refresh());
  forget_gathered();
  if (database_->batch().is_open()) return keep_entry(parent, name, node, false);
  WARREN_TRY(insert_entry_.bind(1, name).bind(2, parent.value).bind(3, node.value).run());
  cache_.put_entry(parent, name, node);
  return Ok{};
}

Status Nodes::move_entry(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name) {
  WARREN_TRY(refresh());
  forget_gathered();
  if (database_->batch().is_open()) {
    std::optional<Attributes> moved = WARREN_TRY(find_entry(parent, name));
    if (!moved) return Error(Code::kInternal, "an entry that does not exist was moved");
    WARREN_TRY(keep_entry(parent, name, std::nullopt, true));
    return keep_entry(new_parent, new_name, moved->inode, false);
  }
  std::optional<Inode> moved = cache_.find_entry(parent, name);
  cache_.put_entry(parent, name, kNoEntry);
  if (moved && *moved != kNoEntry) cache_.put_entry(new_parent, new_name, *moved);
  else cache_.erase_entry(new_parent, new_name);
  return move_entry_.bind(1, new_parent.value).bind(2, new_name).bind(3, parent.value).bind(4, name).run();
}

Status Nodes::retarget_entry(Inode parent, std::string_view name, Inode node) {
  WARREN_TRY(refresh());
  forget_gathered();
  if (database_->batch().is_open()) return keep_entry(parent, name, node, true);
  cache_.erase_entry(parent, name);
  return retarget_entry_.bind(1, node.value).bind(2, parent.value).bind(3, name).run();
}

Status Nodes::erase_entry(Inode parent, std::string_view name) {
  WARREN_TRY(refresh());
  forget_gathered();
  if (database_->batch().is_open()) return keep_entry(parent, name, std::nullopt, true);
  cache_.put_entry(parent, name, kNoEntry);
  return erase_entry_.bind(1, parent.value).bind(2, name).run();
}

Result<bool> Nodes::has_entries(Inode dir) {
  WARREN_TRY(write_back_entries(dir));
  auto one = WARREN_TRY(has_entries_.bind(1, dir.value).find_integer());
  return one.has_value();
}

Result<std::optional<std::uint32_t>> Nodes::count_subdirectories(Inode dir, std::uint64_t entries_max) {
  WARREN_TRY(write_back());
  // Reading one more than the maximum shows whether there are too many. SQLite's integers are signed.
  std::uint64_t limit = std::min<std::uint64_t>(entries_max, INT64_MAX - 1) + 1;
  Rows rows = count_subdirectories_.bind(1, dir.value).bind(2, limit).rows();
  if (!WARREN_TRY(rows.next())) return Error(Code::kInternal, "an aggregate without a row");
  if (static_cast<std::uint64_t>(rows.integer(0)) > entries_max) return std::optional<std::uint32_t>();
  return std::optional(static_cast<std::uint32_t>(rows.integer(1)));
}

Result<std::uint32_t> Nodes::count_entries_of(Inode node) {
  WARREN_TRY(write_back_entries());
  auto count = WARREN_TRY(count_entries_of_.bind(1, node.value).find_integer());
  return static_cast<std::uint32_t>(count.value_or(0));
}

// Gathered are directories, and files that have several links by their rows. Other programs may have stored wrong
// numbers: what is not gathered is searched for.
Status Nodes::gather_entries() {
  gathered_.emplace();
  std::size_t count = 0;
  Rows rows = gather_entries_.bind(1, std::uint64_t{kGatheredMax} + 1).rows();
  while (WARREN_TRY(rows.next())) {
    if (++count > kGatheredMax) {
      gathered_->clear();  // every node is searched for
      break;
    }
    auto number = [&](int column) { return Inode{static_cast<std::uint64_t>(rows.integer(column))}; };
    (*gathered_)[number(0)].push_back({number(1), std::string(rows.text(2))});
  }
  return Ok{};
}

void Nodes::forget_gathered() {
  gathered_.reset();
  has_searched_entries_ = false;
}

Result<std::vector<EntryName>> Nodes::list_entries_of(Inode node) {
  WARREN_TRY(refresh());
  WARREN_TRY(write_back_entries());
  if (!gathered_ && std::exchange(has_searched_entries_, true)) {
    Status gathered = gather_entries();
    if (!gathered.ok()) {
      forget_gathered();
      return std::move(gathered).take_error();
    }
  }
  if (gathered_) {
    if (auto found = gathered_->find(node); found != gathered_->end()) return found->second;
  }
  std::vector<EntryName> entries;
  Rows rows = list_entries_of_.bind(1, node.value).rows();
  while (WARREN_TRY(rows.next())) {
    entries.push_back({Inode{static_cast<std::uint64_t>(rows.integer(0))}, std::string(rows.text(1))});
  }
  return entries;
}

std::optional<EntryName> Nodes::recent_entry_of(Inode node) {
  std::optional<NodeCache::Entry> cached = cache_.find_entry_of(node);
  return cached ? std::optional(EntryName{cached->first, std::move(cached->second)}) : std::nullopt;
}

Result<std::optional<Inode>> Nodes::find_parent(Inode dir) {
  WARREN_TRY(write_back_entries());
  auto parent = WARREN_TRY(find_parent_.bind(1, dir.value).find_integer());
  if (!parent) return std::optional<Inode>();
  return std::optional(Inode{static_cast<std::uint64_t>(*parent)});
}

Result<std::uint64_t> Nodes::count() {
  WARREN_TRY(refresh());
  if (!node_count_) {
    WARREN_TRY(write_back_nodes());
    auto count = WARREN_TRY(count_nodes_.find_integer());
    node_count_ = static_cast<std::uint64_t>(count.value_or(0));
  }
  return *node_count_;
}

Statement& Nodes::list_statement(DirDetail detail) {
  switch (detail) {
    case DirDetail::kNames: return list_names_;
    case DirDetail::kTypes: return list_types_;
    case DirDetail::kAttributes: break;
  }
  return list_attributes_;
}

Result<std::vector<DirEntry>> Nodes::list(Inode dir, std::string_view after, std::size_t max, DirDetail detail) {
  WARREN_TRY(write_back_entries(dir));
  std::vector<DirEntry> entries;
  Rows rows = list_statement(detail).bind(1, dir.value).bind(2, after).bind(3, std::uint64_t{max}).rows();
  while (WARREN_TRY(rows.next())) {
    DirEntry& entry = entries.emplace_back();
    entry.cookie = static_cast<std::uint64_t>(rows.integer(0));
    entry.name = rows.text(1);
    if (detail == DirDetail::kNames) continue;
    entry.inode = Inode{static_cast<std::uint64_t>(rows.integer(2))};
    if (auto kept = kept_.find(entry.inode); kept != kept_.end()) {
      entry.type = kept->second.row.mode & S_IFMT;
      if (detail == DirDetail::kAttributes) entry.attributes = kept->second.row;
      continue;
    }
    if (rows.is_null(3)) return missing_node(entry.name, entry.inode);
    entry.type = static_cast<std::uint32_t>(rows.integer(3)) & S_IFMT;
    if (detail == DirDetail::kAttributes) entry.attributes = attributes_at(rows, 4);
  }
  return entries;
}

Result<std::optional<std::string>> Nodes::find_name(Inode dir, std::int64_t entry_id) {
  WARREN_TRY(write_back_entries(dir));
  Rows rows = find_name_.bind(1, entry_id).bind(2, dir.value).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(rows.text(0)));
}

Result<std::optional<std::int64_t>> Nodes::find_entry_id(Inode dir, std::string_view name) {
  return find_entry_id_.bind(1, dir.value).bind(2, name).find_integer();
}

Result<std::string> Nodes::get_target(Inode symlink) {
  Rows rows = get_target_.bind(1, symlink.value).rows();
  if (!WARREN_TRY(rows.next())) {
    return Error(Code::kCorrupt, fmt::format("the symlink with node {} has no target", symlink.value));
  }
  return std::string(rows.text(0));
}

Status Nodes::set_target(Inode symlink, std::string_view target) {
  return set_target_.bind(1, symlink.value).bind(2, target).run();
}

}  // namespace warren
