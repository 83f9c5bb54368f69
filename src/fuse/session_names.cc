// The part of Session for names and directories.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>

#include "base/no_wait.h"
#include "fuse/session.h"

namespace warren {
namespace {

Owner owner_of(const Request& request) { return {.uid = request.header().uid, .gid = request.header().gid}; }

std::size_t padded(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

}  // namespace

Status Session::lookup(const Request& request, Buffer&) {
  Bytes rest = request.rest();
  std::string_view name = WARREN_TRY(take_name(rest));
  Result<Attributes> found = fs_.lookup(request.inode(), name);
  if (!found.ok() && found.error().code() == Code::kNotFound) {
    fuse_entry_out nothing{};  // node 0: the kernel may cache that the name does not exist
    nothing.entry_valid = entry_seconds_;
    channel_.answer(request, bytes_of(nothing));
    return Ok{};
  }
  if (!found.ok()) return std::move(found).error();
  return answer_entry(request, *found);
}

Status Session::mknod(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_mknod_in>());
  Bytes rest = request.after<fuse_mknod_in>();
  std::string_view name = WARREN_TRY(take_name(rest));
  NewNode node{.mode = in->mode, .owner = owner_of(request), .rdev = in->rdev};
  return answer_made(request, fs_.make_node(request.inode(), name, node));
}

Status Session::mkdir(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_mkdir_in>());
  Bytes rest = request.after<fuse_mkdir_in>();
  std::string_view name = WARREN_TRY(take_name(rest));
  NewNode node{.mode = in->mode & 07777, .owner = owner_of(request)};
  return answer_made(request, fs_.make_dir(request.inode(), name, node));
}

Status Session::symlink(const Request& request, Buffer&) {
  Bytes rest = request.rest();
  std::string_view name = WARREN_TRY(take_name(rest));
  std::string_view target = WARREN_TRY(take_name(rest));
  return answer_made(request, fs_.make_symlink(request.inode(), name, target, owner_of(request)));
}

Status Session::link(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_link_in>());
  Bytes rest = request.after<fuse_link_in>();
  std::string_view name = WARREN_TRY(take_name(rest));
  return answer_made(request, fs_.link(Inode{in->oldnodeid}, request.inode(), name));
}

Status Session::unlink(const Request& request, Buffer&) {
  Bytes rest = request.rest();
  std::string_view name = WARREN_TRY(take_name(rest));
  return answer_removed(request, fs_.unlink(request.inode(), name));
}

Status Session::rmdir(const Request& request, Buffer&) {
  Bytes rest = request.rest();
  std::string_view name = WARREN_TRY(take_name(rest));
  return answer_removed(request, fs_.remove_dir(request.inode(), name));
}

Status Session::rename(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_rename_in>());
  return rename_by(request, request.after<fuse_rename_in>(), in->newdir, 0);
}

Status Session::rename_with_flags(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_rename2_in>());
  return rename_by(request, request.after<fuse_rename2_in>(), in->newdir, in->flags);
}

Status Session::rename_by(const Request& request, Bytes names, std::uint64_t new_parent, std::uint32_t flags) {
  std::string_view name = WARREN_TRY(take_name(names));
  std::string_view new_name = WARREN_TRY(take_name(names));
  RenameMode mode = RenameMode::kReplace;
  if (flags == RENAME_NOREPLACE) mode = RenameMode::kNoReplace;
  else if (flags == RENAME_EXCHANGE) mode = RenameMode::kExchange;
  else if (flags != 0) return Error(Code::kInvalid, "unknown rename flags");
  WARREN_TRY(fs_.rename(request.inode(), name, Inode{new_parent}, new_name, mode));
  open_dirs_.changed_here(Inode{new_parent});
  return answer_removed(request, Ok{});
}

// A directory is marked before the change in it is answered: whoever opens it after the answer must see the change.
Status Session::answer_made(const Request& request, const Result<Attributes>& made) {
  if (!made.ok()) return made.error();
  open_dirs_.changed_here(request.inode());
  return answer_entry(request, *made);
}

Status Session::answer_removed(const Request& request, Status removed) {
  WARREN_TRY(std::move(removed));
  open_dirs_.changed_here(request.inode());
  channel_.answer(request, {});
  return Ok{};
}

Status Session::open_dir(const Request& request, Buffer&) {
  fuse_open_out out{};
  if (is_notified_) out.open_flags = FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR;  // else nobody would empty the cache
  auto opened = std::make_shared<OpenDir>(request.inode());
  out.fh = open_dirs_.add(opened);  // first, so that no change is missed
  Result<std::unique_ptr<DirStream>> stream = fs_.open_dir(request.inode());
  if (!stream.ok()) {
    open_dirs_.take(out.fh);
    return std::move(stream).error();
  }
  opened->stream = std::move(*stream);
  channel_.answer(request, bytes_of(out));
  return Ok{};
}

Status Session::release_dir(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_release_in>());
  std::shared_ptr<OpenDir> closed = open_dirs_.take(in->fh);
  channel_.answer(request, {});
  // By now the kernel has cached everything that we sent.
  if (closed && closed->has_changed_elsewhere && is_notified_) notify_later(closed->dir);
  return Ok{};
}

Status Session::read_dir(const Request& request, Buffer& scratch) { return list(request, scratch, DirDetail::kTypes); }

Status Session::read_dir_plus(const Request& request, Buffer& scratch) {
  return list(request, scratch, DirDetail::kAttributes);
}

Status Session::list(const Request& request, Buffer& scratch, DirDetail detail) {
  const auto* in = WARREN_TRY(request.body<fuse_read_in>());
  std::shared_ptr<OpenDir> opened = open_dirs_.find(in->fh);
  if (!opened) return Error(Code::kBadHandle, "the directory is not open");
  std::shared_ptr<DirStream> stream = WARREN_TRY(stream_of(*opened, in->offset));
  bool plus = detail == DirDetail::kAttributes;
  std::size_t fixed = plus ? sizeof(fuse_direntplus) : sizeof(fuse_dirent);
  std::size_t room = std::min<std::size_t>(in->size, scratch.bytes().size());
  std::byte* out = scratch.bytes().data();
  std::size_t used = 0;
  // False if there is no room left; then nothing was added.
  auto add = [&](std::string_view name, Inode node, std::uint32_t type, std::uint64_t cookie,
                 const Attributes* attributes) {
    std::size_t size = padded(fixed + name.size());
    if (used + size > room) return false;
    std::memset(out + used, 0, size);
    auto* with_attributes = reinterpret_cast<fuse_direntplus*>(out + used);
    auto* entry = plus ? &with_attributes->dirent : reinterpret_cast<fuse_dirent*>(out + used);
    if (attributes != nullptr && kernel_nodes_.add(node).ok()) fill(with_attributes->entry_out, *attributes);
    entry->ino = node.value;
    entry->off = cookie;
    entry->type = type >> 12;
    entry->namelen = static_cast<std::uint32_t>(name.size());
    std::memcpy(entry->name, name.data(), name.size());
    used += size;
    return true;
  };
  bool has_room = in->offset >= 1 || add(".", request.inode(), S_IFDIR, 1, nullptr);
  has_room = has_room && (in->offset >= 2 || add("..", request.inode(), S_IFDIR, 2, nullptr));
  if (has_room) {
    std::unique_ptr<Unit> unit = WARREN_TRY(fs_.begin(UnitAccess::kRead));
    std::uint64_t cookie = in->offset <= 2 ? 0 : in->offset;
    std::size_t max = (room - used) / padded(fixed + 12) + 1;
    std::vector<DirEntry> page = WARREN_TRY(stream->read(cookie, max, detail));
    for (const DirEntry& entry : page) {
      const Attributes* attributes = entry.attributes ? &*entry.attributes : nullptr;
      if (!add(entry.name, entry.inode, entry.type, entry.cookie, attributes)) break;
    }
  }
  channel_.answer(request, scratch.bytes().first(used));
  if (opened->has_changed_elsewhere && is_notified_) notify_later(opened->dir);
  return Ok{};
}

// A list that is old is made again when it is read from its beginning.
Result<std::shared_ptr<DirStream>> Session::stream_of(OpenDir& opened, std::uint64_t offset) {
  std::lock_guard guard(opened.mutex);
  if (offset != 0 || !opened.is_old.exchange(false)) return opened.stream;
  bool has_changed_elsewhere = opened.has_changed_elsewhere.exchange(false);
  Result<std::unique_ptr<DirStream>> again = fs_.open_dir(opened.dir);
  if (again.ok()) {
    opened.stream = std::move(*again);
    // The kernel asks again, so it has cached by now what we sent of the stale list.
    if (has_changed_elsewhere && is_notified_) notify_later(opened.dir);
    return opened.stream;
  }
  opened.is_old = true;
  if (has_changed_elsewhere) opened.has_changed_elsewhere = true;
  Code code = again.error().code();
  bool is_gone = code == Code::kStale || code == Code::kNotFound || code == Code::kDenied;
  if (!is_gone || NoWait::is_hit())
    return std::move(again).error();  // the latter is repeated by a thread that may wait
  return opened.stream;
}

}  // namespace warren
