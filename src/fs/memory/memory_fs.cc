#include "fs/memory/memory_fs.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/check.h"
#include "base/path.h"
#include "fs/expiry.h"

namespace warren {
namespace {

constexpr std::uint32_t kPermissionBits = 07777;

Error no_name(std::string_view name) { return Error(Code::kNotFound, fmt::format("no {}", quote(name))); }
Error name_exists(std::string_view name) { return Error(Code::kExists, fmt::format("{} exists", quote(name))); }

Status check_range(std::uint64_t offset, std::uint64_t length) {
  if (offset > limits::kFileBytes || length > limits::kFileBytes - offset) {
    return Error(Code::kTooLarge, fmt::format("a file has at most {} bytes", limits::kFileBytes));
  }
  return Ok{};
}

Status check_time(const std::optional<SetTime>& time) {
  if (time && time->at && (time->at->nanoseconds < 0 || time->at->nanoseconds > 999'999'999)) {
    return Error(Code::kInvalid, fmt::format("{} is not a valid number of nanoseconds", time->at->nanoseconds));
  }
  return Ok{};
}

Result<std::uint32_t> node_type(std::uint32_t mode) {
  switch (mode & S_IFMT) {
    case 0:
    case S_IFREG: return std::uint32_t{S_IFREG};
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFCHR:
    case S_IFBLK: return mode & S_IFMT;
    default: return Error(Code::kInvalid, fmt::format("a node of mode {:o} cannot be made", mode));
  }
}

std::uint64_t bytes_of_name(std::string_view name) { return limits::kMemoryNodeBytes + name.size(); }

}  // namespace

class MemoryFs::Held final : public Unit {
 public:
  Held(MemoryFs& fs, UnitAccess access) : lock_(fs.mutex_), fs_(fs), access_(access) {
    if (access_ != UnitAccess::kWrite) return;
    if (fs_.write_units_++ == 0) fs_.undo_.emplace(Undo{.steps = {}, .kept = {}, .used_bytes = fs_.used_bytes_});
    changes_before_ = fs_.undo_->changes;
  }
  ~Held() override {
    if (access_ != UnitAccess::kWrite) return;
    if (!is_committed_ && fs_.undo_->changes != changes_before_) fs_.undo_->is_broken = true;
    if (--fs_.write_units_ > 0) return;
    if (!is_committed_) fs_.roll_back();
    fs_.undo_.reset();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  Status commit() override {
    if (access_ == UnitAccess::kWrite && fs_.undo_->is_broken) {
      return Error(Code::kIo, "part of the change failed, so all of it was rolled back");
    }
    is_committed_ = true;
    return Ok{};
  }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  MemoryFs& fs_;
  UnitAccess access_;
  std::uint64_t changes_before_ = 0;
  bool is_committed_ = false;
};

class MemoryFs::Stream final : public DirStream {
 public:
  Stream(MemoryFs& fs, Inode dir) : fs_(fs), dir_(dir) {}

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    Lock lock(fs_.mutex_);
    fs_.remove_expired();
    std::vector<DirEntry> page;
    auto found = fs_.nodes_.find(dir_);
    if (found == fs_.nodes_.end()) return page;  // removed and forgotten: empty, as it was when it was removed
    const Node& dir = found->second;
    for (auto at = dir.by_cookie.upper_bound(cookie); at != dir.by_cookie.end() && page.size() < max; ++at) {
      const Node& node = fs_.nodes_.at(dir.entries.at(at->second).inode);
      DirEntry entry{.cookie = at->first,
                     .name = at->second,
                     .inode = node.attributes.inode,
                     .type = node.attributes.mode & S_IFMT,
                     .attributes = std::nullopt};
      if (detail == DirDetail::kAttributes) entry.attributes = fs_.report(node);
      page.push_back(std::move(entry));
    }
    return page;
  }

 private:
  MemoryFs& fs_;
  const Inode dir_;
};

MemoryFs::MemoryFs(Clock& clock, std::uint32_t chunk_bytes, std::uint64_t bytes_max)
    : clock_(clock), chunk_bytes_(chunk_bytes), bytes_max_(bytes_max) {
  WARREN_CHECK(chunk_bytes > 0);
  Timestamp now = clock_.now();
  Attributes root{.inode = kRootInode, .mode = S_IFDIR | 0755, .nlink = 2, .atime = now, .mtime = now, .ctime = now};
  nodes_.emplace(kRootInode, Node{.attributes = root, .parent = kRootInode, .content = SparseBytes(chunk_bytes_)});
}

Result<std::unique_ptr<Unit>> MemoryFs::begin(UnitAccess access) { return std::make_unique<Held>(*this, access); }

template <class Step>
void MemoryFs::note_undo(Step step) {
  if (!undo_) return;
  undo_->steps.emplace_back(std::move(step));
  ++undo_->changes;
}

// Entries of directories and reference counts are not among the values: names are undone one by one, and references
// belong to whoever holds them.
void MemoryFs::keep(Node& node) {
  Inode inode = node.attributes.inode;
  if (undo_) ++undo_->changes;  // also of a node whose values are kept
  if (!undo_ || !undo_->kept.insert(inode).second) return;
  auto expires = expiries_.find(inode);
  std::optional<std::int64_t> at_ms;
  if (expires != expiries_.end()) at_ms = expires->second;
  note_undo([this, inode, at_ms, attributes = node.attributes, parent = node.parent, target = node.target,
             xattrs = node.xattrs, content = node.content] {
    Node& changed = nodes_.at(inode);
    changed.attributes = attributes;
    changed.parent = parent;
    changed.target = target;
    changed.xattrs = xattrs;
    changed.content = content;
    if (at_ms) expiries_[inode] = *at_ms;
    else expiries_.erase(inode);
  });
}

void MemoryFs::roll_back() {
  Undo undo = std::move(*undo_);
  undo_.reset();
  for (auto step = undo.steps.rbegin(); step != undo.steps.rend(); ++step) (*step)();
  used_bytes_ = undo.used_bytes;
  for (Inode inode : undo.kept) {  // one that had no name before, and was forgotten meanwhile
    if (auto found = nodes_.find(inode); found != nodes_.end()) collect(found->second);
  }
}

Result<MemoryFs::Node*> MemoryFs::get_node(Inode inode) {
  auto found = nodes_.find(inode);
  if (found == nodes_.end()) return Error(Code::kStale, fmt::format("no inode {}", inode.value));
  return &found->second;
}

Result<MemoryFs::Node*> MemoryFs::get_directory(Inode inode) {
  Node* node = WARREN_TRY(get_node(inode));
  if (!node->is_directory()) {
    return Error(Code::kNotDirectory, fmt::format("inode {} is not a directory", inode.value));
  }
  return node;
}

Result<MemoryFs::Node*> MemoryFs::get_linked_directory(Inode inode) {
  Node* dir = WARREN_TRY(get_directory(inode));
  if (dir->attributes.nlink == 0) {
    return Error(Code::kNotFound, fmt::format("directory {} was removed", inode.value));
  }
  return dir;
}

Result<MemoryFs::Node*> MemoryFs::get_file(Inode inode) {
  Node* node = WARREN_TRY(get_node(inode));
  if (node->is_directory()) return Error(Code::kIsDirectory, fmt::format("inode {} is a directory", inode.value));
  if (!node->attributes.is_file()) {
    return Error(Code::kInvalid, fmt::format("inode {} is not a regular file", inode.value));
  }
  return node;
}

MemoryFs::Node* MemoryFs::find_child(Node& dir, std::string_view name) {
  auto found = dir.entries.find(name);
  return found == dir.entries.end() ? nullptr : &nodes_.at(found->second.inode);
}

Result<MemoryFs::Node*> MemoryFs::get_child(Node& dir, std::string_view name) {
  Node* child = find_child(dir, name);
  if (child == nullptr) return no_name(name);
  return child;
}

Attributes MemoryFs::report(const Node& node) const {
  Attributes attributes = node.attributes;
  if (attributes.is_file()) attributes.size = node.content.size();
  return attributes;
}

void MemoryFs::add_entry(Node& dir, std::string_view name, Inode inode) {
  std::uint64_t cookie = next_cookie_++;
  dir.entries.emplace(name, Entry{.inode = inode, .cookie = cookie});
  dir.by_cookie.emplace(cookie, name);
  used_bytes_ += bytes_of_name(name);
  note_undo([&dir, name = std::string(name), cookie] {
    dir.by_cookie.erase(cookie);
    dir.entries.erase(name);
  });
}

void MemoryFs::set_entry(Node& dir, std::string_view name, Inode inode) {
  Entry& entry = dir.entries.find(name)->second;
  note_undo([&dir, name = std::string(name), before = entry.inode] { dir.entries.find(name)->second.inode = before; });
  entry.inode = inode;
}

void MemoryFs::remove_entry(Node& dir, std::string_view name) {
  auto found = dir.entries.find(name);
  note_undo([&dir, name = std::string(name), entry = found->second] {
    dir.by_cookie.emplace(entry.cookie, name);
    dir.entries.emplace(name, entry);
  });
  dir.by_cookie.erase(found->second.cookie);
  used_bytes_ -= bytes_of_name(name);
  dir.entries.erase(found);
}

void MemoryFs::drop_name(Node& node, Timestamp now) {
  keep(node);
  node.attributes.nlink = node.is_directory() ? 0 : node.attributes.nlink - 1;
  node.attributes.ctime = now;
  collect(node);
}

void MemoryFs::collect(Node& node) {
  if (node.attributes.nlink != 0 || node.retained != 0) return;
  keep(node);
  clear_expiry(node);
  used_bytes_ -= node.content.stored_bytes() + node.target.size();
  for (const auto& [name, value] : node.xattrs) used_bytes_ -= name.size() + value.size();
  auto gone = nodes_.extract(node.attributes.inode);
  if (!undo_) return;
  auto kept = std::make_shared<decltype(gone)>(std::move(gone));
  note_undo([this, kept] { nodes_.insert(std::move(*kept)); });
}

Status MemoryFs::check_room(std::uint64_t more) const {
  if (more <= bytes_max_ && used_bytes_ <= bytes_max_ - more) return Ok{};
  return Error(Code::kNoSpace, fmt::format("there is room for {} bytes in this memory", bytes_max_));
}

template <class Change>
void MemoryFs::change_content(Node& node, const Change& change) {
  keep(node);
  std::uint64_t before = node.content.stored_bytes();
  change(node.content);
  used_bytes_ = used_bytes_ - before + node.content.stored_bytes();
}

void MemoryFs::touch_content(Node& node) {
  keep(node);
  node.attributes.mtime = node.attributes.ctime = clock_.now();
}

Result<Attributes> MemoryFs::lookup(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  Lock lock(mutex_);
  remove_expired();
  Node* dir = WARREN_TRY(get_linked_directory(parent));
  Node* child = WARREN_TRY(get_child(*dir, name));
  return report(*child);
}

Result<MemoryFs::Node*> MemoryFs::add_node(Inode parent, std::string_view name, std::uint32_t type,
                                           const NewNode& node) {
  Node* dir = WARREN_TRY(get_linked_directory(parent));
  if (find_child(*dir, name) != nullptr) return name_exists(name);
  WARREN_TRY(check_room(bytes_of_name(name)));
  Timestamp now = clock_.now();
  Attributes made{.inode = Inode{next_inode_++},
                  .mode = type | (node.mode & kPermissionBits),
                  .nlink = type == S_IFDIR ? 2U : 1U,
                  .owner = node.owner,
                  .atime = now,
                  .mtime = now,
                  .ctime = now};
  if (type == S_IFCHR || type == S_IFBLK) made.rdev = node.rdev;
  if ((dir->attributes.mode & S_ISGID) != 0) {
    made.owner.gid = dir->attributes.owner.gid;
    if (type == S_IFDIR) made.mode |= S_ISGID;
  }
  keep(*dir);
  if (type == S_IFDIR) ++dir->attributes.nlink;
  dir->attributes.mtime = dir->attributes.ctime = now;
  add_entry(*dir, name, made.inode);
  auto added =
      nodes_.emplace(made.inode, Node{.attributes = made, .parent = parent, .content = SparseBytes(chunk_bytes_)});
  note_undo([this, inode = made.inode] { nodes_.erase(inode); });
  return &added.first->second;
}

Result<Attributes> MemoryFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_name(name));
  std::uint32_t type = WARREN_TRY(node_type(node.mode));
  Lock lock(mutex_);
  remove_expired();
  Node* made = WARREN_TRY(add_node(parent, name, type, node));
  return report(*made);
}

Result<Attributes> MemoryFs::make_dir(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_name(name));
  Lock lock(mutex_);
  remove_expired();
  Node* made = WARREN_TRY(add_node(parent, name, S_IFDIR, node));
  return report(*made);
}

Result<Attributes> MemoryFs::make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) {
  WARREN_TRY(check_name(name));
  WARREN_TRY(check_link_target(target));
  Lock lock(mutex_);
  remove_expired();
  WARREN_TRY(check_room(bytes_of_name(name) + target.size()));
  Node* made = WARREN_TRY(add_node(parent, name, S_IFLNK, {.mode = 0777, .owner = owner}));
  made->target = target;
  used_bytes_ += target.size();
  made->attributes.size = target.size();
  return report(*made);
}

Result<Attributes> MemoryFs::create(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_name(name));
  Lock lock(mutex_);
  remove_expired();
  Node* made = WARREN_TRY(add_node(parent, name, S_IFREG, node));
  ++made->retained;
  return report(*made);
}

Result<Attributes> MemoryFs::link(Inode node, Inode new_parent, std::string_view new_name) {
  WARREN_TRY(check_name(new_name));
  Lock lock(mutex_);
  remove_expired();
  Node* dir = WARREN_TRY(get_linked_directory(new_parent));
  Node* linked = WARREN_TRY(get_node(node));
  if (linked->is_directory()) return Error(Code::kNotPermitted, "a directory has one name");
  if (linked->attributes.nlink == 0) return Error(Code::kNotFound, fmt::format("inode {} was removed", node.value));
  if (linked->attributes.nlink >= limits::kLinks) {
    return Error(Code::kTooManyLinks, fmt::format("a file has at most {} names", limits::kLinks));
  }
  if (find_child(*dir, new_name) != nullptr) return name_exists(new_name);
  WARREN_TRY(check_room(bytes_of_name(new_name)));
  Timestamp now = clock_.now();
  keep(*dir);
  keep(*linked);
  add_entry(*dir, new_name, node);
  dir->attributes.mtime = dir->attributes.ctime = now;
  ++linked->attributes.nlink;
  linked->attributes.ctime = now;
  return report(*linked);
}

Status MemoryFs::unlink(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  Lock lock(mutex_);
  remove_expired();
  Node* dir = WARREN_TRY(get_linked_directory(parent));
  Node* child = WARREN_TRY(get_child(*dir, name));
  if (child->is_directory()) return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote(name)));
  Timestamp now = clock_.now();
  keep(*dir);
  remove_entry(*dir, name);
  dir->attributes.mtime = dir->attributes.ctime = now;
  drop_name(*child, now);
  return Ok{};
}

Status MemoryFs::remove_dir(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  Lock lock(mutex_);
  remove_expired();
  Node* dir = WARREN_TRY(get_linked_directory(parent));
  Node* child = WARREN_TRY(get_child(*dir, name));
  if (!child->is_directory()) return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(name)));
  if (!child->entries.empty()) return Error(Code::kNotEmpty, fmt::format("{} is not empty", quote(name)));
  Timestamp now = clock_.now();
  keep(*dir);
  remove_entry(*dir, name);
  --dir->attributes.nlink;
  dir->attributes.mtime = dir->attributes.ctime = now;
  drop_name(*child, now);
  return Ok{};
}

bool MemoryFs::is_within(Inode dir, Inode ancestor) {
  for (Inode at = dir;; at = nodes_.at(at).parent) {
    if (at == ancestor) return true;
    if (at == kRootInode) return false;
  }
}

// Checks a rename whose directories and `from` are known to exist.
Status MemoryFs::check_rename(const Side& from, const Side& to, RenameMode mode) {
  const Attributes& moved = from.node->attributes;
  if (moved.is_directory() && is_within(to.dir.attributes.inode, moved.inode)) {
    return Error(Code::kInvalid, fmt::format("{} cannot move into itself", quote(from.name)));
  }
  if (to.node == nullptr) return Ok{};
  const Attributes& replaced = to.node->attributes;
  if (mode == RenameMode::kExchange) {
    if (replaced.is_directory() && is_within(from.dir.attributes.inode, replaced.inode)) {
      return Error(Code::kInvalid, fmt::format("{} cannot move into itself", quote(to.name)));
    }
    return Ok{};
  }
  if (moved.is_directory() && !replaced.is_directory()) {
    return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(to.name)));
  }
  if (!moved.is_directory() && replaced.is_directory()) {
    return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote(to.name)));
  }
  if (!to.node->entries.empty()) return Error(Code::kNotEmpty, fmt::format("{} is not empty", quote(to.name)));
  return Ok{};
}

void MemoryFs::move_parent(Node& moved, Node& from, Node& to) {
  if (!moved.is_directory()) return;
  --from.attributes.nlink;
  ++to.attributes.nlink;
  moved.parent = to.attributes.inode;
}

void MemoryFs::exchange(const Side& from, const Side& to) {
  set_entry(from.dir, from.name, to.node->attributes.inode);
  set_entry(to.dir, to.name, from.node->attributes.inode);
  move_parent(*from.node, from.dir, to.dir);
  move_parent(*to.node, to.dir, from.dir);
}

void MemoryFs::replace(const Side& from, const Side& to, Timestamp now) {
  remove_entry(from.dir, from.name);
  move_parent(*from.node, from.dir, to.dir);
  if (to.node == nullptr) {
    add_entry(to.dir, to.name, from.node->attributes.inode);
    return;
  }
  set_entry(to.dir, to.name, from.node->attributes.inode);
  if (to.node->is_directory()) --to.dir.attributes.nlink;
  drop_name(*to.node, now);
}

Status MemoryFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                        RenameMode mode) {
  WARREN_TRY(check_name(name));
  WARREN_TRY(check_name(new_name));
  Lock lock(mutex_);
  remove_expired();
  Node* from_dir = WARREN_TRY(get_linked_directory(parent));
  Node* to_dir = WARREN_TRY(get_linked_directory(new_parent));
  Side from{.dir = *from_dir, .name = name, .node = find_child(*from_dir, name)};
  Side to{.dir = *to_dir, .name = new_name, .node = find_child(*to_dir, new_name)};
  if (from.node == nullptr) return no_name(name);
  if (mode == RenameMode::kExchange && to.node == nullptr) return no_name(new_name);
  if (mode == RenameMode::kNoReplace && to.node != nullptr) return name_exists(new_name);
  if (from.node == to.node) return Ok{};
  WARREN_TRY(check_rename(from, to, mode));

  Timestamp now = clock_.now();
  for (Node* one : {from.node, &from.dir, &to.dir}) keep(*one);
  if (to.node != nullptr) keep(*to.node);
  from.node->attributes.ctime = now;
  from.dir.attributes.mtime = from.dir.attributes.ctime = now;
  to.dir.attributes.mtime = to.dir.attributes.ctime = now;
  if (mode == RenameMode::kExchange) {
    to.node->attributes.ctime = now;
    exchange(from, to);
  } else {
    replace(from, to, now);
  }
  return Ok{};
}

Result<std::unique_ptr<DirStream>> MemoryFs::open_dir(Inode dir) {
  Lock lock(mutex_);
  WARREN_TRY(get_directory(dir));
  return std::make_unique<Stream>(*this, dir);
}

Result<std::vector<EntryName>> MemoryFs::list_names_of(Inode node) {
  Lock lock(mutex_);
  std::vector<EntryName> names;
  for (const auto& [parent, dir] : nodes_) {
    for (const auto& [name, entry] : dir.entries) {
      if (entry.inode == node) names.push_back({.parent = parent, .name = name});
    }
  }
  return names;
}

Result<Attributes> MemoryFs::get_attributes(Inode node) {
  Lock lock(mutex_);
  Node* found = WARREN_TRY(get_node(node));
  return report(*found);
}

Result<Attributes> MemoryFs::set_attributes(Inode node, const AttributeChanges& changes) {
  Lock lock(mutex_);
  Node* found = WARREN_TRY(get_node(node));
  if (changes.size) {
    WARREN_TRY(get_file(node));
    WARREN_TRY(check_range(*changes.size, 0));
  }
  WARREN_TRY(check_time(changes.atime));
  WARREN_TRY(check_time(changes.mtime));

  Timestamp now = clock_.now();
  keep(*found);
  Attributes& attributes = found->attributes;
  bool changed = changes.mode || changes.uid || changes.gid || changes.size || changes.atime || changes.mtime;
  if (changes.mode) attributes.mode = (attributes.mode & S_IFMT) | (*changes.mode & kPermissionBits);
  if (changes.uid) attributes.owner.uid = *changes.uid;
  if (changes.gid) attributes.owner.gid = *changes.gid;
  if (changes.size) {
    change_content(*found, [&](SparseBytes& content) { content.resize(*changes.size); });
    if (*changes.size == 0) clear_expiry(*found);
    attributes.mtime = now;
  }
  if (changes.atime) attributes.atime = changes.atime->at.value_or(now);
  if (changes.mtime) attributes.mtime = changes.mtime->at.value_or(now);
  if (changed) attributes.ctime = now;
  return report(*found);
}

Result<std::string> MemoryFs::read_link(Inode node) {
  Lock lock(mutex_);
  Node* found = WARREN_TRY(get_node(node));
  if (!found->attributes.is_symlink()) {
    return Error(Code::kInvalid, fmt::format("inode {} is not a symbolic link", node.value));
  }
  return found->target;
}

Status MemoryFs::retain(Inode node) {
  Lock lock(mutex_);
  Node* found = WARREN_TRY(get_node(node));
  ++found->retained;
  return Ok{};
}

void MemoryFs::forget(Inode node, std::uint64_t count) {
  Lock lock(mutex_);
  auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  found->second.retained -= std::min(found->second.retained, count);
  collect(found->second);
}

Result<Attributes> MemoryFs::open(Inode node) {
  Lock lock(mutex_);
  Node* file = WARREN_TRY(get_file(node));
  ++file->retained;
  return report(*file);
}

void MemoryFs::release(Inode node) { forget(node, 1); }

Result<std::size_t> MemoryFs::read(Inode node, std::uint64_t offset, MutableBytes out) {
  Lock lock(mutex_);
  Node* file = WARREN_TRY(get_file(node));
  return file->content.read(offset, out);
}

Status MemoryFs::write(Inode node, std::uint64_t offset, Bytes data) {
  Lock lock(mutex_);
  Node* file = WARREN_TRY(get_file(node));
  if (data.empty()) return Ok{};
  WARREN_TRY(check_range(offset, data.size()));
  WARREN_TRY(check_room(file->content.missing_bytes(offset, data.size())));
  change_content(*file, [&](SparseBytes& content) { content.write(offset, data); });
  touch_content(*file);
  return Ok{};
}

Result<std::uint64_t> MemoryFs::append(Inode node, Bytes data) {
  Lock lock(mutex_);
  Node* file = WARREN_TRY(get_file(node));
  std::uint64_t at = file->content.size();
  WARREN_TRY(write(node, at, data));
  return at;
}

Status MemoryFs::allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  Lock lock(mutex_);
  Node* file = WARREN_TRY(get_file(node));
  if (length == 0) return Error(Code::kInvalid, "nothing to allocate");
  WARREN_TRY(check_range(offset, length));
  if (mode == AllocateMode::kKeepSize) return Ok{};
  bool may_grow = mode == AllocateMode::kAllocate || mode == AllocateMode::kZeroRange;
  bool grows = may_grow && offset + length > file->content.size();
  keep(*file);
  if (grows) file->content.resize(offset + length);
  if (mode != AllocateMode::kAllocate) {
    change_content(*file, [&](SparseBytes& content) { content.zero(offset, length); });
  }
  if (grows || mode != AllocateMode::kAllocate) touch_content(*file);
  return Ok{};
}

Result<std::uint64_t> MemoryFs::seek_data(Inode node, std::uint64_t offset) {
  Lock lock(mutex_);
  Node* file = WARREN_TRY(get_file(node));
  std::optional<std::uint64_t> found = file->content.find_data(offset);
  if (!found) return Error(Code::kNoData, fmt::format("no data from {} on", offset));
  return *found;
}

Result<std::uint64_t> MemoryFs::seek_hole(Inode node, std::uint64_t offset) {
  Lock lock(mutex_);
  Node* file = WARREN_TRY(get_file(node));
  std::optional<std::uint64_t> found = file->content.find_hole(offset);
  if (!found) return Error(Code::kNoData, fmt::format("{} is beyond the end", offset));
  return *found;
}

Result<std::uint64_t> MemoryFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                           std::uint64_t length) {
  Lock lock(mutex_);
  Node* source = WARREN_TRY(get_file(from));
  Node* target = WARREN_TRY(get_file(to));
  if (from_offset >= source->content.size() || length == 0) return std::uint64_t{0};
  length = std::min(length, source->content.size() - from_offset);
  WARREN_TRY(check_range(to_offset, length));
  if (from == to && from_offset < to_offset + length && to_offset < from_offset + length) {
    return Error(Code::kInvalid, "the ranges overlap");
  }
  WARREN_TRY(check_room(target->content.missing_bytes(to_offset, length)));
  std::vector<std::byte> buffer(std::min<std::uint64_t>(length, limits::kCopyBytes));
  for (std::uint64_t done = 0; done < length;) {
    MutableBytes step(buffer.data(), std::min<std::uint64_t>(buffer.size(), length - done));
    source->content.read(from_offset + done, step);
    change_content(*target, [&](SparseBytes& content) { content.write(to_offset + done, step); });
    done += step.size();
  }
  touch_content(*target);
  return length;
}

Status MemoryFs::sync(Inode node) {
  Lock lock(mutex_);
  WARREN_TRY(get_node(node));
  return Ok{};
}

Result<std::string> MemoryFs::get_xattr(Inode node, std::string_view name) {
  WARREN_TRY(check_xattr_name(name));
  Lock lock(mutex_);
  Node* found = WARREN_TRY(get_node(node));
  auto at = found->xattrs.find(name);
  if (at == found->xattrs.end()) return Error(Code::kNoData, fmt::format("no attribute {}", quote(name)));
  return at->second;
}

Result<std::vector<std::string>> MemoryFs::list_xattrs(Inode node) {
  Lock lock(mutex_);
  Node* found = WARREN_TRY(get_node(node));
  std::vector<std::string> names;
  for (const auto& [name, value] : found->xattrs) names.push_back(name);
  return names;
}

Status MemoryFs::set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) {
  WARREN_TRY(check_xattr_name(name));
  if (value.size() > limits::kXattrValueBytes) {
    return Error(Code::kTooLarge, fmt::format("an attribute has at most {} bytes", limits::kXattrValueBytes));
  }
  Lock lock(mutex_);
  Node* found = WARREN_TRY(get_node(node));
  bool exists = found->xattrs.contains(name);
  if (mode == XattrMode::kCreate && exists) return name_exists(name);
  if (mode == XattrMode::kReplace && !exists) return Error(Code::kNoData, fmt::format("no attribute {}", quote(name)));
  keep(*found);
  if (name == kExpiryXattr) {
    WARREN_TRY(set_expiry(*found, value));  // too small to be counted
  } else {
    std::uint64_t before = exists ? name.size() + found->xattrs.find(name)->second.size() : 0;
    std::uint64_t after = name.size() + value.size();
    if (after > before) WARREN_TRY(check_room(after - before));
    used_bytes_ = used_bytes_ - before + after;
    found->xattrs.insert_or_assign(std::string(name), std::string(as_text(value)));
  }
  found->attributes.ctime = clock_.now();
  return Ok{};
}

Status MemoryFs::remove_xattr(Inode node, std::string_view name) {
  WARREN_TRY(check_xattr_name(name));
  Lock lock(mutex_);
  Node* found = WARREN_TRY(get_node(node));
  auto at = found->xattrs.find(name);
  if (at == found->xattrs.end()) return Error(Code::kNoData, fmt::format("no attribute {}", quote(name)));
  keep(*found);
  if (name == kExpiryXattr) {
    clear_expiry(*found);
  } else {
    used_bytes_ -= name.size() + at->second.size();
    found->xattrs.erase(at);
  }
  found->attributes.ctime = clock_.now();
  return Ok{};
}

// Files that expire.

Status MemoryFs::set_expiry(Node& node, Bytes value) {
  std::int64_t at_ms = WARREN_TRY(parse_expiry(as_text(value)));
  if (!node.attributes.is_file()) return Error(Code::kInvalid, "only a regular file can expire");
  node.xattrs.insert_or_assign(std::string(kExpiryXattr), format_expiry(at_ms));
  expiries_[node.attributes.inode] = at_ms;
  changed_.notify_one();
  return Ok{};
}

void MemoryFs::clear_expiry(Node& node) {
  if (expiries_.erase(node.attributes.inode) != 0) node.xattrs.erase(node.xattrs.find(kExpiryXattr));
}

// Nodes do not know their names: all directories are searched, which only an expired file costs.
void MemoryFs::remove_expired() {
  if (expiries_.empty()) return;
  std::int64_t now_ms = clock_.now_us() / 1000;
  Timestamp now = clock_.now();
  for (auto next = expiries_.begin(); next != expiries_.end();) {
    auto [inode, at_ms] = *next++;
    if (at_ms > now_ms) continue;
    keep(nodes_.at(inode));
    clear_expiry(nodes_.at(inode));
    for (auto& [number, dir] : nodes_) {
      std::vector<std::string> names;
      for (const auto& [name, entry] : dir.entries) {
        if (entry.inode == inode) names.push_back(name);
      }
      if (!names.empty()) keep(dir);
      for (std::string& name : names) {
        remove_entry(dir, name);
        dir.attributes.mtime = dir.attributes.ctime = now;
        if (listener_ != nullptr) expired_.emplace_back(number, std::move(name));
      }
      Node& node = nodes_.at(inode);
      node.attributes.nlink -= static_cast<std::uint32_t>(names.size());
      if (!names.empty()) node.attributes.ctime = now;
    }
    collect(nodes_.at(inode));
  }
  if (!expired_.empty()) changed_.notify_one();
}

void MemoryFs::report_expired() {
  constexpr std::chrono::milliseconds kLook{5000};  // the wall clock can be set
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    remove_expired();
    if (!expired_.empty()) {
      auto gone = std::exchange(expired_, {});
      lock.unlock();
      for (const auto& [parent, name] : gone) listener_->entry_changed(parent, name);
      lock.lock();
    } else if (expiries_.empty()) {
      changed_.wait(lock);
    } else {
      std::int64_t next = std::min_element(expiries_.begin(), expiries_.end(), [](const auto& a, const auto& b) {
                            return a.second < b.second;
                          })->second;
      std::chrono::milliseconds left(next - clock_.now_us() / 1000);
      changed_.wait_for(lock, std::clamp(left, std::chrono::milliseconds(1), kLook));
    }
  }
}

Status MemoryFs::listen(ChangeListener* listener) {
  if (reporter_.joinable()) {
    {
      Lock lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_one();
    reporter_.join();
  }
  Lock lock(mutex_);
  is_ending_ = false;
  listener_ = listener;
  expired_.clear();
  if (listener_ != nullptr) reporter_ = std::thread([this] { report_expired(); });
  return Ok{};
}

MemoryFs::~MemoryFs() { listen(nullptr).ignore("it only stops"); }

Result<FileSystemStats> MemoryFs::stats(Inode) {
  Lock lock(mutex_);
  FileSystemStats stats{.block_bytes = chunk_bytes_, .used_inodes = nodes_.size()};
  if (bytes_max_ != std::numeric_limits<std::uint64_t>::max()) {
    stats.used_bytes = used_bytes_;
    stats.capacity_bytes = bytes_max_;
    stats.available_bytes = bytes_max_ - std::min(used_bytes_, bytes_max_);
    return stats;
  }
  for (const auto& [inode, node] : nodes_) stats.used_bytes += node.content.stored_bytes();
  return stats;
}

}  // namespace warren
