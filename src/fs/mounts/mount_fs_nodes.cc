// MountFs: calls that name a node, and what concerns all mounts.
#include <algorithm>

#include "base/path.h"
#include "fs/mounts/mount_fs.h"

namespace warren {

// The names of a mount's own root are places of this tree.
Result<std::vector<EntryName>> MountFs::list_names_of(Inode node) {
  Node at = WARREN_TRY(inward(node));
  if (at.stand_in || at.inode == kRootInode) {
    return Error(Code::kUnsupported, "the names of mount points are not listed");
  }
  WARREN_TRY(enter(at.mount, UnitAccess::kRead));
  std::vector<EntryName> names = WARREN_TRY(fs(at).list_names_of(at.inode));
  for (EntryName& name : names) name.parent = WARREN_TRY(outward(at.mount, name.parent));
  return names;
}

Result<Attributes> MountFs::get_attributes(Inode node) {
  Node at = WARREN_TRY(inward(node));
  if (at.stand_in) return stand_in(*at.stand_in);
  WARREN_TRY(enter(at.mount, UnitAccess::kRead));
  Attributes found = WARREN_TRY(outward(at.mount, fs(at).get_attributes(at.inode)));
  if (!found.is_directory()) return found;
  std::lock_guard lock(places_mutex_);
  for (const Place& place : places_) {
    if (!place.children.empty() && place.shown.inode == node) found.nlink = 1;  // as show() does
  }
  return found;
}

Result<Attributes> MountFs::set_attributes(Inode node, const AttributeChanges& changes) {
  Node at = WARREN_TRY(to_change(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kWrite));
  return outward(at.mount, fs(at).set_attributes(at.inode, changes));
}

Result<std::string> MountFs::read_link(Inode node) {
  Node at = WARREN_TRY(inward(node));
  if (at.stand_in) return Error(Code::kInvalid, "it is not a symbolic link");
  WARREN_TRY(enter(at.mount, UnitAccess::kRead));
  return fs(at).read_link(at.inode);
}

Status MountFs::retain(Inode node) {
  Node at = WARREN_TRY(inward(node));
  if (at.stand_in) return Ok{};
  return fs(at).retain(at.inode);
}

void MountFs::forget(Inode node, std::uint64_t count) {
  Result<Node> at = inward(node);
  if (at.ok() && !at->stand_in) fs(*at).forget(at->inode, count);
}

Result<Attributes> MountFs::open(Inode node) {
  Node at = WARREN_TRY(with_content(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kRead));
  return outward(at.mount, fs(at).open(at.inode));
}

void MountFs::release(Inode node) {
  Result<Node> at = inward(node);
  if (at.ok() && !at->stand_in) fs(*at).release(at->inode);
}

Result<std::size_t> MountFs::read(Inode node, std::uint64_t offset, MutableBytes out) {
  Node at = WARREN_TRY(with_content(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kRead));
  return fs(at).read(at.inode, offset, out);
}

Status MountFs::write(Inode node, std::uint64_t offset, Bytes data) {
  Node at = WARREN_TRY(with_content(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kWrite));
  return fs(at).write(at.inode, offset, data);
}

Result<std::uint64_t> MountFs::append(Inode node, Bytes data) {
  Node at = WARREN_TRY(with_content(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kWrite));
  return fs(at).append(at.inode, data);
}

Status MountFs::allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  Node at = WARREN_TRY(with_content(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kWrite));
  return fs(at).allocate(at.inode, mode, offset, length);
}

Result<std::uint64_t> MountFs::seek_data(Inode node, std::uint64_t offset) {
  Node at = WARREN_TRY(with_content(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kRead));
  return fs(at).seek_data(at.inode, offset);
}

Result<std::uint64_t> MountFs::seek_hole(Inode node, std::uint64_t offset) {
  Node at = WARREN_TRY(with_content(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kRead));
  return fs(at).seek_hole(at.inode, offset);
}

Result<std::uint64_t> MountFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                          std::uint64_t length) {
  Node source = WARREN_TRY(with_content(from));
  Node target = WARREN_TRY(with_content(to));
  WARREN_TRY(check_same_mount(source, target));
  WARREN_TRY(enter(target.mount, UnitAccess::kWrite));
  return fs(target).copy_range(source.inode, from_offset, target.inode, to_offset, length);
}

Result<Fd> MountFs::open_backing(Inode node) {
  Node at = WARREN_TRY(inward(node));
  if (at.stand_in) return Fd();
  return fs(at).open_backing(at.inode);
}

void MountFs::reserve_number(Inode node, std::uint64_t generation) {
  Result<Node> at = inward(node);
  if (at.ok() && !at->stand_in) fs(*at).reserve_number(at->inode, generation);
}

Status MountFs::flush(Inode node) {
  Node at = WARREN_TRY(inward(node));
  return at.stand_in ? Status(Ok{}) : fs(at).flush(at.inode);
}

Status MountFs::sync(Inode node) {
  Node at = WARREN_TRY(inward(node));
  if (at.stand_in) return Ok{};
  if (node != kRootInode) return fs(at).sync(at.inode);
  Status all = Ok{};
  for (Mounted& mount : mounts_) {
    Status one = mount.fs->sync(kRootInode);
    if (!one.ok() && all.ok()) all = std::move(one);
  }
  return all;
}

Result<std::string> MountFs::get_xattr(Inode node, std::string_view name) {
  Node at = WARREN_TRY(inward(node));
  if (at.stand_in) return Error(Code::kNoData, "it has no extended attributes");
  WARREN_TRY(enter(at.mount, UnitAccess::kRead));
  return fs(at).get_xattr(at.inode, name);
}

Result<std::vector<std::string>> MountFs::list_xattrs(Inode node) {
  Node at = WARREN_TRY(inward(node));
  if (at.stand_in) return std::vector<std::string>();
  WARREN_TRY(enter(at.mount, UnitAccess::kRead));
  return fs(at).list_xattrs(at.inode);
}

Status MountFs::set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) {
  Node at = WARREN_TRY(to_change(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kWrite));
  return fs(at).set_xattr(at.inode, name, value, mode);
}

Status MountFs::remove_xattr(Inode node, std::string_view name) {
  Node at = WARREN_TRY(to_change(node));
  WARREN_TRY(enter(at.mount, UnitAccess::kWrite));
  return fs(at).remove_xattr(at.inode, name);
}

Result<FileSystemStats> MountFs::stats(Inode node) {
  Node at = WARREN_TRY(inward(node));
  std::size_t mount = at.stand_in ? places_[*at.stand_in].holder : at.mount;
  return mounts_[mount].fs->stats(at.stand_in ? kRootInode : at.inode);
}

bool MountFs::run_idle_work() {
  bool has_worked = false;
  for (Mounted& mount : mounts_) has_worked = mount.fs->run_idle_work() || has_worked;
  return has_worked;
}

}  // namespace warren
