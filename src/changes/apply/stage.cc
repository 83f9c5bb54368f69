#include "changes/apply/stage.h"

#include <algorithm>

#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "changes/compare.h"
#include "fs/file.h"
#include "fs/tree_ops.h"
#include "os/error.h"

namespace warren {
namespace {

Status write_at(int fd, std::uint64_t offset, Bytes data) {
  while (!data.empty()) {
    ssize_t put = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error(errno, "write");
    data = data.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return Ok{};
}

}  // namespace

Error just_deleted_by_agent(std::string_view path) {
  return {Code::kConflict, fmt::format("{} was just deleted or replaced by the agent", quote(path)),
          "the agent is changing it; try again"};
}

Result<Attributes> Stager::find_merged(std::string_view path) {
  std::optional<Attributes> node = WARREN_TRY(merged_.find(path));
  if (!node) return just_deleted_by_agent(path);
  return *node;
}

Status Stager::write_content(std::string_view path, int fd) {
  auto file = WARREN_TRY(File::open(overlay_.merged, path, {.follow = Follow::kNo}));
  Attributes node = WARREN_TRY(file->attributes());
  if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, static_cast<off_t>(node.size)) != 0)
    return system_error(errno, "set the size");
  std::string buffer;
  for (std::uint64_t at = 0; at < node.size;) {
    Result<std::uint64_t> data = overlay_.merged.seek_data(file->inode(), at);
    if (!data.ok() && data.error().code() == Code::kNoData) break;
    at = WARREN_TRY(std::move(data));
    buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(limits::kCopyBytes, node.size - at)));
    std::uint64_t hole = WARREN_TRY(overlay_.merged.seek_hole(file->inode(), at));
    if (hole > at && hole - at < buffer.size()) buffer.resize(static_cast<std::size_t>(hole - at));
    std::size_t count = WARREN_TRY(file->read_at(at, as_mutable_bytes(buffer)));
    if (count == 0) break;
    WARREN_TRY(write_at(fd, at, as_bytes(std::string_view(buffer).substr(0, count))));
    at += count;
  }
  return file->close();
}

void Stager::leave_out(std::string_view path, std::string_view what) {
  std::string note = fmt::format("{}: left out {} (--privileged PATH writes it)", quote(path), what);
  partial_.emplace(path);
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
}

// What the base's node has already is not new.
Status Stager::drop_privileges(std::string_view path, const TreeChange* change, bool is_file, HostMetadata& metadata) {
  if (privileged_.contains(std::string(path))) return Ok{};
  const Attributes* before = change != nullptr && change->before ? &*change->before : nullptr;
  std::uint32_t had = before != nullptr ? before->mode & 06000U : 0;
  std::uint32_t fresh = is_file ? metadata.mode & 06000U & ~had : 0;
  metadata.mode &= ~fresh;
  if ((fresh & 04000U) != 0) leave_out(path, "its set-user-id bit");
  if ((fresh & 02000U) != 0) leave_out(path, "its set-group-id bit");
  std::optional<XattrMap> theirs;
  for (auto xattr = metadata.xattrs.begin(); xattr != metadata.xattrs.end();) {
    if (!is_privileged_xattr(xattr->first)) {
      ++xattr;
      continue;
    }
    if (!theirs && before != nullptr) {
      std::optional<Attributes> node = WARREN_TRY(base_.find(change->base_path));
      theirs = node ? WARREN_TRY(read_xattrs(overlay_.base, node->inode)) : XattrMap();
    }
    auto there = theirs ? theirs->find(xattr->first) : XattrMap::iterator();
    bool is_old = theirs && there != theirs->end() && there->second == xattr->second;
    if (!is_old) leave_out(path, fmt::format("its attribute {}", xattr->first));
    xattr = is_old ? std::next(xattr) : metadata.xattrs.erase(xattr);
  }
  return Ok{};
}

Result<HostMetadata> Stager::metadata_of(std::string_view path, const Attributes& node, const TreeChange* change) {
  HostMetadata metadata{.mode = node.mode & 07777U,
                        .uid = node.owner.uid,
                        .gid = node.owner.gid,
                        .atime = node.atime,
                        .mtime = node.mtime,
                        .xattrs = {}};
  Attributes merged = WARREN_TRY(find_merged(path));
  metadata.xattrs = WARREN_TRY(read_xattrs(overlay_.merged, merged.inode).within(quote(path)));
  WARREN_TRY(drop_privileges(path, change, node.is_file(), metadata));
  return metadata;
}

Result<HostMetadata> Stager::metadata_of(const TreeChange& change) {
  return metadata_of(change.path, *change.after, &change);
}

Status Stager::set_metadata(std::string_view path, std::string_view host_path, const HostMetadata& metadata) {
  bool is_owned = WARREN_TRY(host_.set_metadata(host_path, metadata));
  if (!is_owned) notes_.push_back(fmt::format("{}: could not set its owner", quote(path)));
  return Ok{};
}

Status Stager::write_node(std::string_view path, const Attributes& node, std::string_view host_path,
                          const HostMetadata& metadata, const std::string* content) {
  if (node.is_directory()) {
    WARREN_TRY(host_.make_dir(host_path, 0700));
    dirs_.push_back({std::string(path), std::string(host_path), metadata});
    return Ok{};
  }
  if (node.is_symlink()) {
    Attributes merged = WARREN_TRY(find_merged(path));
    std::string target = WARREN_TRY(overlay_.merged.read_link(merged.inode));
    WARREN_TRY(host_.make_symlink(host_path, target));
  } else if (node.is_file()) {
    Fd fd = WARREN_TRY(host_.create_file(host_path));
    if (content != nullptr) WARREN_TRY(write_at(fd.get(), 0, as_bytes(*content)));
    else WARREN_TRY(write_content(path, fd.get()));
  } else {
    bool is_device = S_ISBLK(node.mode) || S_ISCHR(node.mode);
    if (is_device && !privileged_.contains(std::string(path))) {
      return Error(Code::kNotPermitted, "it is a device, which is written only if it is named with --privileged");
    }
    WARREN_TRY(host_.make_special(host_path, node.mode, node.rdev));
  }
  return set_metadata(path, host_path, metadata);
}

Status Stager::write(const TreeChange& change, std::string_view host_path, const std::string* content) {
  const Attributes& node = *change.after;
  bool may_be_linked = !node.is_directory() && node.nlink > 1 && content == nullptr;
  auto written = may_be_linked ? written_.find(node.inode) : written_.end();
  if (written != written_.end()) return host_.link(written->second, host_path);
  HostMetadata metadata = WARREN_TRY(metadata_of(change));
  WARREN_TRY(write_node(change.path, node, host_path, metadata, content).within(quote(change.path)));
  if (may_be_linked) written_.emplace(node.inode, host_path);
  return Ok{};
}

Status Stager::write_tree(std::string_view start, std::string_view host_path) {
  return walk(overlay_.merged, start,
              [&](const WalkEntry& entry) -> Result<WalkNext> {
                std::string to = std::string(host_path) + entry.path.substr(start.size());
                HostMetadata metadata = WARREN_TRY(metadata_of(entry.path, entry.attributes, nullptr));
                WARREN_TRY(write_node(entry.path, entry.attributes, to, metadata, nullptr).within(quote(entry.path)));
                return WalkNext::kContinue;
              },
              {.follow = Follow::kNo});
}

Status Stager::finish_dirs() {
  for (auto dir = dirs_.rbegin(); dir != dirs_.rend(); ++dir) {
    WARREN_TRY(set_metadata(dir->path, dir->host_path, dir->metadata));
  }
  dirs_.clear();
  return Ok{};
}

}  // namespace warren
