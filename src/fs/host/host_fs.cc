#include "fs/host/host_fs.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/host/host_watch.h"
#include "fs/overlay/upper_layer.h"
#include "os/error.h"
#include "os/files/dir_reader.h"

namespace warren {
namespace {

constexpr std::uint64_t kHostBit = kBaseBit;
constexpr int kOwnBitsToMount = 50;  // leaves bits 56 to 61 to a MountFs

constexpr std::uint64_t kTags = 63;
constexpr std::uint64_t kLaterTag = 1;  // for substitutes of numbers that are taken

constexpr std::size_t kOpenDirs = 256;
constexpr std::size_t kOpenFiles = 128;
// Nodes that are not retained are kept up to this number, for callers between a lookup and their next call.
constexpr std::size_t kNodesKept = 262'144;

Timestamp timestamp(const timespec& time) { return {time.tv_sec, static_cast<std::int32_t>(time.tv_nsec)}; }

// Hashes the bits that do not fit, so that numbers that differ only there stay distinct.
std::uint64_t fold(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

// A host directory has no transactions.
class NoUnit final : public Unit {
 public:
  Status commit() override { return Ok{}; }
};

}  // namespace

HostFs::FdPtr HostFs::OpenFiles::find(Inode node) {
  auto found = by_node_.find(node);
  if (found == by_node_.end()) return nullptr;
  files_.splice(files_.begin(), files_, found->second);
  return files_.front().second;
}

HostFs::FdPtr HostFs::OpenFiles::add(Inode node, Fd fd) {
  drop(node);
  files_.emplace_front(node, std::make_shared<Fd>(std::move(fd)));
  by_node_[node] = files_.begin();
  if (files_.size() > max_) {
    by_node_.erase(files_.back().first);
    files_.pop_back();
  }
  return files_.front().second;
}

void HostFs::OpenFiles::drop(Inode node) {
  auto found = by_node_.find(node);
  if (found == by_node_.end()) return;
  files_.erase(found->second);
  by_node_.erase(found);
}

std::vector<HostFs::FdPtr> HostFs::OpenFiles::list() const {
  std::vector<FdPtr> all;
  for (const auto& [node, fd] : files_) all.push_back(fd);
  return all;
}

HostFs::HostFs(Fd root, const struct stat& root_info)
    : root_(std::move(root)), root_device_(root_info.st_dev), dirs_(kOpenDirs), files_(kOpenFiles) {
  root_node_ = std::make_shared<Node>();
  root_node_->number = kRootInode;
  root_node_->device = root_info.st_dev;
  root_node_->host_inode = root_info.st_ino;
  root_node_->type = S_IFDIR;
  nodes_[kRootInode] = root_node_;
}

HostFs::~HostFs() = default;

Result<std::unique_ptr<HostFs>> HostFs::open(const std::string& path, const HostFsOptions& options) {
  Fd root(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  HostStat info = WARREN_TRY(host_stat(root.get(), ""));
  std::unique_ptr<HostFs> fs(new HostFs(std::move(root), info));
  for (const std::string& hidden : options.hidden) WARREN_TRY(fs->hide(hidden));
  fs->hidden_prefix_ = options.hidden_prefix;
  fs->view_ = options.view;
  fs->is_writable_ = options.is_writable;
  fs->bytes_max_ = options.bytes_max;
  fs->nodes_max_ = options.nodes_max;
  if (options.is_writable) fs->own_bits_ = kOwnBitsToMount;
  if (fs->view_) fs->root_node_->rule = &fs->view_->root();
  return fs;
}

// A file is hidden only by its name: saving replaces it, and its number may then be reused by another file.
Status HostFs::hide(const std::string& path) {
  SplitParent parts = split_parent(path);
  for (const std::string& each : {std::string(parts.parent), path}) {
    struct stat info {};
    if (::stat(each.c_str(), &info) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return Ok{};
      return system_error(errno, fmt::format("stat {}", quote(each)));
    }
    Identity identity{info.st_dev, info.st_ino};
    if (each != path) hidden_names_.emplace_back(identity, parts.name);
    else if (S_ISDIR(info.st_mode)) hidden_.push_back(identity);
  }
  return Ok{};
}

bool HostFs::is_hidden(const struct stat& info) const {
  return std::find(hidden_.begin(), hidden_.end(), Identity{info.st_dev, info.st_ino}) != hidden_.end();
}

bool HostFs::is_hidden_name(const Node& dir, std::string_view name) const {
  return std::any_of(hidden_names_.begin(), hidden_names_.end(), [&](const auto& one) {
    return one.second == name && one.first == Identity{dir.device, dir.host_inode};
  });
}

bool HostFs::may_be_hidden(std::uint64_t host_inode) const {
  return std::any_of(hidden_.begin(), hidden_.end(), [&](const Identity& one) { return one.inode == host_inode; });
}

bool HostFs::has_hidden_prefix(std::string_view name) const {
  return !hidden_prefix_.empty() && name.starts_with(hidden_prefix_);
}

bool HostFs::is_out_of_view(const Node& dir, std::string_view name) const {
  if (dir.rule == nullptr) return false;
  return view_->find(*dir.rule, name) == nullptr || (dir.known && !dir.known->contains(name));
}

// A name that appears next to a secret may be the secret while it is being replaced.
void HostFs::freeze_if_filtered(Node& dir, int fd) const {
  if (dir.rule == nullptr || dir.is_examined) return;
  dir.is_examined = true;
  const std::vector<std::string>& usual = view_->usual_secrets();
  bool is_filtered = std::any_of(usual.begin(), usual.end(), [&](const std::string& name) {
    return ::faccessat(fd, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  });
  if (!is_filtered) return;
  dir.known.emplace();
  Fd opened(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Result<DirReader> reader = opened.is_open() ? DirReader::adopt(std::move(opened)) : system_error(errno, "open");
  while (reader.ok()) {
    Result<const DirReader::Entry*> entry = reader->next();
    if (!entry.ok() || *entry == nullptr) return;
    dir.known->emplace((*entry)->name);
  }
}

Error HostFs::stale(Inode node) { return {Code::kStale, fmt::format("node {} is gone from the host", node.value)}; }

Result<HostStat> HostFs::stat_at(int dir, const char* name) {
  HostStat info = WARREN_TRY(host_stat(dir, name));
  auto known = generation_sources_.find(info.st_dev);
  if (known == generation_sources_.end()) {
    known = generation_sources_.emplace(info.st_dev, find_generation_source(dir, name, info)).first;
  }
  if (known->second == GenerationSource::kNone) info.generation = 0;
  if (known->second == GenerationSource::kHandle) info.generation = generation_by_handle(dir, name);
  return info;
}

Error HostFs::read_only() { return {Code::kReadOnly, "the base of an overlay is read-only"}; }

// The host's number, if it fits and is not taken.
Inode HostFs::number_of(std::uint64_t device, std::uint64_t host_inode) {
  bool is_own = device == root_device_ && host_inode <= own_mask();
  if (is_own && folded_.empty()) return Inode{kHostBit | host_inode};
  auto known = folded_.find({device, host_inode});
  if (known != folded_.end()) return known->second;
  if (is_own) return Inode{kHostBit | host_inode};
  // One of 63 tags marks the number as not the host's own and keeps devices apart.
  std::uint64_t tag = tag_of(device);
  std::uint64_t low = host_inode <= own_mask() ? host_inode : fold(host_inode) & own_mask();
  Inode number{kHostBit | (tag << own_bits_) | low};
  auto is_taken = [&](Inode candidate) {
    return std::any_of(folded_.begin(), folded_.end(), [&](const auto& one) { return one.second == candidate; });
  };
  if (host_inode > own_mask()) {
    while (is_taken(number)) number.value = kHostBit | (tag << own_bits_) | ((number.value + 1) & own_mask());
  }
  folded_[{device, host_inode}] = number;
  return number;
}

// Derived from the device number, so that it does not depend on the order of lookups; if two devices collide, the next
// free tag.
std::uint64_t HostFs::tag_of(std::uint64_t device) {
  auto known = tags_.find(device);
  if (known != tags_.end()) return known->second;
  std::uint64_t tag = fold(device) % kTags;
  auto is_taken = [&] {
    return std::any_of(tags_.begin(), tags_.end(), [&](const auto& one) { return one.second == tag + 1; });
  };
  for (std::uint64_t tries = 0; tries < kTags && is_taken(); ++tries) tag = (tag + 1) % kTags;
  return tags_[device] = tag + 1;
}

bool HostFs::is_other(const Node& node, const HostStat& info) {
  if (info.st_dev != node.device || info.st_ino != node.host_inode) return true;
  return is_other_generation(info.generation, node.generation);
}

bool HostFs::is_taken(Inode number, std::uint64_t generation) const {
  if (auto reserved = reserved_numbers_.find(number); reserved != reserved_numbers_.end()) {
    return is_other_generation(reserved->second, generation);
  }
  auto node = nodes_.find(number);
  if (node == nodes_.end() || node->second->retained == 0) return false;
  return is_other_generation(node->second->generation, generation);
}

// The substitute number depends only on the node, so that it is the same in every process.
Inode HostFs::number_of(const HostStat& info) {
  Inode own = number_of(info.st_dev, info.st_ino);
  if (info.generation == 0) return own;
  bool may_have_another = !reserved_numbers_.empty() || !shared_numbers_.empty();
  if (!may_have_another && !is_taken(own, info.generation)) return own;
  Inode later{kHostBit | (kLaterTag << own_bits_) | (fold(own.value ^ fold(info.generation)) & own_mask())};
  bool has_another = nodes_.contains(later) || reserved_numbers_.contains(later);
  if (!has_another && !is_taken(own, info.generation)) return own;
  shared_numbers_.insert(own);
  return later;
}

void HostFs::reserve_number(Inode node, std::uint64_t generation) {
  if (generation == 0) return;
  std::lock_guard guard(mutex_);
  reserved_numbers_[node] = generation;
}

HostFs::NodePtr HostFs::know(const NodePtr& parent, std::string_view name, const HostStat& info) {
  Inode number = number_of(info);
  NodePtr& slot = nodes_[number];
  if (slot && is_other(*slot, info)) {  // a removed node that is not in use
    dirs_.drop(number);
    files_.drop(number);
    slot.reset();
  }
  if (!slot) {
    slot = std::make_shared<Node>();
    slot->number = number;
    slot->device = info.st_dev;
    slot->host_inode = info.st_ino;
    slot->generation = info.generation;
  }
  slot->type = info.st_mode & S_IFMT;
  if (parent->rule != nullptr) slot->rule = view_->find(*parent->rule, name);
  if (slot->parent != parent || slot->name != name) {
    slot->parent = parent;
    slot->name = name;
    dirs_.drop(number);
  }
  return slot;
}

// Children hold their parents: leaves are removed first, then the parents they held.
void HostFs::sweep() {
  if (nodes_.size() < kNodesKept) return;
  std::size_t before = 0;
  while (before != nodes_.size()) {
    before = nodes_.size();
    std::erase_if(nodes_, [&](const auto& one) {
      const NodePtr& node = one.second;
      return node->retained == 0 && node.use_count() == 1 && node != root_node_;
    });
  }
}

Result<HostFs::NodePtr> HostFs::find_node(Inode node) {
  auto found = nodes_.find(node);
  if (found == nodes_.end()) return stale(node);
  return found->second;
}

Result<HostFs::NodePtr> HostFs::find_dir(Inode node) {
  NodePtr found = WARREN_TRY(find_node(node));
  if (found->type != S_IFDIR) return Error(Code::kNotDirectory, "it is not a directory");
  return found;
}

// Walks down from the nearest open directory, comparing at every step.
Result<HostFs::FdPtr> HostFs::open_dir_fd(const NodePtr& node) {
  std::vector<NodePtr> way;
  NodePtr at = node;
  FdPtr fd;
  while (at->parent && !(fd = dirs_.find(at->number))) {
    way.push_back(at);
    at = at->parent;
    if (way.size() > static_cast<std::size_t>(limits::kTreeDepth)) return stale(node->number);
  }
  if (!fd) {
    fd = dirs_.find(kRootInode);
    if (!fd) fd = dirs_.add(kRootInode, Fd(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 0)));
    if (!fd->is_open()) return system_error(EMFILE, "open a directory of the base");
  }
  for (auto step = way.rbegin(); step != way.rend(); ++step) {
    const Node& next = **step;
    Fd opened(::openat(fd->get(), next.name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!opened.is_open()) {
      if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return stale(next.number);
      return system_error(errno, fmt::format("open {}", quote(next.name)));
    }
    HostStat info = WARREN_TRY(stat_at(opened.get(), ""));
    if (is_other(next, info)) return stale(next.number);
    fd = dirs_.add(next.number, std::move(opened));
  }
  return fd;
}

Result<HostStat> HostFs::stat_node(const NodePtr& node) {
  if (node->parent) watch(node->parent);  // it may have been looked up before anybody listened
  if (node->type == S_IFDIR) {
    FdPtr fd = WARREN_TRY(open_dir_fd(node));
    HostStat info = WARREN_TRY(stat_at(fd->get(), ""));
    if (info.st_nlink == 0) {
      dirs_.drop(node->number);
      return stale(node->number);
    }
    return info;
  }
  FdPtr dir = WARREN_TRY(open_dir_fd(node->parent));
  Result<HostStat> info = stat_at(dir->get(), node->name.c_str());
  if (!info.ok() && info.error().code() == Code::kNotFound) return stale(node->number);
  if (!info.ok()) return info;
  if (is_other(*node, *info)) return stale(node->number);
  return info;
}

Attributes HostFs::shown(const NodePtr& node, const HostStat& info) const {
  return {.inode = node->number,
          .mode = info.st_mode,
          .nlink = static_cast<std::uint32_t>(info.st_nlink),
          .owner = {info.st_uid, info.st_gid},
          .size = S_ISDIR(info.st_mode) ? 0 : static_cast<std::uint64_t>(info.st_size),
          .atime = timestamp(info.st_atim),
          .mtime = timestamp(info.st_mtim),
          .ctime = timestamp(info.st_ctim),
          .rdev = info.st_rdev,
          .host_device = info.st_dev,
          .host_inode = info.st_ino,
          .generation = info.generation};
}

Result<std::unique_ptr<Unit>> HostFs::begin(UnitAccess access) {
  if (access == UnitAccess::kWrite && !is_writable_) return read_only();
  return std::unique_ptr<Unit>(std::make_unique<NoUnit>());
}

Result<Attributes> HostFs::lookup(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  std::lock_guard guard(mutex_);
  sweep();
  NodePtr dir = WARREN_TRY(find_dir(parent));
  FdPtr fd = WARREN_TRY(open_dir_fd(dir));
  freeze_if_filtered(*dir, fd->get());
  if (is_out_of_view(*dir, name)) {
    bool is_refused = PathView::refuses(*dir->rule, name);
    return is_refused ? Error(Code::kDenied, fmt::format("{} is hidden", quote(name)))
                      : Error(Code::kNotFound, fmt::format("no {}", quote(name)));
  }
  watch(dir);
  Result<HostStat> info = stat_at(fd->get(), std::string(name).c_str());
  bool is_missing = !info.ok() && info.error().code() == Code::kNotFound;
  // Not kNotFound: a caller would create its own file there, and an apply would overwrite the host's.
  bool is_refused = (info.ok() && (is_hidden(*info) || has_hidden_prefix(name))) || is_hidden_name(*dir, name);
  if (is_refused) return Error(Code::kDenied, fmt::format("{} is hidden", quote(name)));
  if (is_missing) return Error(Code::kNotFound, fmt::format("no {}", quote(name)));
  if (!info.ok()) return std::move(info).error();
  return shown(know(dir, name, *info), *info);
}

Result<Attributes> HostFs::get_attributes(Inode node) {
  std::lock_guard guard(mutex_);
  NodePtr found = WARREN_TRY(find_node(node));
  HostStat info = WARREN_TRY(stat_node(found));
  return shown(found, info);
}

Result<std::string> HostFs::read_link(Inode node) {
  std::lock_guard guard(mutex_);
  NodePtr found = WARREN_TRY(find_node(node));
  if (found->type != S_IFLNK) return Error(Code::kInvalid, "it is not a symbolic link");
  WARREN_TRY(stat_node(found));
  FdPtr dir = WARREN_TRY(open_dir_fd(found->parent));
  std::string target(limits::kPathBytes, '\0');
  ssize_t length = ::readlinkat(dir->get(), found->name.c_str(), target.data(), target.size());
  if (length < 0) return system_error(errno, "read a link of the base");
  target.resize(static_cast<std::size_t>(length));
  return target;
}

Status HostFs::retain(Inode node) {
  std::lock_guard guard(mutex_);
  NodePtr found = WARREN_TRY(find_node(node));
  ++found->retained;
  return Ok{};
}

Result<Attributes> HostFs::open(Inode node) {
  WARREN_TRY(open_file(node));
  WARREN_TRY(retain(node));
  return get_attributes(node);
}

void HostFs::forget(Inode node, std::uint64_t count) {
  std::lock_guard guard(mutex_);
  auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  Node& known = *found->second;
  known.retained -= std::min(known.retained, count);
  FdPtr kept = is_writable_ && known.retained == 0 ? files_.find(node) : nullptr;
  struct stat info {};
  bool is_deleted = kept && ::fstat(kept->get(), &info) == 0 && info.st_nlink == 0;
  if (is_deleted) files_.drop(node);  // its space is free then
}

Result<FileSystemStats> HostFs::stats(Inode) {
  struct statvfs info {};
  if (::fstatvfs(root_.get(), &info) != 0) return system_error(errno, "get the free space of the base");
  return FileSystemStats{.block_bytes = info.f_frsize,
                         .used_bytes = (info.f_blocks - info.f_bfree) * info.f_frsize,
                         .capacity_bytes = info.f_blocks * info.f_frsize,
                         .available_bytes = info.f_bavail * info.f_frsize,
                         .used_inodes = info.f_files - info.f_ffree,
                         .capacity_inodes = info.f_files};
}

void HostFs::watch(const NodePtr& dir) {
  if (!watch_ || dir->is_watched) return;
  Result<FdPtr> fd = open_dir_fd(dir);
  if (fd.ok()) dir->is_watched = watch_->add((*fd)->get(), dir->number);
}

Status HostFs::listen(ChangeListener* listener) {
  std::unique_ptr<HostWatch> watch = listener ? WARREN_TRY(HostWatch::start(*this, *listener)) : nullptr;
  {
    std::lock_guard guard(mutex_);
    watch_.swap(watch);
    for (auto& [number, node] : nodes_) node->is_watched = false;
  }
  return Ok{};  // the old one is destroyed here, outside the lock its thread may be waiting for
}

}  // namespace warren
