// Names and nodes; content and units are in blob_fs_data.cc.
#include "vfs/blob_fs.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "base/no_wait.h"
#include "base/path.h"
#include "fs/expiry.h"

namespace warren {
namespace {

constexpr std::uint32_t kFileMode = S_IFREG | 0644;
constexpr std::uint32_t kDirMode = S_IFDIR | 0755;
// What is read along when a file is looked up in a unit, which usually reads it next.
constexpr std::uint64_t kSeenBytes = std::uint64_t{64} << 10;
// Of moving what others write meanwhile. Each attempt that fails is a write of somebody else.
constexpr int kRenameAttempts = 100;

Error no_entry(std::string_view name) { return Error(Code::kNotFound, fmt::format("no {}", quote(name))); }
Error entry_exists(std::string_view name) { return Error(Code::kExists, fmt::format("{} exists", quote(name))); }
Error is_gone(std::string_view name) { return Error(Code::kStale, fmt::format("{} no longer exists", quote(name))); }

Status check_entry_name(std::string_view name) {
  WARREN_TRY(check_name(name));
  if (name != BlobFs::kDirMarker) return Ok{};
  return Error(Code::kInvalid, fmt::format("the name {} is reserved: it marks directories", quote(name)));
}

}  // namespace

BlobFs::BlobFs(BlobStore& store, Clock& clock, BlobFsOptions options)
    : store_(store),
      clock_(clock),
      options_(options),
      abilities_(store.abilities()),
      opened_(clock.now()),
      sweep_at_(options.nodes) {
  auto root = std::make_shared<Node>();
  root->inode = kRootInode;
  root->is_dir = true;
  nodes_.emplace(kRootInode, std::move(root));
}

BlobFs::~BlobFs() {
  {
    std::lock_guard lock(writer_mutex_);
    is_ending_ = true;
  }
  writer_wakes_.notify_all();
  if (writer_.joinable()) writer_.join();
  sync(kRootInode).ignore("there is nobody left to report it to");
}

Result<BlobStore*> BlobFs::reach() {
  if (NoWait::forbids_waiting()) return Error(Code::kBusy, "the store has to be asked");
  return &store_;
}

// Nodes.

Result<BlobFs::NodePtr> BlobFs::get_node(Inode inode) {
  std::lock_guard lock(nodes_mutex_);
  auto found = nodes_.find(inode);
  if (found == nodes_.end() || found->second->is_removed) {
    return Error(Code::kStale, fmt::format("no inode {}", inode.value));
  }
  return found->second;
}

Result<BlobFs::NodePtr> BlobFs::get_dir(Inode inode) {
  {
    std::lock_guard lock(nodes_mutex_);
    auto found = nodes_.find(inode);
    if (found != nodes_.end() && found->second->is_dir && found->second->is_removed && found->second->retained > 0) {
      return Error(Code::kNotFound, fmt::format("directory {} was removed", inode.value));
    }
  }
  NodePtr node = WARREN_TRY(get_node(inode));
  if (!node->is_dir) return Error(Code::kNotDirectory, fmt::format("inode {} is not a directory", inode.value));
  return node;
}

Result<BlobFs::NodePtr> BlobFs::get_file(Inode inode) {
  NodePtr node = WARREN_TRY(get_node(inode));
  if (node->is_dir) return Error(Code::kIsDirectory, fmt::format("inode {} is a directory", inode.value));
  return node;
}

std::string BlobFs::key_of(const NodePtr& node) {
  std::lock_guard lock(nodes_mutex_);
  return node->key;
}

std::string BlobFs::prefix_of(const NodePtr& dir) {
  std::string key = key_of(dir);
  return key.empty() ? key : key + "/";
}

BlobFs::NodePtr BlobFs::find_known(const NodePtr& dir, std::string_view name) {
  std::lock_guard lock(nodes_mutex_);
  auto child = dir->children.find(name);
  return child == dir->children.end() ? nullptr : nodes_.at(child->second);
}

BlobFs::NodePtr BlobFs::remember(const NodePtr& dir, std::string_view name, bool is_dir) {
  if (NodePtr known = find_known(dir, name)) {
    if (known->is_dir == is_dir) return known;
    mark_removed(known);  // something else has the name now
  }
  std::lock_guard lock(nodes_mutex_);
  auto child = dir->children.find(name);
  if (child != dir->children.end()) return nodes_.at(child->second);  // another thread was faster
  auto node = std::make_shared<Node>();
  node->inode = Inode{next_inode_++};
  node->is_dir = is_dir;
  node->parent = dir->inode;
  node->name = name;
  node->key = dir->key.empty() ? node->name : dir->key + "/" + node->name;
  dir->children.emplace(node->name, node->inode);
  nodes_.emplace(node->inode, node);
  if (nodes_.size() > sweep_at_) sweep();
  return node;
}

void BlobFs::mark_removed(const NodePtr& node) {
  std::vector<NodePtr> gone{node};
  {
    std::lock_guard lock(nodes_mutex_);
    for (std::size_t i = 0; i < gone.size(); ++i) {
      Node& one = *gone[i];
      one.is_removed = true;
      waiting_.erase(one.inode);
      auto parent = nodes_.find(one.parent);
      if (i == 0 && parent != nodes_.end()) {
        auto child = parent->second->children.find(one.name);
        if (child != parent->second->children.end() && child->second == one.inode)
          parent->second->children.erase(child);
      }
      for (const auto& [name, child] : one.children) gone.push_back(nodes_.at(child));
      one.children.clear();
    }
  }
}

// nodes_mutex_ is held. Whoever uses a node holds a pointer to it.
void BlobFs::sweep() {
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    Node& node = *it->second;
    auto parent = nodes_.find(node.parent);
    bool is_listed = parent != nodes_.end() && parent->second->streams > 0;
    bool is_used = it->second.use_count() > 1 || node.retained > 0 || node.streams > 0 || !node.children.empty() ||
                   is_listed || waiting_.contains(node.inode) || node.inode == kRootInode;
    if (is_used) {
      ++it;
      continue;
    }
    if (!node.is_removed && parent != nodes_.end()) parent->second->children.erase(node.name);
    it = nodes_.erase(it);
  }
  sweep_at_ = std::max(options_.nodes, nodes_.size() * 2);
}

Attributes BlobFs::dir_attributes(const Node& node) const {
  return {.inode = node.inode,
          .mode = kDirMode,
          .nlink = 1,
          .owner = options_.owner,
          .size = 0,
          .atime = opened_,
          .mtime = opened_,
          .ctime = opened_};
}

Attributes BlobFs::file_attributes(const Node& node, std::uint64_t size, Timestamp modified) const {
  return {.inode = node.inode,
          .mode = kFileMode,
          .nlink = 1,
          .owner = options_.owner,
          .size = size,
          .atime = modified,
          .mtime = modified,
          .ctime = modified};
}

// Some stores have times in whole seconds. The version gives the rest of the change time there, so that a file that was
// replaced within a second is not taken for the old one.
Attributes BlobFs::file_attributes(const Node& node, const BlobInfo& info) const {
  Attributes attributes = file_attributes(node, info.size, info.modified);
  if (info.modified.nanoseconds == 0) {
    constexpr std::size_t kSecond = 1'000'000'000;
    attributes.ctime.nanoseconds = static_cast<std::int32_t>(std::hash<std::string>{}(info.version) % kSecond);
  }
  return attributes;
}

// The value as it is now; in a unit, as the unit saw it first.
Result<std::optional<BlobInfo>> BlobFs::look_up_value(const NodePtr& node) {
  std::string key = key_of(node);
  UnitState* unit = this_threads_unit();
  if (unit == nullptr) return WARREN_TRY(reach())
  ->find(key);
  auto seen = unit->seen.find(node->inode);
  if (seen != unit->seen.end()) return std::optional(seen->second.info);
  std::optional<Blob> blob = WARREN_TRY(WARREN_TRY(reach())->get_range(key, 0, kSeenBytes));
  if (!blob) return std::optional<BlobInfo>();
  BlobInfo info = blob->info;
  unit->seen.emplace(node->inode, *std::move(blob));
  return std::optional(std::move(info));
}

Result<bool> BlobFs::has_keys_below(const std::string& prefix) {
  BlobPage page = WARREN_TRY(WARREN_TRY(reach())->list({.prefix = prefix, .limit = 1}));
  while (page.blobs.empty() && !page.next.empty()) {
    page = WARREN_TRY(WARREN_TRY(reach())->list({.prefix = prefix, .after = page.next, .limit = 1}));
  }
  return !page.blobs.empty();
}

// The node of a name, if it exists. The value is asked first: most names are files.
Result<BlobFs::NodePtr> BlobFs::get_child(const NodePtr& dir, std::string_view name, Attributes* attributes) {
  if (name == kDirMarker) return no_entry(name);
  NodePtr known = find_known(dir, name);
  if (known && !known->is_dir) {
    Busy busy(known->busy);
    if (known->gathered) {
      *attributes = file_attributes(*known, known->gathered->content.size(), known->gathered->modified);
      return known;
    }
  }
  std::string key = prefix_of(dir) + std::string(name);
  WARREN_TRY(check_blob_key(key));
  if (known && !known->is_dir) {
    if (std::optional<BlobInfo> info = WARREN_TRY(look_up_value(known))) {
      *attributes = file_attributes(*known, *info);
      return known;
    }
  } else if (this_threads_unit() != nullptr) {
    std::optional<Blob> blob = WARREN_TRY(WARREN_TRY(reach())->get_range(key, 0, kSeenBytes));
    if (blob) {
      NodePtr node = remember(dir, name, false);
      *attributes = file_attributes(*node, blob->info);
      this_threads_unit()->seen.emplace(node->inode, *std::move(blob));
      return node;
    }
  } else if (std::optional<BlobInfo> info = WARREN_TRY(WARREN_TRY(reach())->find(key))) {
    NodePtr node = remember(dir, name, false);
    *attributes = file_attributes(*node, *info);
    return node;
  }
  if (WARREN_TRY(has_keys_below(key + "/"))) {
    NodePtr node = remember(dir, name, true);
    *attributes = dir_attributes(*node);
    return node;
  }
  if (known) mark_removed(known);
  return no_entry(name);
}

Result<Attributes> BlobFs::lookup(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  NodePtr dir = WARREN_TRY(get_dir(parent));
  Attributes attributes;
  WARREN_TRY(get_child(dir, name, &attributes));
  return attributes;
}

Result<Attributes> BlobFs::get_attributes(Inode inode) {
  NodePtr node = WARREN_TRY(get_node(inode));
  if (inode == kRootInode) return dir_attributes(*node);
  if (node->is_dir) {
    if (WARREN_TRY(has_keys_below(prefix_of(node)))) return dir_attributes(*node);
    mark_removed(node);
    return is_gone(node->name);
  }
  Busy busy(node->busy);
  if (node->gathered) return file_attributes(*node, node->gathered->content.size(), node->gathered->modified);
  busy.unlock();
  std::optional<BlobInfo> info = WARREN_TRY(look_up_value(node));
  if (info) return file_attributes(*node, *info);
  mark_removed(node);
  return is_gone(node->name);
}

// Names.

// The key of a new entry, checked with what will be below it.
Result<std::string> BlobFs::new_key(const NodePtr& dir, std::string_view name, std::string_view below) {
  WARREN_TRY(check_entry_name(name));
  std::string key = prefix_of(dir) + std::string(name);
  WARREN_TRY(check_blob_key(below.empty() ? key : fmt::format("{}/{}", key, below)));
  return key;
}

// An empty value where there is none. kExists.
Result<BlobInfo> BlobFs::put_new(const std::string& key) {
  BlobStore* store = WARREN_TRY(reach());
  if (abilities_.conditional_puts) return store->put(key, {}, {.if_absent = true});
  std::optional<BlobInfo> info = WARREN_TRY(store->find(key));
  if (info) return entry_exists(key);
  return store->put(key, {});
}

// What is left of a value's time to live stays with what replaces it.
PutOptions BlobFs::put_options_of(std::optional<Timestamp> expires) {
  PutOptions options;
  if (!expires || !abilities_.ttl) return options;
  Timestamp now = clock_.now();
  std::int64_t left_ms = (expires->seconds - now.seconds) * 1000 + (expires->nanoseconds - now.nanoseconds) / 1'000'000;
  options.ttl = std::chrono::milliseconds(std::max<std::int64_t>(left_ms, 1));
  return options;
}

// Makes a directory stay when the last entry leaves it.
Status BlobFs::keep_dir(const NodePtr& dir) {
  {
    std::lock_guard lock(nodes_mutex_);
    if (dir->inode == kRootInode || dir->has_marker) return Ok{};
  }
  Result<BlobInfo> made = put_new(prefix_of(dir) + std::string(kDirMarker));
  if (!made.ok() && made.error().code() != Code::kExists) return std::move(made).take_error();
  std::lock_guard lock(nodes_mutex_);
  dir->has_marker = true;
  return Ok{};
}

// In a unit the file is put at its end, with its content.
Result<Attributes> BlobFs::make_file(const NodePtr& dir, std::string_view name) {
  std::string key = WARREN_TRY(new_key(dir, name, {}));
  Attributes attributes;
  Result<NodePtr> there = get_child(dir, name, &attributes);
  if (there.ok()) return entry_exists(name);
  if (there.error().code() != Code::kNotFound) return std::move(there).take_error();
  UnitState* unit = this_threads_unit();
  if (unit == nullptr) {
    BlobInfo info = WARREN_TRY(put_new(key));
    return file_attributes(*remember(dir, name, false), info);
  }
  NodePtr node = remember(dir, name, false);
  Busy busy(node->busy);
  if (node->gathered) return entry_exists(name);  // another thread was faster
  node->gathered =
      Gathered{.modified = clock_.now(), .since_ns = clock_.monotonic_ns(), .unit = std::this_thread::get_id()};
  unit->changed.push_back(node);
  unit->made.insert(node->inode);
  std::lock_guard lock(nodes_mutex_);
  node->is_new = true;
  return file_attributes(*node, 0, node->gathered->modified);
}

Result<Attributes> BlobFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_entry_name(name));
  NodePtr dir = WARREN_TRY(get_dir(parent));
  switch (node.mode & S_IFMT) {
    case 0:
    case S_IFREG: return make_file(dir, name);
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFCHR:
    case S_IFBLK: return Error(Code::kUnsupported, "this filesystem has only files and directories");
    default: return Error(Code::kInvalid, fmt::format("a node of mode {:o} cannot be made", node.mode));
  }
}

Result<Attributes> BlobFs::make_dir(Inode parent, std::string_view name, const NewNode&) {
  WARREN_TRY(check_entry_name(name));
  NodePtr dir = WARREN_TRY(get_dir(parent));
  std::string key = WARREN_TRY(new_key(dir, name, kDirMarker));
  Attributes attributes;
  Result<NodePtr> there = get_child(dir, name, &attributes);
  if (there.ok()) return entry_exists(name);
  if (there.error().code() != Code::kNotFound) return std::move(there).take_error();
  Result<BlobInfo> put = put_new(fmt::format("{}/{}", key, kDirMarker));
  if (!put.ok()) return put.error().code() == Code::kExists ? entry_exists(name) : std::move(put).take_error();
  NodePtr made = remember(dir, name, true);
  std::lock_guard lock(nodes_mutex_);
  made->has_marker = true;
  return dir_attributes(*made);
}

Result<Attributes> BlobFs::make_symlink(Inode parent, std::string_view name, std::string_view target, Owner) {
  WARREN_TRY(check_entry_name(name));
  WARREN_TRY(get_dir(parent));
  WARREN_TRY(check_link_target(target));
  return Error(Code::kUnsupported, "this filesystem has no symbolic links");
}

Result<Attributes> BlobFs::link(Inode node, Inode new_parent, std::string_view new_name) {
  WARREN_TRY(check_entry_name(new_name));
  WARREN_TRY(get_node(node));
  WARREN_TRY(get_dir(new_parent));
  return Error(Code::kUnsupported, "this filesystem has no hard links");
}

Status BlobFs::unlink(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  NodePtr dir = WARREN_TRY(get_dir(parent));
  Attributes attributes;
  NodePtr node = WARREN_TRY(get_child(dir, name, &attributes));
  if (node->is_dir) return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote(name)));
  Busy busy(node->busy);
  BlobStore* store = WARREN_TRY(reach());
  WARREN_TRY(keep_dir(dir));
  UnitState* unit = this_threads_unit();
  auto seen = unit == nullptr ? std::map<Inode, Blob>::iterator() : unit->seen.find(node->inode);
  bool was_seen = unit != nullptr && seen != unit->seen.end();
  std::string key = key_of(node);
  Result<bool> removed = was_seen ? remove_version(key, seen->second.info.version) : store->remove(key);
  bool was_stored = WARREN_TRY(std::move(removed));
  bool was_there = was_stored || node->gathered;
  drop_gathered(*node);
  if (was_seen) unit->seen.erase(seen);
  mark_removed(node);
  if (!was_there) return no_entry(name);  // somebody else was faster
  return Ok{};
}

// Removes a value that is still this version: kConflict if another writer has changed it. False if it is gone already.
// A store without conditional removals is asked just before.
Result<bool> BlobFs::remove_version(const std::string& key, const std::string& version) {
  BlobStore* store = WARREN_TRY(reach());
  if (abilities_.conditional_removals) {
    const BlobChange change{.key = key, .content = std::nullopt, .options = {.if_match = version}};
    Status removed = store->apply({&change, 1});
    if (removed.ok()) return true;
    if (removed.error().code() != Code::kConflict) return std::move(removed).take_error();
  }
  std::optional<BlobInfo> now = WARREN_TRY(store->find(key));
  if (!now) return false;
  if (abilities_.conditional_removals || now->version != version) {
    return Error(Code::kConflict, fmt::format("{} was changed by another writer", quote(key)));
  }
  return store->remove(key);
}

Status BlobFs::remove_dir(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  NodePtr dir = WARREN_TRY(get_dir(parent));
  Attributes attributes;
  NodePtr node = WARREN_TRY(get_child(dir, name, &attributes));
  if (!node->is_dir) return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(name)));
  std::string marker = prefix_of(node) + std::string(kDirMarker);
  ListOptions options{.prefix = prefix_of(node), .limit = 2};
  BlobStore* store = WARREN_TRY(reach());
  do {
    BlobPage page = WARREN_TRY(store->list(options));
    for (const BlobInfo& blob : page.blobs) {
      if (blob.key != marker) return Error(Code::kNotEmpty, fmt::format("{} is not empty", quote(name)));
    }
    options.after = page.next;
  } while (!options.after.empty());
  {
    std::lock_guard lock(nodes_mutex_);
    for (const auto& [child_name, child] : node->children) {
      if (nodes_.at(child)->is_new) return Error(Code::kNotEmpty, fmt::format("{} is not empty", quote(name)));
    }
  }
  WARREN_TRY(keep_dir(dir));
  WARREN_TRY(store->remove(marker));
  mark_removed(node);
  return Ok{};
}

Status BlobFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                      RenameMode mode) {
  WARREN_TRY(check_name(name));
  WARREN_TRY(check_entry_name(new_name));
  NodePtr from_dir = WARREN_TRY(get_dir(parent));
  NodePtr to_dir = WARREN_TRY(get_dir(new_parent));
  Attributes attributes;
  NodePtr node = WARREN_TRY(get_child(from_dir, name, &attributes));
  Attributes target_attributes;
  Result<NodePtr> target = get_child(to_dir, new_name, &target_attributes);
  if (!target.ok() && target.error().code() != Code::kNotFound) return std::move(target).take_error();
  if (mode == RenameMode::kExchange) {
    if (!target.ok()) return no_entry(new_name);
    return Error(Code::kUnsupported, "this filesystem cannot exchange two names");
  }
  if (target.ok() && mode == RenameMode::kNoReplace) return entry_exists(new_name);
  if (target.ok() && (*target)->inode == node->inode) return Ok{};
  if (node->is_dir) {
    if (target.ok() && !(*target)->is_dir) {
      return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(new_name)));
    }
    if ((prefix_of(to_dir) + std::string(new_name)).starts_with(prefix_of(node))) {
      return Error(Code::kInvalid, fmt::format("{} cannot be moved into itself", quote(name)));
    }
    return Error(Code::kCrossDevice, "a directory of a blob store is moved by copying what is in it");
  }
  if (target.ok() && (*target)->is_dir) {
    return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote(new_name)));
  }
  WARREN_TRY(keep_dir(from_dir));
  WARREN_TRY(rename_file(node, to_dir, new_name, mode));
  if (target.ok()) {
    Busy busy((*target)->busy);
    drop_gathered(**target);
    mark_removed(*target);
  }
  move_node(node, to_dir, new_name);
  if (UnitState* unit = this_threads_unit()) unit->seen.clear();
  return Ok{};
}

// Puts the value under the new key and removes this version of it: kConflict if there is another one by then. `made` is
// the version that an earlier attempt has put there.
Status BlobFs::move_version(const Blob& blob, const std::string& to, PutOptions options,
                            std::optional<std::string>& made) {
  BlobStore* store = WARREN_TRY(reach());
  if (abilities_.whole_batches && abilities_.conditional_removals) {
    const BlobChange changes[] = {
        {.key = to, .content = as_bytes(blob.content), .options = std::move(options)},
        {.key = blob.info.key, .content = std::nullopt, .options = {.if_match = blob.info.version}}};
    return store->apply(changes);
  }
  if (made && abilities_.conditional_puts) {
    options.if_absent = false;
    options.if_match = made;
  }
  Result<BlobInfo> put = store->put(to, as_bytes(blob.content), options);
  if (!put.ok() && put.error().code() == Code::kConflict) {
    return Error(Code::kBusy, fmt::format("{} was changed by another writer while {} was renamed to it", quote(to),
                                          quote(blob.info.key)));
  }
  BlobInfo info = WARREN_TRY(std::move(put));
  made = std::move(info.version);
  WARREN_TRY(remove_version(blob.info.key, blob.info.version));
  return Ok{};
}

// What others write meanwhile is moved, too.
Status BlobFs::rename_file(const NodePtr& node, const NodePtr& to_dir, std::string_view new_name, RenameMode mode) {
  std::string to = WARREN_TRY(new_key(to_dir, new_name, {}));
  Busy busy(node->busy);
  if (node->gathered) WARREN_TRY(put_gathered(node));
  BlobStore* store = WARREN_TRY(reach());
  std::string from = key_of(node);
  std::optional<std::string> made;
  for (int attempt = 1; attempt <= kRenameAttempts; ++attempt) {
    std::optional<Blob> blob = WARREN_TRY(store->get(from));
    if (!blob) return is_gone(node->name);
    PutOptions options = put_options_of(blob->info.expires);
    options.if_absent = mode == RenameMode::kNoReplace && abilities_.conditional_puts;
    Status moved = move_version(*blob, to, std::move(options), made);
    if (moved.ok() || moved.error().code() != Code::kConflict) return moved;
  }
  return Error(Code::kBusy, fmt::format("{} is written faster than it can be renamed", quote(node->name)));
}

void BlobFs::move_node(const NodePtr& node, const NodePtr& to_dir, std::string_view new_name) {
  std::lock_guard lock(nodes_mutex_);
  auto from_dir = nodes_.find(node->parent);
  if (from_dir != nodes_.end()) from_dir->second->children.erase(node->name);
  node->parent = to_dir->inode;
  node->name = new_name;
  node->key = to_dir->key.empty() ? node->name : to_dir->key + "/" + node->name;
  to_dir->children[node->name] = node->inode;
}

// A cookie is the number of the entry's node, which says where to go on in the order of keys.
class BlobFs::Stream final : public DirStream {
 public:
  Stream(BlobFs& fs, NodePtr dir) : fs_(fs), dir_(std::move(dir)) {
    std::lock_guard lock(fs_.nodes_mutex_);
    ++dir_->streams;
  }
  ~Stream() override {
    std::lock_guard lock(fs_.nodes_mutex_);
    --dir_->streams;
  }

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    std::vector<DirEntry> page;
    {
      std::lock_guard lock(fs_.nodes_mutex_);
      if (dir_->is_removed) return page;
    }
    ListOptions options{.prefix = fs_.prefix_of(dir_), .after = {}, .limit = max + 1, .by_folder = true};
    if (cookie != 0) options.after = WARREN_TRY(place_of(Inode{cookie}, options.prefix));
    std::string begin = options.after;
    while (page.size() < max) {
      BlobPage found = WARREN_TRY(WARREN_TRY(fs_.reach())->list(options));
      std::map<std::string, const BlobInfo*> entries;
      for (const BlobInfo& blob : found.blobs) entries.emplace(blob.key, &blob);
      for (const std::string& folder : found.folders) entries.emplace(folder, nullptr);
      // A page's next may lie beyond its entries; what is gathered is put in between them.
      std::string end = found.next;
      add_gathered(options.after, end, options.prefix, entries);
      for (const auto& [key, info] : entries) {
        if (page.size() == max) return page;
        WARREN_TRY(add(key, info, options.prefix, detail, page));
      }
      if (end.empty()) break;
      options.after = end;
    }
    return page;
  }

 private:
  Result<std::string> place_of(Inode inode, const std::string& prefix) {
    std::lock_guard lock(fs_.nodes_mutex_);
    auto node = fs_.nodes_.find(inode);
    if (node == fs_.nodes_.end()) return Error(Code::kInvalid, "the position in the directory is unknown");
    return prefix + node->second->name + (node->second->is_dir ? "/" : "");
  }

  // Files of units that are not in the store yet.
  void add_gathered(const std::string& after, const std::string& end, const std::string& prefix,
                    std::map<std::string, const BlobInfo*>& entries) {
    std::lock_guard lock(fs_.nodes_mutex_);
    for (const auto& [name, inode] : dir_->children) {
      std::string key = prefix + name;
      if (fs_.nodes_.at(inode)->is_new && key > after && (end.empty() || key <= end)) entries.emplace(key, nullptr);
    }
  }

  // Whether the file that is known is still there, and not only a folder of its name.
  Result<bool> has_value(const NodePtr& file) {
    Busy busy(file->busy);
    if (file->gathered) return true;
    std::optional<BlobInfo> value = WARREN_TRY(WARREN_TRY(fs_.reach())->find(fs_.key_of(file)));
    return value.has_value();
  }

  Status add(const std::string& key, const BlobInfo* info, const std::string& prefix, DirDetail detail,
             std::vector<DirEntry>& page) {
    std::string name = key.substr(prefix.size());
    bool is_folder = name.ends_with('/');
    if (is_folder) name.pop_back();
    if (name == kDirMarker || name.empty()) return Ok{};
    NodePtr known = fs_.find_known(dir_, name);
    bool is_file_known = is_folder && known && !known->is_dir;
    if (is_file_known && WARREN_TRY(has_value(known))) return Ok{};
    NodePtr node = fs_.remember(dir_, name, is_folder);
    Attributes attributes;
    if (is_folder) {
      attributes = fs_.dir_attributes(*node);
    } else {
      Busy busy(node->busy);
      if (node->gathered) {
        attributes = fs_.file_attributes(*node, node->gathered->content.size(), node->gathered->modified);
      } else if (info != nullptr) {
        attributes = fs_.file_attributes(*node, *info);
      } else {
        return Ok{};  // put or abandoned meanwhile
      }
    }
    DirEntry entry{.cookie = node->inode.value,
                   .name = std::move(name),
                   .inode = node->inode,
                   .type = attributes.mode & S_IFMT,
                   .attributes = std::nullopt};
    if (detail == DirDetail::kAttributes) entry.attributes = attributes;
    page.push_back(std::move(entry));
    return Ok{};
  }

  BlobFs& fs_;
  NodePtr dir_;
};

Result<std::unique_ptr<DirStream>> BlobFs::open_dir(Inode dir) {
  NodePtr node = WARREN_TRY(get_dir(dir));
  return std::unique_ptr<DirStream>(std::make_unique<Stream>(*this, std::move(node)));
}

// Nodes that are held.

Status BlobFs::retain(Inode node) {
  std::lock_guard lock(nodes_mutex_);
  auto found = nodes_.find(node);
  if (found == nodes_.end()) return Error(Code::kStale, fmt::format("no inode {}", node.value));
  ++found->second->retained;
  return Ok{};
}

void BlobFs::forget(Inode node, std::uint64_t count) {
  std::lock_guard lock(nodes_mutex_);
  auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  found->second->retained -= std::min(found->second->retained, count);
  if (nodes_.size() > sweep_at_) sweep();
}

Result<Attributes> BlobFs::create(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_entry_name(name));
  NodePtr dir = WARREN_TRY(get_dir(parent));
  (void)node;  // its mode is that of all files
  Attributes made = WARREN_TRY(make_file(dir, name));
  WARREN_TRY(retain(made.inode));
  return made;
}

Result<Attributes> BlobFs::open(Inode node) {
  WARREN_TRY(get_file(node));
  Attributes attributes = WARREN_TRY(get_attributes(node));
  WARREN_TRY(retain(node));
  return attributes;
}

void BlobFs::release(Inode node) { forget(node, 1); }

Result<std::string> BlobFs::read_link(Inode node) {
  WARREN_TRY(get_node(node));
  return Error(Code::kInvalid, "it is not a symbolic link");
}

Result<std::string> BlobFs::get_xattr(Inode node, std::string_view name) {
  WARREN_TRY(check_xattr_name(name));
  NodePtr found = WARREN_TRY(get_node(node));
  std::optional<Timestamp> expires;
  if (name == kExpiryXattr) expires = WARREN_TRY(find_expiry_of(found));
  if (expires) return format_expiry(expires->seconds * 1000 + expires->nanoseconds / 1'000'000);
  return Error(Code::kNoData, fmt::format("no attribute {}", quote(name)));
}

Result<std::vector<std::string>> BlobFs::list_xattrs(Inode node) {
  NodePtr found = WARREN_TRY(get_node(node));
  std::vector<std::string> names;
  if (WARREN_TRY(find_expiry_of(found))) names.emplace_back(kExpiryXattr);
  return names;
}

Status BlobFs::set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) {
  WARREN_TRY(check_xattr_name(name));
  NodePtr found = WARREN_TRY(get_node(node));
  if (name != kExpiryXattr || !abilities_.ttl) {
    return Error(Code::kUnsupported, "this filesystem has no such extended attributes");
  }
  std::int64_t at_ms = WARREN_TRY(parse_expiry(as_text(value)));
  if (found->is_dir) return Error(Code::kInvalid, "only a regular file can expire");
  if (mode != XattrMode::kAny) {
    bool is_set = WARREN_TRY(find_expiry_of(found))
    .has_value();
    if (is_set && mode == XattrMode::kCreate) return entry_exists(name);
    if (!is_set && mode == XattrMode::kReplace) {
      return Error(Code::kNoData, fmt::format("no attribute {}", quote(name)));
    }
  }
  return change_expiry(
      found, Timestamp{.seconds = at_ms / 1000, .nanoseconds = static_cast<std::int32_t>(at_ms % 1000 * 1'000'000)});
}

Status BlobFs::remove_xattr(Inode node, std::string_view name) {
  WARREN_TRY(check_xattr_name(name));
  NodePtr found = WARREN_TRY(get_node(node));
  bool is_set = name == kExpiryXattr && WARREN_TRY(find_expiry_of(found))
  .has_value();
  if (!is_set) return Error(Code::kNoData, fmt::format("no attribute {}", quote(name)));
  return change_expiry(found, std::nullopt);
}

Result<std::optional<Timestamp>> BlobFs::find_expiry_of(const NodePtr& node) {
  if (node->is_dir || !abilities_.ttl) return std::optional<Timestamp>();
  {
    Busy busy(node->busy);
    if (node->gathered) return node->gathered->expires;
  }
  std::optional<BlobInfo> info = WARREN_TRY(look_up_value(node));
  if (!info) return is_gone(node->name);
  return info->expires;
}

// A store does not say how much it holds.
Result<FileSystemStats> BlobFs::stats(Inode) { return FileSystemStats{.available_bytes = std::uint64_t{1} << 50}; }

Status BlobFs::listen(ChangeListener* listener) {
  if (listener == nullptr || !abilities_.lasts) return Ok{};
  return Error(Code::kUnsupported, "a blob store does not report the changes of others");
}

}  // namespace warren
