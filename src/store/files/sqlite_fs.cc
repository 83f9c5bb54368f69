#include "store/files/sqlite_fs.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/statvfs.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/no_wait.h"
#include "base/path.h"
#include "fs/encrypted.h"
#include "fs/expiry.h"
#include "store/store.h"
#include "store/tables/usage.h"
#include "store/transaction_unit.h"

namespace warren {
namespace {

// Directories whose facts are kept in memory; beyond this all are dropped and found again.
constexpr std::size_t kDirectoriesKept = 65'536;

constexpr std::chrono::seconds kWatchOthers{2};    // whether those who keep orphans are still there
constexpr int kCollectedAtOnce = 64;               // nodes, before others get a turn
constexpr std::chrono::seconds kLeavingAtMost{1};  // what is not collected then waits for the next open

Status check_settable(std::string_view attribute) {
  if (attribute != kEncryptedXattr) return Ok{};
  return Error(Code::kNotPermitted, fmt::format("attribute {} can only be read", quote(attribute)),
               "`warren encrypt` and `warren decrypt` change what is encrypted");
}

Error stale(Inode node) { return {Code::kStale, fmt::format("node {} no longer exists", node.value)}; }

}  // namespace

SqliteFs::SqliteFs(Store& store) : store_(store), database_(store.database()), clock_(store.clock()) {}

Result<std::unique_ptr<SqliteFs>> SqliteFs::open(Store& store) {
  std::unique_ptr<SqliteFs> fs(new SqliteFs(store));
  fs->nodes_ = WARREN_TRY(Nodes::open(store.database(), store.schema(), store.undo()));
  if (store.content_keys() != nullptr) {
    fs->ciphers_ = WARREN_TRY(FileCiphers::open(store.database(), store.undo(), *store.content_keys()));
  }
  fs->chunks_ = WARREN_TRY(Chunks::open(store.database(), store.schema(), store.undo(), fs->ciphers_.get()));
  fs->xattrs_ = WARREN_TRY(Xattrs::open(store.database(), store.schema()));
  fs->expiries_ = WARREN_TRY(Expiries::open(store.database(), store.schema()));
  if (!store.is_read_only()) fs->orphans_ = WARREN_TRY(Orphans::open(store.database()));
  if (!store.is_read_only()) fs->items_ = std::make_unique<ItemRows>(store);
  return fs;
}

Result<Transaction> SqliteFs::read_scope() { return Transaction::begin(database_, Access::kSharedRead); }

Result<Transaction> SqliteFs::write_scope() {
  WARREN_TRY(database_.reserve(0, Room::kLast));
  return Transaction::begin(database_, Access::kSharedWrite);
}

Result<Transaction> SqliteFs::growth_scope(std::uint64_t bytes) {
  WARREN_TRY(database_.reserve(bytes));
  return Transaction::begin(database_, Access::kSharedWrite);
}

Result<std::unique_ptr<Unit>> SqliteFs::begin(UnitAccess access) {
  return TransactionUnit::begin(database_, access == UnitAccess::kWrite ? Access::kWrite : Access::kSharedRead);
}

Result<Attributes> SqliteFs::get_row(Inode node) {
  std::optional<Attributes> row = WARREN_TRY(nodes_->find(node));
  // A node that waits to be collected no longer exists for callers, however long the collecting takes.
  if (!row || to_collect_.contains(node)) return stale(node);
  return *row;
}

Result<Attributes> SqliteFs::get_file_row(Inode node) {
  Attributes row = WARREN_TRY(get_row(node));
  if (row.is_directory()) return Error(Code::kIsDirectory, "it is a directory");
  if (!row.is_file()) return Error(Code::kInvalid, "it is not a regular file");
  return row;
}

Result<Attributes> SqliteFs::get_parent_row(Inode dir) {
  Attributes row = WARREN_TRY(get_row(dir));
  if (!row.is_directory()) return Error(Code::kNotDirectory, "it is not a directory");
  if (WARREN_TRY(is_orphan(row))) return Error(Code::kNotFound, "the directory was removed");
  return row;
}

Result<Attributes> SqliteFs::get_entry(Inode parent, std::string_view name) {
  std::optional<Attributes> entry = WARREN_TRY(nodes_->find_entry(parent, name));
  if (!entry) return Error(Code::kNotFound, fmt::format("no {}", quote(name)));
  return *entry;
}

SqliteFs::DirectoryFacts& SqliteFs::facts(Inode dir) {
  std::uint64_t epoch = database_.foreign_epoch();
  if (epoch != foreign_epoch_ || directories_.size() >= kDirectoriesKept) {
    foreign_epoch_ = epoch;
    directories_.clear();
  }
  return directories_[dir];
}

void SqliteFs::adopt(Inode parent, Inode dir) { facts(dir).parent = parent; }

void SqliteFs::shift_subdirectories(Inode parent, int by) {
  std::optional<std::uint32_t>& count = facts(parent).subdirectories;
  if (count) *count += static_cast<std::uint32_t>(by);
}

// Through a mount, the first look at a large directory must not cost more than at a small one.
Result<std::optional<std::uint32_t>> SqliteFs::count_subdirectories(Inode dir) {
  DirectoryFacts known = facts(dir);
  if (known.subdirectories || known.is_large) return known.subdirectories;
  std::uint64_t entries_max = database_.is_grouped() ? limits::kCountedEntries : UINT64_MAX;
  std::optional<std::uint32_t> count = WARREN_TRY(nodes_->count_subdirectories(dir, entries_max));
  facts(dir).subdirectories = count;
  facts(dir).is_large = !count;
  return count;
}

Result<std::optional<Inode>> SqliteFs::parent_of(Inode dir) {
  if (std::optional<Inode> known = facts(dir).parent) return known;
  std::optional<Inode> found = WARREN_TRY(nodes_->find_parent(dir));
  facts(dir).parent = found;
  return found;
}

Result<bool> SqliteFs::is_within(Inode dir, Inode ancestor) {
  for (int depth = 0; depth < limits::kTreeDepth; ++depth) {
    if (dir == ancestor) return true;
    if (dir == kRootInode || dir == namespace_root_) return false;
    std::optional<Inode> parent = WARREN_TRY(parent_of(dir));
    if (!parent) return false;  // a removed directory has no parent
    dir = *parent;
  }
  return Error(Code::kLimit, fmt::format("directories are nested over {} deep", limits::kTreeDepth));
}

Result<Attributes> SqliteFs::shown(Attributes row) {
  if (!row.is_directory()) return row;
  // Stored link counts of directories are ignored: other programs count them differently.
  if (nameless_.contains(row.inode)) {
    row.nlink = 0;
  } else {
    std::optional<std::uint32_t> subdirectories = WARREN_TRY(count_subdirectories(row.inode));
    row.nlink = subdirectories ? 2 + *subdirectories : 1;
  }
  return row;
}

Result<Attributes> SqliteFs::get_attributes(Inode node) {
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = WARREN_TRY(get_row(node));
  return shown(row);
}

Result<std::string> SqliteFs::read_link(Inode node) {
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = WARREN_TRY(get_row(node));
  if (!row.is_symlink()) return Error(Code::kInvalid, "it is not a symbolic link");
  return nodes_->get_target(node);
}

// Another process may have removed its last name, which our set does not know yet.
Result<bool> SqliteFs::is_orphan(const Attributes& row) {
  if (unlisted_.contains(row.inode)) return true;
  if (nameless_.contains(row.inode)) {
    std::optional<Orphan> kept = WARREN_TRY(orphans_->find(row.inode));
    return kept.has_value();
  }
  if (row.nlink != 0 || !orphans_) return false;
  std::optional<Orphan> listed = WARREN_TRY(orphans_->find(row.inode));
  return listed && !listed->is_kept;
}

// A node that others have removed and we have passed on is not ours to open again.
Status SqliteFs::check_retainable(const Attributes& row) {
  if (row.nlink == 0 && !retained_.contains(row.inode) && WARREN_TRY(is_orphan(row))) return stale(row.inode);
  return Ok{};
}

void SqliteFs::note_retained(Inode node) {
  if (!store_.is_read_only()) database_.take_seat();
  ++retained_[node];
}

Status SqliteFs::retain(Inode node) {
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = WARREN_TRY(get_row(node));
  WARREN_TRY(check_retainable(row));
  note_retained(node);
  return Ok{};
}

Result<Attributes> SqliteFs::open(Inode node) {
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = WARREN_TRY(get_file_row(node));
  if (WARREN_TRY(is_expired(node))) return stale(node);  // a kernel may still have its name cached
  WARREN_TRY(check_retainable(row));
  note_retained(node);
  return row;
}

void SqliteFs::forget(Inode node, std::uint64_t count) {
  auto guard = database_.lock();
  auto kept = retained_.find(node);
  if (kept == retained_.end()) return;
  if (kept->second > count) {
    kept->second -= count;
    return;
  }
  retained_.erase(kept);
  lost_.erase(node);
  if (!database_.is_grouped()) {  // nobody else collects what others have left to us
    Result<Attributes> left = get_row(node);
    bool is_removed = !left.ok() || left->nlink == 0;
    if (!is_removed && !retained_.empty()) return;
    guard.unlock();
    leave().ignore("the next open of the agent collects what is left");
    return;
  }
  if (!nameless_.contains(node)) return;
  Result<Attributes> row = get_attributes(node);
  guard.unlock();  // while it waits for another process's transaction
  bool is_large = row.ok() && row->size > limits::kShrinkBytes;
  Result<bool> others = is_large ? has_other_keeper(node) : Result<bool>(false);
  if ((!is_large || (others.ok() && *others)) && collect(node).ok()) return;
  guard.lock();
  to_collect_.insert(node);
  store_.has_work();
}

// The lowest seat above `after` of a process that may have the node open; 0: nobody's. Ours counts only if we have.
std::uint32_t SqliteFs::next_keeper(Inode node, std::uint32_t after) {
  std::uint32_t other = database_.find_seat_after(after);
  std::uint32_t own = retained_.contains(node) ? database_.seat() : 0;
  return own > after && (other == 0 || own < other) ? own : other;
}

Status SqliteFs::collect(Inode node) {
  Transaction scope = WARREN_TRY(write_scope());
  if (!nameless_.contains(node) || retained_.contains(node)) return Ok{};  // a rollback has restored its name
  std::optional<Attributes> row = WARREN_TRY(nodes_->find(node));
  std::optional<Orphan> listed;
  bool was_unlisted = unlisted_.contains(node);
  if (!was_unlisted) listed = WARREN_TRY(orphans_->find(node));
  erase_nameless(unlisted_, node);
  erase_nameless(nameless_, node);
  // Restoring a checkpoint may have given it its name back.
  bool is_named_again = !was_unlisted && !listed;
  if (row && !is_named_again && !(listed && orphans_->is_kept_elsewhere(*listed))) WARREN_TRY(pass_on(*row, listed));
  return scope.commit();
}

// We do not have the node open, nor has any seat up to the one that it is listed for: the next one keeps it. If there
// is none, it is removed.
Status SqliteFs::pass_on(const Attributes& row, const std::optional<Orphan>& listed) {
  if (std::uint32_t next = next_keeper(row.inode, listed ? listed->seat : 0); next != 0) {
    store_.journal()->note_attributes(row.inode);
    return give(row.inode, next);
  }
  if (listed) WARREN_TRY(orphans_->erase(row.inode));
  if (listed && when_collected_) WARREN_TRY(when_collected_(row.inode));
  return erase_node(row);
}

// They may be killed before they pass it on.
Status SqliteFs::give(Inode node, std::uint32_t seat) {
  if (seat != database_.seat()) store_.has_work(kWatchOthers);
  return orphans_->give(node, seat);
}

// Others leave to us what they removed and we may have open.
Status SqliteFs::take_orphans() {
  std::vector<Inode> named;
  {
    Transaction scope = WARREN_TRY(read_scope());
    std::vector<Orphan> listed = WARREN_TRY(orphans_->list());
    // Restoring a checkpoint may have given some their names back.
    std::erase_if(nameless_, [&](Inode node) {
      return !unlisted_.contains(node) &&
             std::ranges::none_of(listed, [&](const Orphan& one) { return one.node == node; });
    });
    std::erase_if(to_collect_, [&](Inode node) { return !nameless_.contains(node); });
    for (const Orphan& orphan : listed) {
      bool is_elsewhere = orphans_->is_kept_elsewhere(orphan);
      if (is_elsewhere && !orphan.is_kept) store_.has_work(kWatchOthers);
      if (is_elsewhere || nameless_.contains(orphan.node)) continue;
      if (WARREN_TRY(has_name(orphan.node))) {
        named.push_back(orphan.node);
        continue;
      }
      nameless_.insert(orphan.node);
      if (!retained_.contains(orphan.node)) to_collect_.insert(orphan.node);
    }
  }
  if (named.empty()) return Ok{};
  Transaction scope = WARREN_TRY(write_scope());
  for (Inode node : named) {
    if (!WARREN_TRY(has_name(node))) continue;
    WARREN_TRY(orphans_->erase(node));
    store_.journal()->note_attributes(node);  // it belongs to checkpoints again
  }
  return scope.commit();
}

// A row that another program, or a stranger, has put into wr_orphan may list anything. What has a name is not to be
// collected. Only nodes with a stored count are searched for: ours have none.
Result<bool> SqliteFs::has_name(Inode node) {
  Transaction scope = WARREN_TRY(read_scope());
  std::optional<Attributes> row = WARREN_TRY(nodes_->find(node));
  if (!row || row->nlink == 0) return false;
  std::optional<Inode> parent = WARREN_TRY(nodes_->find_parent(node));
  return parent.has_value();
}

Status SqliteFs::leave() {
  auto guard = database_.lock();
  if (!orphans_) return Ok{};
  Status done = database_.seat() != 0 ? take_orphans() : Status(Ok{});
  for (Inode node : nameless_) {
    if (!retained_.contains(node)) to_collect_.insert(node);
  }
  bool has_more = done.ok() && !to_collect_.empty();
  guard.unlock();  // while it waits for another process's transaction
  auto end = std::chrono::steady_clock::now() + kLeavingAtMost;
  while (has_more && std::chrono::steady_clock::now() < end) {
    Result<bool> more = collect_step();
    has_more = more.ok() && *more;
    if (!more.ok()) done = std::move(more).error();
  }
  guard.lock();
  if (retained_.empty()) database_.leave_seat();
  return done;
}

Status SqliteFs::restore(Inode node, const Attributes& as) {
  Transaction scope = WARREN_TRY(write_scope());
  Attributes row = WARREN_TRY(get_row(node));
  row.mode = (row.mode & S_IFMT) | (as.mode & 07777);
  row.owner = as.owner;
  row.atime = as.atime;
  row.mtime = as.mtime;
  row.ctime = as.ctime;
  WARREN_TRY(nodes_->update(row));
  store_.journal()->note_attributes(node);
  return scope.commit();
}

Status SqliteFs::keep_nameless(Inode node) {
  Transaction scope = WARREN_TRY(write_scope());
  WARREN_TRY(get_row(node));
  WARREN_TRY(orphans_->keep(node));
  store_.journal()->note_attributes(node);
  erase_nameless(unlisted_, node);
  erase_nameless(nameless_, node);
  return scope.commit();
}

Status SqliteFs::let_go(Inode node) {
  Transaction scope = WARREN_TRY(write_scope());
  Attributes row = WARREN_TRY(get_row(node));
  WARREN_TRY(orphans_->erase(node));
  store_.journal()->note_attributes(node);
  if (row.nlink == 0) WARREN_TRY(drop_link(row, clock_.now()));
  return scope.commit();
}

Result<bool> SqliteFs::collect_some() {
  WARREN_TRY(take_orphans());
  for (int step = 0; step < kCollectedAtOnce; ++step) {
    if (!WARREN_TRY(collect_step())) return false;
  }
  return true;
}

Result<bool> SqliteFs::collect_step() {
  auto guard = database_.lock();
  if (to_collect_.empty()) return false;
  Inode node = *to_collect_.begin();
  guard.unlock();  // while it waits for another process's transaction
  Transaction scope = WARREN_TRY(write_scope());
  bool is_waiting = to_collect_.contains(node);  // or a rollback has restored its name
  if (is_waiting && !unlisted_.contains(node) && !WARREN_TRY(orphans_->find(node))) {
    is_waiting = false;  // restoring a checkpoint has given it its name back
    erase_nameless(nameless_, node);
  }
  bool is_ours = is_waiting && !WARREN_TRY(has_other_keeper(node));
  if (is_ours && WARREN_TRY(shrink_step(node, 0))) {
    WARREN_TRY(scope.commit());
    return true;
  }
  if (is_waiting) WARREN_TRY(collect(node));
  to_collect_.erase(node);
  bool has_more = !to_collect_.empty();
  WARREN_TRY(scope.commit());
  return has_more;
}

// Whether others may have a node without a name open.
Result<bool> SqliteFs::has_other_keeper(Inode node) {
  Transaction scope = WARREN_TRY(read_scope());
  std::optional<Orphan> listed = WARREN_TRY(orphans_->find(node));
  if (listed && orphans_->is_kept_elsewhere(*listed)) return true;
  return next_keeper(node, listed ? listed->seat : 0) != 0;
}

void SqliteFs::forget_rows() {
  auto guard = database_.lock();
  nodes_->forget_rows();
  expiries_->forget();
  if (ciphers_) ciphers_->forget();
  directories_.clear();
  dir_paths_.clear();
  ++times_forgotten_;
}

std::optional<std::uint64_t> SqliteFs::change_mark() {
  auto guard = database_.lock();
  std::optional<Database::CommitMark> mark = database_.find_commit_mark();
  if (!mark || (!expiries_->is_unused() && expiries_->may_be_before(now_ms()))) return std::nullopt;
  if (*mark != seen_mark_) {
    seen_mark_ = *mark;
    ++mark_number_;
  }
  return mark_number_;
}

std::uint64_t SqliteFs::others_mark() {
  auto guard = database_.lock();
  return nodes_->seen_epoch() + times_forgotten_;
}

// Writes back one kept row; the end of the batch writes the rest.
bool SqliteFs::run_idle_work() {
  auto guard = database_.try_lock();
  if (!guard.owns_lock() || !database_.batch().is_open()) return false;
  NoWait no_wait;
  auto attempt = [this]() -> Result<bool> {
    Transaction scope = WARREN_TRY(Transaction::begin(database_, Access::kSharedWrite));
    if (!WARREN_TRY(chunks_->write_back_one()) && !WARREN_TRY(nodes_->write_back_one())) return false;
    WARREN_TRY(scope.commit());
    return true;
  };
  Result<bool> did = attempt();
  return did.ok() && *did;
}

void SqliteFs::add_nameless(std::unordered_set<Inode>& nodes, Inode node) {
  bool is_new = nodes.insert(node).second;
  if (!is_new || !store_.undo().is_active()) return;
  database_.batch().note_kept_back(0);
  store_.undo().add([&nodes, node] { nodes.erase(node); });
}

std::size_t SqliteFs::erase_nameless(std::unordered_set<Inode>& nodes, Inode node) {
  std::size_t erased = nodes.erase(node);
  if (erased == 0 || !store_.undo().is_active()) return erased;
  database_.batch().note_kept_back(0);
  store_.undo().add([&nodes, node] { nodes.insert(node); });
  return erased;
}

Status SqliteFs::before_commit() {
  while (!unlisted_.empty()) {
    WARREN_TRY(give(*unlisted_.begin(), next_keeper(*unlisted_.begin(), 0)));
    unlisted_.erase(unlisted_.begin());
  }
  WARREN_TRY(chunks_->write_back());
  return nodes_->write_back();
}

void SqliteFs::after_rollback() {
  forget_rows();
  expiries_->forget();
  chunks_->forget_kept();
  unlisted_.clear();
  for (Inode node : newly_nameless_) {
    nameless_.erase(node);
    to_collect_.erase(node);  // the rollback restored its name
  }
  newly_nameless_.clear();
}

// Only those that are in use can be synced by someone who wrote to them.
void SqliteFs::note_loss(const std::unordered_set<std::uint64_t>& nodes) {
  if (!database_.is_grouped()) return;  // there the call that failed has reported it
  for (std::uint64_t node : nodes) {
    if (retained_.contains(Inode{node})) lost_.insert(Inode{node});
  }
}

void SqliteFs::after_undo() {
  nodes_->forget_cache();
  expiries_->forget();
  chunks_->forget_cache();
  directories_.clear();
  dir_paths_.clear();
}

Result<std::vector<Orphan>> SqliteFs::list_abandoned() {
  Transaction scope = WARREN_TRY(read_scope());
  std::vector<Orphan> listed = WARREN_TRY(orphans_->list());
  std::erase_if(listed, [this](const Orphan& one) { return orphans_->is_kept_elsewhere(one); });
  return listed;
}

Status SqliteFs::collect_orphans() {
  std::vector<Orphan> listed = WARREN_TRY(list_abandoned());
  if (listed.empty()) return Ok{};
  for (const Orphan& orphan : listed) {
    if (next_keeper(orphan.node, orphan.seat) != 0 || WARREN_TRY(has_name(orphan.node))) continue;
    WARREN_TRY(shrink_in_steps(orphan.node, 0));
  }
  Transaction scope = WARREN_TRY(write_scope());
  std::vector<Orphan> abandoned = WARREN_TRY(list_abandoned());
  for (const Orphan& orphan : abandoned) {
    std::optional<Attributes> row = WARREN_TRY(nodes_->find(orphan.node));
    bool is_leftover = row && !WARREN_TRY(has_name(orphan.node));
    if (is_leftover) WARREN_TRY(pass_on(*row, orphan));
    else WARREN_TRY(orphans_->erase(orphan.node));
  }
  return scope.commit();
}

Status SqliteFs::sync(Inode node) {
  {
    Transaction scope = WARREN_TRY(read_scope());
    if (lost_.erase(node) != 0) {
      return Error(Code::kIo, "changes could not be stored and are lost", "write them again");
    }
    WARREN_TRY(get_row(node));
  }
  return database_.sync();
}

Status SqliteFs::set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) {
  WARREN_TRY(check_xattr_name(name));
  if (value.size() > limits::kXattrValueBytes) {
    return Error(Code::kTooLarge, fmt::format("the attribute's value has {} bytes; {} is the limit", value.size(),
                                              limits::kXattrValueBytes));
  }
  WARREN_TRY(check_settable(name));
  Transaction scope = WARREN_TRY(growth_scope(value.size()));
  Attributes row = WARREN_TRY(get_row(node));
  if (name == kExpiryXattr) {
    WARREN_TRY(set_expiry(row, value, mode));
    return scope.commit();
  }
  std::optional<std::string> old = WARREN_TRY(xattrs_->find(node, name));
  if (mode == XattrMode::kCreate && old)
    return Error(Code::kExists, fmt::format("attribute {} already exists", quote(name)));
  if (mode == XattrMode::kReplace && !old) return Error(Code::kNoData, fmt::format("no attribute {}", quote(name)));
  WARREN_TRY(xattrs_->set(node, name, value));
  row.ctime = clock_.now();
  WARREN_TRY(nodes_->update(row));
  store_.journal()->note_attributes(node);
  return scope.commit();
}

Status SqliteFs::remove_xattr(Inode node, std::string_view name) {
  WARREN_TRY(check_xattr_name(name));
  WARREN_TRY(check_settable(name));
  Transaction scope = WARREN_TRY(write_scope());
  Attributes row = WARREN_TRY(get_row(node));
  std::optional<std::string> old = WARREN_TRY(find_xattr(node, name));
  if (!old) return Error(Code::kNoData, fmt::format("no attribute {}", quote(name)));
  WARREN_TRY(name == kExpiryXattr ? expiries_->erase(node) : xattrs_->erase(node, name));
  row.ctime = clock_.now();
  WARREN_TRY(nodes_->update(row));
  store_.journal()->note_attributes(node);
  return scope.commit();
}

Result<std::optional<std::string>> SqliteFs::find_xattr(Inode node, std::string_view name) {
  if (name == kEncryptedXattr) return find_key_name(node);
  if (name != kExpiryXattr) return xattrs_->find(node, name);
  std::optional<std::int64_t> at = WARREN_TRY(expiries_->find(node));
  return at ? std::optional(format_expiry(*at)) : std::nullopt;
}

Result<std::string> SqliteFs::get_xattr(Inode node, std::string_view name) {
  WARREN_TRY(check_xattr_name(name));
  Transaction scope = WARREN_TRY(read_scope());
  WARREN_TRY(get_row(node));
  std::optional<std::string> value = WARREN_TRY(find_xattr(node, name));
  if (!value) return Error(Code::kNoData, fmt::format("no attribute {}", quote(name)));
  return *std::move(value);
}

Result<std::vector<std::string>> SqliteFs::list_xattrs(Inode node) {
  Transaction scope = WARREN_TRY(read_scope());
  WARREN_TRY(get_row(node));
  std::vector<std::string> names = WARREN_TRY(xattrs_->list(node));
  if (WARREN_TRY(expiries_->find(node))) {
    names.insert(std::lower_bound(names.begin(), names.end(), kExpiryXattr), std::string(kExpiryXattr));
  }
  return names;
}

Status SqliteFs::listen(ChangeListener* listener) { return store_.listen(Tree::kFiles, listener); }

Result<FileSystemStats> SqliteFs::stats(Inode) {
  Transaction scope = WARREN_TRY(read_scope());
  DatabaseSize size = WARREN_TRY(database_.size());
  Quota quota = WARREN_TRY(store_.usage().quota());
  FileSystemStats stats;
  stats.block_bytes = store_.schema().chunk_bytes;
  stats.used_bytes = size.used_bytes;
  stats.used_inodes = WARREN_TRY(nodes_->count());
  stats.capacity_inodes = quota.inodes.value_or(0);
  struct statvfs disk {};
  if (::statvfs(database_.path().c_str(), &disk) == 0) {
    // Free pages inside the file are available too.
    stats.available_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize + size.total_bytes - size.used_bytes;
  }
  if (quota.bytes) {
    UsedSpace used = WARREN_TRY(store_.usage().used());
    stats.used_bytes = used.bytes;
    stats.capacity_bytes = *quota.bytes;
    std::uint64_t left = *quota.bytes > used.bytes ? *quota.bytes - used.bytes : 0;
    stats.available_bytes = std::min(left, stats.available_bytes);
  }
  return stats;
}

}  // namespace warren
