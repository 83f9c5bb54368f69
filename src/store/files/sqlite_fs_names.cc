// The part of SqliteFs for names: lookup, creation, removal, renaming, listing.
#include <algorithm>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "store/tables/usage.h"

namespace warren {
namespace {

constexpr std::uint32_t kPermissions = 07777;

bool is_makeable(std::uint32_t type) {
  return type == S_IFREG || type == S_IFIFO || type == S_IFSOCK || type == S_IFCHR || type == S_IFBLK;
}

}  // namespace

// Reads pages in the order of names. Cookies are entry ids plus two, because the doors use 1 and 2. The names of
// the newest page are kept, because an entry may be removed before its cookie is used again, as
// `rm -r` does. While any stream of a directory is open, the filesystem also remembers the names removed
// from it: a kernel may pass one stream a cookie that it got from another.
class SqliteDirStream final : public DirStream {
 public:
  SqliteDirStream(SqliteFs& fs, Inode dir) : fs_(fs), dir_(dir) { ++fs_.open_dirs_[dir].streams; }

  ~SqliteDirStream() override {
    auto guard = fs_.database_.lock();
    auto open = fs_.open_dirs_.find(dir_);
    if (--open->second.streams == 0) fs_.open_dirs_.erase(open);
  }

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    Transaction scope = WARREN_TRY(fs_.read_scope());
    std::string after = WARREN_TRY(name_of(cookie));
    std::vector<DirEntry> page = WARREN_TRY(list_after(std::move(after), max, detail));
    std::vector<Place> places;
    for (DirEntry& entry : page) {
      entry.cookie += kCookieBase;
      places.push_back({entry.cookie, entry.name});
      if (entry.attributes) entry.attributes = WARREN_TRY(fs_.shown(*entry.attributes));
    }
    if (!places.empty()) places_ = std::move(places);
    return page;
  }

 private:
  static constexpr std::uint64_t kCookieBase = 2;

  struct Place {
    std::uint64_t cookie;
    std::string name;
  };

  // An expired file that is not removed yet is left out.
  Result<std::vector<DirEntry>> list_after(std::string after, std::size_t max, DirDetail detail) {
    std::vector<DirEntry> all = WARREN_TRY(fs_.nodes_->list(dir_, after, max, detail));
    if (!WARREN_TRY(fs_.has_expired())) return all;
    if (detail == DirDetail::kNames) detail = DirDetail::kTypes;
    for (;;) {
      std::vector<DirEntry> page = WARREN_TRY(fs_.nodes_->list(dir_, after, max, detail));
      if (page.empty()) return page;
      after = page.back().name;
      std::vector<DirEntry> shown;
      for (DirEntry& entry : page) {
        if (!WARREN_TRY(fs_.is_expired(entry.inode))) shown.push_back(std::move(entry));
      }
      if (!shown.empty()) return shown;
    }
  }

  Result<std::string> name_of(std::uint64_t cookie) {
    if (cookie <= kCookieBase) return std::string();
    auto known = std::find_if(places_.begin(), places_.end(), [&](const Place& p) { return p.cookie == cookie; });
    if (known != places_.end()) return known->name;
    auto stored = WARREN_TRY(fs_.nodes_->find_name(dir_, static_cast<std::int64_t>(cookie - kCookieBase)));
    if (stored) return *std::move(stored);
    const auto& removed = fs_.open_dirs_[dir_].removed;
    auto gone = removed.find(static_cast<std::int64_t>(cookie - kCookieBase));
    if (gone != removed.end()) return gone->second;
    return Error(Code::kInvalid, fmt::format("no directory entry with cookie {}", cookie));
  }

  SqliteFs& fs_;
  Inode dir_;
  std::vector<Place> places_;
};

Result<std::unique_ptr<DirStream>> SqliteFs::open_dir(Inode dir) {
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = WARREN_TRY(get_row(dir));
  if (!row.is_directory()) return Error(Code::kNotDirectory, "it is not a directory");
  return std::unique_ptr<DirStream>(std::make_unique<SqliteDirStream>(*this, dir));
}

Result<Attributes> SqliteFs::lookup(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  Transaction scope = WARREN_TRY(read_scope());
  std::optional<Attributes> entry = WARREN_TRY(nodes_->find_entry(parent, name));
  if (!entry || WARREN_TRY(is_expired(entry->inode))) {
    WARREN_TRY(get_parent_row(parent));
    return Error(Code::kNotFound, fmt::format("no {}", quote(name)));
  }
  if (entry->is_directory()) adopt(parent, entry->inode);
  return shown(*entry);
}

Result<std::vector<EntryName>> SqliteFs::list_names_of(Inode node) {
  Transaction scope = WARREN_TRY(read_scope());
  if (node == kRootInode) return std::vector<EntryName>();
  return nodes_->list_entries_of(node);
}

Status SqliteFs::check_new_name(const Attributes& parent, std::string_view name) {
  std::optional<Attributes> entry = WARREN_TRY(nodes_->find_entry(parent.inode, name));
  if (entry) return Error(Code::kExists, fmt::format("{} exists already", quote(name)));
  return Ok{};
}

Result<Attributes> SqliteFs::insert_node(const Attributes& parent, std::string_view name, std::uint32_t mode,
                                         Owner owner, std::uint64_t rdev, std::uint64_t size) {
  WARREN_TRY(check_new_name(parent, name));
  ContentKey* key = nullptr;
  if (ciphers_ && S_ISREG(mode)) key = WARREN_TRY(key_for_new(parent.inode, name));
  WARREN_TRY(store_.usage().charge(static_cast<std::int64_t>(size), 1));
  Timestamp now = clock_.now();
  Attributes node{.inode = {},
                  .mode = mode,
                  .nlink = 1,
                  .owner = owner,
                  .size = size,
                  .atime = now,
                  .mtime = now,
                  .ctime = now,
                  .rdev = rdev};
  if ((parent.mode & S_ISGID) != 0) {
    node.owner.gid = parent.owner.gid;
    if (node.is_directory()) node.mode |= S_ISGID;
  }
  node.inode = WARREN_TRY(nodes_->insert(node));
  if (key != nullptr) WARREN_TRY(chunks_->encrypt_new(node.inode, *key, 0));
  Attributes made = node;
  if (node.is_directory()) made.nlink = 2;
  WARREN_TRY(nodes_->insert_entry(parent.inode, name, node.inode));
  WARREN_TRY(nodes_->touch(parent.inode, now));
  store_.journal()->note_entry(parent.inode, name);
  return made;
}

Result<Attributes> SqliteFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_name(name));
  std::uint32_t type = (node.mode & S_IFMT) == 0 ? std::uint32_t{S_IFREG} : node.mode & S_IFMT;
  if (!is_makeable(type)) return Error(Code::kInvalid, fmt::format("a node of type {:o} cannot be created", type));
  expire_first();
  Transaction scope = WARREN_TRY(growth_scope(0));
  Attributes dir = WARREN_TRY(get_parent_row(parent));
  WARREN_TRY(remove_expired_now());
  std::uint64_t rdev = type == S_IFCHR || type == S_IFBLK ? node.rdev : 0;
  Attributes made = WARREN_TRY(insert_node(dir, name, type | (node.mode & kPermissions), node.owner, rdev, 0));
  WARREN_TRY(scope.commit());
  return made;
}

Result<Attributes> SqliteFs::create(Inode parent, std::string_view name, const NewNode& node) {
  NewNode regular = node;
  regular.mode = S_IFREG | (node.mode & kPermissions);
  expire_first();
  Transaction scope = WARREN_TRY(growth_scope(0));
  auto guard = database_.lock();  // longer than the transaction, so that nobody removes it before it is retained
  Attributes made = WARREN_TRY(make_node(parent, name, regular));
  WARREN_TRY(scope.commit());
  note_retained(made.inode);
  return made;
}

Result<Attributes> SqliteFs::make_dir(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_name(name));
  expire_first();
  Transaction scope = WARREN_TRY(growth_scope(0));
  Attributes dir = WARREN_TRY(get_parent_row(parent));
  WARREN_TRY(remove_expired_now());
  Attributes made = WARREN_TRY(insert_node(dir, name, S_IFDIR | (node.mode & kPermissions), node.owner, 0, 0));
  facts(made.inode) = {.parent = parent, .subdirectories = 0};
  shift_subdirectories(parent, 1);
  WARREN_TRY(scope.commit());
  return made;
}

Result<Attributes> SqliteFs::make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) {
  WARREN_TRY(check_name(name));
  WARREN_TRY(check_link_target(target));
  expire_first();
  Transaction scope = WARREN_TRY(growth_scope(0));
  Attributes dir = WARREN_TRY(get_parent_row(parent));
  WARREN_TRY(remove_expired_now());
  Attributes made = WARREN_TRY(insert_node(dir, name, S_IFLNK | 0777, owner, 0, target.size()));
  WARREN_TRY(nodes_->set_target(made.inode, target));
  WARREN_TRY(scope.commit());
  return made;
}

Result<Inode> SqliteFs::adopt_copy(Inode parent, std::string_view name, const Attributes& as, std::string_view target) {
  WARREN_TRY(check_name(name));
  expire_first();
  Transaction scope = WARREN_TRY(growth_scope(0));
  Attributes dir = WARREN_TRY(get_parent_row(parent));
  WARREN_TRY(remove_expired_now());
  WARREN_TRY(check_new_name(dir, name));
  Attributes node = as;
  node.host_device = node.host_inode = node.generation = 0;  // these are the original's
  node.nlink = 1;
  node.size = node.is_file() ? as.size : target.size();
  ContentKey* key = nullptr;
  if (ciphers_ && node.is_file()) key = WARREN_TRY(key_for_new(parent, name));
  WARREN_TRY(store_.usage().charge(static_cast<std::int64_t>(node.size), 1));
  node.inode = WARREN_TRY(nodes_->insert(node));
  if (key != nullptr) WARREN_TRY(chunks_->encrypt_new(node.inode, *key, node.size));
  WARREN_TRY(nodes_->insert_entry(parent, name, node.inode));
  if (node.is_symlink()) WARREN_TRY(nodes_->set_target(node.inode, target));
  if (node.is_directory()) {
    facts(node.inode) = {.parent = parent, .subdirectories = 0};
    shift_subdirectories(parent, 1);
  }
  store_.journal()->note_entry(parent, name);
  WARREN_TRY(scope.commit());
  return node.inode;
}

Result<Attributes> SqliteFs::link(Inode node, Inode new_parent, std::string_view new_name) {
  WARREN_TRY(check_name(new_name));
  expire_first();
  Transaction scope = WARREN_TRY(growth_scope(0));
  Attributes dir = WARREN_TRY(get_parent_row(new_parent));
  WARREN_TRY(remove_expired_now());
  Attributes row = WARREN_TRY(get_row(node));
  if (row.is_directory()) return Error(Code::kNotPermitted, "a directory can have only one name");
  if (WARREN_TRY(is_orphan(row))) return Error(Code::kNotFound, "it no longer has a name");
  if (row.nlink >= limits::kLinks) {
    return Error(Code::kTooManyLinks, fmt::format("it has {} names; {} is the limit", row.nlink, limits::kLinks));
  }
  WARREN_TRY(check_new_name(dir, new_name));
  Timestamp now = clock_.now();
  ++row.nlink;
  row.ctime = now;
  WARREN_TRY(nodes_->update(row));
  WARREN_TRY(nodes_->insert_entry(new_parent, new_name, node));
  WARREN_TRY(nodes_->touch(new_parent, now));
  store_.journal()->note_entry(new_parent, new_name);
  store_.journal()->note_attributes(node);
  WARREN_TRY(scope.commit());
  return row;
}

// Removes one name of the node; with the last one the node is removed, unless we have it open, or others may have.
Status SqliteFs::drop_link(Attributes node, Timestamp now) {
  // AgentFS's own upgrade of old files leaves a count of 0 on nodes with names: count the names then
  // (the entry in question is removed already).
  std::uint32_t left = node.is_directory() ? 0 : node.nlink > 0 ? node.nlink - 1 : 0;
  if (!node.is_directory() && node.nlink == 0) left = WARREN_TRY(nodes_->count_entries_of(node.inode));
  if (left == 0 && node.is_file()) WARREN_TRY(expiries_->erase(node.inode));
  bool is_retained = retained_.contains(node.inode);
  std::uint32_t keeper = left == 0 ? next_keeper(node.inode, 0) : 0;
  if (left > 0 || is_retained || keeper != 0) {
    node.nlink = left;
    node.ctime = now;
    WARREN_TRY(nodes_->update(node));
    store_.journal()->note_attributes(node.inode);
    if (left > 0) return Ok{};
    if (!is_retained) return give(node.inode, keeper);
    // In a batch it is listed only if it still exists when the batch ends; usually it does not.
    if (database_.batch().is_open()) add_nameless(unlisted_, node.inode);
    else WARREN_TRY(give(node.inode, keeper));
    add_nameless(nameless_, node.inode);
    newly_nameless_.push_back(node.inode);
    return Ok{};
  }
  return erase_node(node);
}

Status SqliteFs::erase_node(const Attributes& node) {
  if (node.is_file()) WARREN_TRY(chunks_->remove(node.inode));
  WARREN_TRY(xattrs_->erase_all(node.inode));
  WARREN_TRY(nodes_->erase(node));
  directories_.erase(node.inode);
  store_.journal()->note_attributes(node.inode);
  std::int64_t bytes = node.is_directory() ? 0 : static_cast<std::int64_t>(node.size);
  return store_.usage().charge(-bytes, -1);
}

Status SqliteFs::remember_removed(Inode parent, std::string_view name) {
  constexpr std::size_t kRemembered = 65'536;
  auto open = open_dirs_.find(parent);
  if (open == open_dirs_.end()) return Ok{};
  std::optional<std::int64_t> id = WARREN_TRY(nodes_->find_entry_id(parent, name));
  if (!id) return Ok{};  // created in this batch: nobody has its cookie
  std::map<std::int64_t, std::string>& removed = open->second.removed;
  if (removed.size() >= kRemembered) removed.erase(removed.begin(), std::next(removed.begin(), kRemembered / 2));
  removed.insert_or_assign(*id, std::string(name));
  return Ok{};
}

Status SqliteFs::remove_name(Inode parent, std::string_view name, const Attributes& entry, Timestamp now) {
  WARREN_TRY(remember_removed(parent, name));
  WARREN_TRY(nodes_->erase_entry(parent, name));
  store_.journal()->note_entry(parent, name);
  if (entry.is_directory()) shift_subdirectories(parent, -1);
  return drop_link(entry, now);
}

Status SqliteFs::unlink(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  expire_first();
  Transaction scope = WARREN_TRY(write_scope());
  WARREN_TRY(get_parent_row(parent));
  WARREN_TRY(remove_expired_now());
  Attributes entry = WARREN_TRY(get_entry(parent, name));
  if (entry.is_directory()) return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote(name)));
  Timestamp now = clock_.now();
  WARREN_TRY(remove_name(parent, name, entry, now));
  WARREN_TRY(nodes_->touch(parent, now));
  return scope.commit();
}

Status SqliteFs::remove_dir(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  expire_first();
  Transaction scope = WARREN_TRY(write_scope());
  WARREN_TRY(get_parent_row(parent));
  WARREN_TRY(remove_expired_now());
  Attributes entry = WARREN_TRY(get_entry(parent, name));
  if (!entry.is_directory()) {
    return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(name)));
  }
  if (WARREN_TRY(nodes_->has_entries(entry.inode))) {
    return Error(Code::kNotEmpty, fmt::format("{} is not empty", quote(name)));
  }
  Timestamp now = clock_.now();
  WARREN_TRY(remove_name(parent, name, entry, now));
  WARREN_TRY(nodes_->touch(parent, now));
  return scope.commit();
}

Status SqliteFs::check_replaceable(const Attributes& old_entry, const Attributes& new_entry) {
  bool old_is_dir = old_entry.is_directory();
  bool new_is_dir = new_entry.is_directory();
  if (old_is_dir && !new_is_dir) return Error(Code::kNotDirectory, "the new name is not a directory");
  if (!old_is_dir && new_is_dir) return Error(Code::kIsDirectory, "the new name is a directory");
  if (new_is_dir && WARREN_TRY(nodes_->has_entries(new_entry.inode))) {
    return Error(Code::kNotEmpty, "the directory at the new name is not empty");
  }
  return Ok{};
}

Status SqliteFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                        RenameMode mode) {
  WARREN_TRY(check_name(name));
  WARREN_TRY(check_name(new_name));
  expire_first();
  Transaction scope = WARREN_TRY(write_scope());
  WARREN_TRY(get_parent_row(parent));
  WARREN_TRY(remove_expired_now());
  WARREN_TRY(get_parent_row(new_parent));
  Attributes old_entry = WARREN_TRY(get_entry(parent, name));
  std::optional<Attributes> new_entry = WARREN_TRY(nodes_->find_entry(new_parent, new_name));
  if (mode == RenameMode::kExchange && !new_entry) {
    return Error(Code::kNotFound, fmt::format("no {}", quote(new_name)));
  }
  if (mode == RenameMode::kNoReplace && new_entry) {
    return Error(Code::kExists, fmt::format("{} exists already", quote(new_name)));
  }
  if (new_entry && new_entry->inode == old_entry.inode) return Ok{};
  if (old_entry.is_directory() || (new_entry && new_entry->is_directory())) dir_paths_.clear();
  if (old_entry.is_directory() && WARREN_TRY(is_within(new_parent, old_entry.inode))) {
    return Error(Code::kInvalid, "a directory cannot move into itself");
  }
  if (mode == RenameMode::kExchange) {
    if (new_entry->is_directory() && WARREN_TRY(is_within(parent, new_entry->inode))) {
      return Error(Code::kInvalid, "a directory cannot move into itself");
    }
    WARREN_TRY(exchange(parent, name, old_entry, new_parent, new_name, *new_entry));
  } else {
    if (new_entry) WARREN_TRY(check_replaceable(old_entry, *new_entry));
    WARREN_TRY(replace(parent, name, old_entry, new_parent, new_name, new_entry));
  }
  return scope.commit();
}

Status SqliteFs::replace(Inode parent, std::string_view name, const Attributes& old_entry, Inode new_parent,
                         std::string_view new_name, const std::optional<Attributes>& new_entry) {
  Timestamp now = clock_.now();
  if (new_entry) WARREN_TRY(remove_name(new_parent, new_name, *new_entry, now));
  WARREN_TRY(remember_removed(parent, name));
  WARREN_TRY(nodes_->move_entry(parent, name, new_parent, new_name));
  if (old_entry.is_file()) WARREN_TRY(expiries_->move(old_entry.inode, new_parent, new_name));
  bool is_saved_over = new_entry && new_entry->is_file() && new_entry->nlink == 1 && old_entry.is_file();
  if (is_saved_over) WARREN_TRY(items_->take_over(new_entry->inode, old_entry.inode));
  Attributes moved = old_entry;
  moved.ctime = now;
  WARREN_TRY(nodes_->update(moved));
  WARREN_TRY(nodes_->touch(parent, now));
  if (new_parent != parent) WARREN_TRY(nodes_->touch(new_parent, now));
  if (moved.is_directory()) {
    adopt(new_parent, moved.inode);
    shift_subdirectories(parent, -1);
    shift_subdirectories(new_parent, 1);
  }
  store_.journal()->note_entry(parent, name);
  store_.journal()->note_entry(new_parent, new_name);
  return Ok{};
}

Status SqliteFs::exchange(Inode parent, std::string_view name, const Attributes& old_entry, Inode new_parent,
                          std::string_view new_name, const Attributes& new_entry) {
  Timestamp now = clock_.now();
  WARREN_TRY(nodes_->retarget_entry(parent, name, new_entry.inode));
  WARREN_TRY(nodes_->retarget_entry(new_parent, new_name, old_entry.inode));
  auto update_moved = [&](Attributes node, Inode from, Inode to) -> Status {
    node.ctime = now;
    WARREN_TRY(nodes_->update(node));
    if (!node.is_directory()) return Ok{};
    adopt(to, node.inode);
    shift_subdirectories(from, -1);
    shift_subdirectories(to, 1);
    return Ok{};
  };
  WARREN_TRY(update_moved(old_entry, parent, new_parent));
  WARREN_TRY(update_moved(new_entry, new_parent, parent));
  WARREN_TRY(nodes_->touch(parent, now));
  if (new_parent != parent) WARREN_TRY(nodes_->touch(new_parent, now));
  store_.journal()->note_entry(parent, name);
  store_.journal()->note_entry(new_parent, new_name);
  return Ok{};
}

}  // namespace warren
