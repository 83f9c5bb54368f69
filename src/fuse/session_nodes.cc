// The part of Session for attributes and content.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/must_keep.h"
#include "base/no_wait.h"
#include "base/path.h"
#include "fs/tree_ops.h"
#include "fuse/session.h"

namespace warren {
namespace {

// A hole is punched in steps, so that other requests get through in between.
constexpr std::uint64_t kPunchBytes = std::uint64_t{32} << 20;

Timestamp time_of(std::uint64_t seconds, std::uint32_t nanoseconds) {
  return {.seconds = static_cast<std::int64_t>(seconds), .nanoseconds = static_cast<std::int32_t>(nanoseconds)};
}

std::optional<SetTime> set_time(std::uint32_t valid, std::uint32_t given, std::uint32_t now, Timestamp at) {
  if ((valid & now) != 0) return SetTime::now();
  if ((valid & given) != 0) return SetTime::to(at);
  return std::nullopt;
}

// The mode after a write or change of owner by someone without the privilege.
std::uint32_t without_privileges(std::uint32_t mode) {
  mode &= ~std::uint32_t{S_ISUID};
  if ((mode & S_IXGRP) != 0) mode &= ~std::uint32_t{S_ISGID};
  return mode;
}

std::optional<AllocateMode> allocate_mode(std::uint32_t flags) {
  switch (flags) {
    case 0: return AllocateMode::kAllocate;
    case FALLOC_FL_KEEP_SIZE: return AllocateMode::kKeepSize;
    case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE: return AllocateMode::kPunchHole;
    case FALLOC_FL_ZERO_RANGE: return AllocateMode::kZeroRange;
    case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE: return AllocateMode::kZeroRangeKeepSize;
    default: return std::nullopt;
  }
}

// The kernel's xattr namespaces, as other filesystems support them. Access control lists ("system.") are refused: a
// caller must not believe that one takes effect.
Status check_xattr(std::string_view name) {
  for (std::string_view prefix : {"user.", "trusted.", "security."}) {
    if (!name.starts_with(prefix)) continue;
    if (name.size() == prefix.size()) return Error(Code::kInvalid, "the attribute's name is empty");
    return Ok{};
  }
  return Error(Code::kUnsupported, "attributes of this kind are not supported");
}

}  // namespace

Status Session::get_attributes(const Request& request, Buffer&) {
  Attributes attributes = WARREN_TRY(fs_.get_attributes(request.inode()));
  answer_attributes(request, attributes);
  return Ok{};
}

Status Session::open(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_open_in>());
  if (!passthrough_ && !options_.opens) {
    channel_.refuse(request, ENOSYS);
    return Ok{};
  }
  bool is_to_read = (in->flags & O_ACCMODE) == O_RDONLY;
  if (options_.opens && (in->flags & O_ACCMODE) != O_WRONLY) {
    Result<std::size_t> announced = fs_.read(request.inode(), 0, {});
    // Whoever opens it for both may still write.
    bool is_busy = !announced.ok() && announced.error().code() == Code::kBusy;
    if (!announced.ok() && (is_to_read || is_busy)) return std::move(announced).take_error();
  }
  if (!passthrough_) {
    fuse_open_out plain{};
    if (is_notified_) plain.open_flags = FOPEN_KEEP_CACHE;
    channel_.answer(request, bytes_of(plain));
    return Ok{};
  }
  Passthrough::Opened opened = WARREN_TRY(is_to_read ? passthrough_->open_to_read(request.inode())
                                                     : passthrough_->open_to_write(request.inode()));
  fuse_open_out out{};
  out.fh = opened.handle;
  out.open_flags = opened.flags;
  // Older headers have padding where newer ones have the id of the backing file.
  static_assert(offsetof(fuse_open_out, open_flags) + 2 * sizeof(std::int32_t) == sizeof out);
  std::memcpy(reinterpret_cast<std::byte*>(&out) + sizeof out - sizeof opened.backing, &opened.backing,
              sizeof opened.backing);
  channel_.answer(request, bytes_of(out));
  return Ok{};
}

Status Session::release(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_release_in>());
  if (passthrough_) passthrough_->release(request.inode(), in->fh);
  channel_.answer(request, {});
  return Ok{};
}

Status Session::set_attributes(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_setattr_in>());
  bool waits = passthrough_ && (in->valid & FATTR_SIZE) != 0;
  if (waits) WARREN_TRY(passthrough_->wait_to_change(request.inode()));
  AttributeChanges changes;
  if ((in->valid & FATTR_MODE) != 0) changes.mode = in->mode & 07777;
  if ((in->valid & FATTR_UID) != 0) changes.uid = in->uid;
  if ((in->valid & FATTR_GID) != 0) changes.gid = in->gid;
  if ((in->valid & FATTR_SIZE) != 0) changes.size = in->size;
  changes.atime = set_time(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, time_of(in->atime, in->atimensec));
  changes.mtime = set_time(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, time_of(in->mtime, in->mtimensec));
  if ((in->valid & FATTR_KILL_SUIDGID) != 0 && !changes.mode) {
    Attributes old = WARREN_TRY(fs_.get_attributes(request.inode()));
    if (!old.is_directory() && without_privileges(old.mode) != old.mode)
      changes.mode = without_privileges(old.mode) & 07777;
  }
  Attributes attributes = WARREN_TRY(fs_.set_attributes(request.inode(), changes));
  if (changes.size == 0) forget_loss(request.inode());
  answer_attributes(request, attributes);
  return Ok{};
}

Status Session::drop_privileges(Inode node) {
  Attributes old = WARREN_TRY(fs_.get_attributes(node));
  std::uint32_t mode = without_privileges(old.mode);
  if (mode == old.mode) return Ok{};
  WARREN_TRY(fs_.set_attributes(node, {.mode = mode & 07777}));
  return Ok{};
}

Status Session::read_link(const Request& request, Buffer&) {
  std::string target = WARREN_TRY(fs_.read_link(request.inode()));
  channel_.answer(request, as_bytes(target));
  return Ok{};
}

// The answer itself, or for a size of 0 only its length.
Status Session::answer_sized(const Request& request, std::uint32_t size, Bytes value) {
  if (size == 0) {
    fuse_getxattr_out out{};
    out.size = static_cast<std::uint32_t>(value.size());
    channel_.answer(request, bytes_of(out));
    return Ok{};
  }
  if (value.size() > size) return Error(Code::kRange, "the answer is longer than the caller's buffer");
  channel_.answer(request, value);
  return Ok{};
}

Status Session::get_xattr(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_getxattr_in>());
  Bytes rest = request.after<fuse_getxattr_in>();
  std::string_view name = WARREN_TRY(take_name(rest));
  WARREN_TRY(check_xattr(name));
  std::string value = WARREN_TRY(fs_.get_xattr(request.inode(), name));
  return answer_sized(request, in->size, as_bytes(value));
}

Status Session::set_xattr(const Request& request, Buffer&) {
  // Without FUSE_SETXATTR_EXT the structure is the short one: size and flags.
  struct ShortSetXattr {
    std::uint32_t size;
    std::uint32_t flags;
  };
  const auto* in = WARREN_TRY(request.body<ShortSetXattr>());
  Bytes rest = request.after<ShortSetXattr>();
  std::string_view name = WARREN_TRY(take_name(rest));
  WARREN_TRY(check_xattr(name));
  if (rest.size() < in->size) return Error(Code::kInvalid, "the value is shorter than its header says");
  XattrMode mode = (in->flags & XATTR_CREATE) != 0    ? XattrMode::kCreate
                   : (in->flags & XATTR_REPLACE) != 0 ? XattrMode::kReplace
                                                      : XattrMode::kAny;
  WARREN_TRY(fs_.set_xattr(request.inode(), name, rest.first(in->size), mode));
  channel_.answer(request, {});
  return Ok{};
}

Status Session::list_xattrs(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_getxattr_in>());
  std::vector<std::string> names = WARREN_TRY(fs_.list_xattrs(request.inode()));
  std::string list;
  for (const std::string& name : names) {
    bool is_hidden = name.starts_with("trusted.") && request.header().uid != 0;
    if (!is_hidden) list.append(name).push_back('\0');
  }
  return answer_sized(request, in->size, as_bytes(list));
}

Status Session::remove_xattr(const Request& request, Buffer&) {
  Bytes rest = request.rest();
  std::string_view name = WARREN_TRY(take_name(rest));
  WARREN_TRY(check_xattr(name));
  WARREN_TRY(fs_.remove_xattr(request.inode(), name));
  channel_.answer(request, {});
  return Ok{};
}

Status Session::read(const Request& request, Buffer& scratch) {
  const auto* in = WARREN_TRY(request.body<fuse_read_in>());
  std::size_t size = std::min<std::size_t>(in->size, scratch.bytes().size());
  std::size_t got = WARREN_TRY(fs_.read(request.inode(), in->offset, scratch.bytes().first(size)));
  channel_.answer(request, scratch.bytes().first(got));
  return Ok{};
}

Status Session::write(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_write_in>());
  Bytes data = request.after<fuse_write_in>();
  if (data.size() < in->size) return Error(Code::kInvalid, "the data is shorter than its header says");
  if ((in->write_flags & FUSE_WRITE_KILL_SUIDGID) != 0) WARREN_TRY(drop_privileges(request.inode()));
  // The kernel writes memory maps back with the flags of some open file, but at their own offset.
  bool appends = (in->flags & O_APPEND) != 0 && (in->write_flags & FUSE_WRITE_CACHE) == 0;
  if (appends) return append(request, in->offset, data.first(in->size));
  fuse_write_out out{};
  out.size = in->size;
  data = data.first(in->size);
  bool is_write_back = (in->write_flags & FUSE_WRITE_CACHE) != 0;
  return answer_done(
      request, bytes_of(out),
      is_write_back ? write_back(request.inode(), in->offset, data) : fs_.write(request.inode(), in->offset, data));
}

// Pages of a memory map. No program waits for the answer, and the kernel gives up a page that was refused: it reports
// that once, perhaps to nobody. So what cannot be stored is kept, or else remembered as lost.
Status Session::write_back(Inode node, std::uint64_t offset, Bytes data) {
  MustKeep must_keep;
  Status done = fs_.write(node, offset, data);
  if (done.ok() || NoWait::is_hit()) return done;  // if hit, it is repeated by a thread that may wait
  switch (done.error().code()) {
    case Code::kDenied:
    case Code::kNotPermitted:
    case Code::kReadOnly:
    case Code::kStale:     // a rule refused it, or the file is gone
      notify_later(node);  // readers must not go on seeing the page, which the kernel still has
      return done;
    default: note_loss(node, done.error()); return done;
  }
}

void Session::note_loss(Inode node, const Error& why) {
  {
    std::lock_guard guard(losses_mutex_);
    if (!losses_.emplace(node, why).second) return;
  }
  run_later([this] { report_losses(); });
}

// An emptied file lacks nothing. Its program writes it again.
void Session::forget_loss(Inode node) {
  {
    std::lock_guard guard(losses_mutex_);
    if (losses_.erase(node) == 0) return;
  }
  run_later([this] { report_losses(); });
}

// Reports a loss before it returns one: a program that gets this error finds the loss in `warren ps` at once. The root
// stands for the whole mount: `warren umount` syncs it, and then reads what was reported.
Status Session::check_loss(Inode node) {
  {
    std::lock_guard guard(losses_mutex_);
    bool is_affected = node == kRootInode ? !losses_.empty() || !reported_losses_.empty() : losses_.contains(node);
    if (!is_affected) return Ok{};
  }
  if (NoWait::forbids_waiting()) return Error(Code::kBusy, "reporting a loss may wait");
  report_losses();
  if (node == kRootInode) {
    std::map<Inode, Error> nodes = list_losses();
    return nodes.empty() ? Status(Ok{}) : Status(nodes.begin()->second);
  }
  std::lock_guard guard(losses_mutex_);
  auto found = losses_.find(node);
  return found == losses_.end() ? Status(Ok{}) : Status(found->second);
}

// One at a time, so that the last report is the latest one. Returns when everything that was noted before is reported.
void Session::report_losses() {
  {
    std::unique_lock lock(losses_mutex_);
    report_ended_.wait(lock, [&] { return !is_reporting_; });
    if (losses_.empty() && reported_losses_.empty()) return;
    is_reporting_ = true;
  }
  std::map<Inode, Error> nodes = list_losses();
  std::set<Inode> all;
  for (const auto& [node, why] : nodes) all.insert(node);
  if (all != reported_losses_ && options_.when_lost) options_.when_lost(describe_losses(std::move(nodes)));
  {
    std::lock_guard guard(losses_mutex_);
    reported_losses_ = std::move(all);
    is_reporting_ = false;
  }
  report_ended_.notify_all();
}

// Nobody can miss what a file had that has no name any more. Only a program that has it open still gets an error.
std::map<Inode, Error> Session::list_losses() {
  std::map<Inode, Error> nodes;
  {
    std::lock_guard guard(losses_mutex_);
    nodes = losses_;
  }
  std::erase_if(nodes, [&](const auto& loss) {
    Result<Attributes> now = fs_.get_attributes(loss.first);
    if (now.ok()) return now->nlink == 0;
    if (now.error().code() != Code::kStale) return false;
    std::lock_guard guard(losses_mutex_);
    losses_.erase(loss.first);  // its number may be given to another file
    return true;
  });
  return nodes;
}

std::vector<std::string> Session::lost() { return describe_losses(list_losses()); }

std::vector<std::string> Session::describe_losses(std::map<Inode, Error> nodes) {
  constexpr std::size_t kNamed = 10;
  std::vector<std::string> all;
  auto describe = [&](const std::string& what, const Error& why) {
    all.push_back(
        fmt::format("changes of {} through a memory map could not be stored and are lost: {}", what, why.message()));
  };
  if (nodes.empty()) return all;
  walk(fs_, "/", [&](const WalkEntry& entry) -> Result<WalkNext> {
    auto found = nodes.find(entry.attributes.inode);
    if (found == nodes.end()) return WalkNext::kContinue;
    describe(quote(entry.path), found->second);
    nodes.erase(found);
    return nodes.empty() || all.size() == kNamed ? WalkNext::kStop : WalkNext::kContinue;
  }).ignore("what cannot be read cannot be named");
  if (nodes.empty()) return all;
  std::string_view other = all.empty() ? "" : "other ";
  describe(nodes.size() == 1 ? fmt::format("one {}file", other) : fmt::format("{} {}files", nodes.size(), other),
           nodes.begin()->second);
  return all;
}

// At the end of the file, not where the kernel believes it to be: it does not ask for the size before it appends, so it
// misses what others have appended since. It has then cached the data at the wrong offset.
Status Session::append(const Request& request, std::uint64_t expected_offset, Bytes data) {
  std::uint64_t offset = WARREN_TRY(fs_.append(request.inode(), data));
  fuse_write_out out{};
  out.size = static_cast<std::uint32_t>(data.size());
  channel_.answer(request, bytes_of(out));
  if (offset != expected_offset) notify_later(request.inode());
  return Ok{};
}

Status Session::flush(const Request& request, Buffer&) {
  if (!options_.flushes) {
    channel_.refuse(request, ENOSYS);
    return Ok{};
  }
  WARREN_TRY(fs_.flush(request.inode()));
  channel_.answer(request, {});
  return Ok{};
}

Status Session::sync(const Request& request, Buffer&) {
  WARREN_TRY(fs_.sync(request.inode()));
  WARREN_TRY(check_loss(request.inode()));
  channel_.answer(request, {});
  return Ok{};
}

Status Session::sync_dir(const Request& request, Buffer& scratch) { return sync(request, scratch); }

Status Session::sync_all(const Request& request, Buffer&) {
  WARREN_TRY(fs_.sync(kRootInode));
  WARREN_TRY(check_loss(kRootInode));
  channel_.answer(request, {});
  return Ok{};
}

Status Session::allocate(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_fallocate_in>());
  std::optional<AllocateMode> mode = allocate_mode(in->mode);
  if (!mode) {
    channel_.refuse(request, EOPNOTSUPP);
    return Ok{};
  }
  // For these two calls the kernel does not say whether the caller may keep the bits.
  if (request.header().uid != 0) WARREN_TRY(drop_privileges(request.inode()));
  bool takes_away = *mode == AllocateMode::kPunchHole || *mode == AllocateMode::kZeroRangeKeepSize;
  std::uint64_t end = in->offset + in->length;
  std::uint64_t begin = in->offset;
  bool is_possible = end >= begin && end <= limits::kFileBytes;  // otherwise the call itself reports the error
  if (takes_away && is_possible) {
    Attributes now = WARREN_TRY(fs_.get_attributes(request.inode()));
    for (; begin < now.size && end - begin > kPunchBytes; begin += kPunchBytes) {
      WARREN_TRY(fs_.allocate(request.inode(), *mode, begin, kPunchBytes));
    }
  }
  WARREN_TRY(fs_.allocate(request.inode(), *mode, begin, end - begin));
  channel_.answer(request, {});
  return Ok{};
}

Status Session::seek(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_lseek_in>());
  if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE) return Error(Code::kInvalid, "unknown kind of seek");
  Result<std::uint64_t> found =
      in->whence == SEEK_DATA ? fs_.seek_data(request.inode(), in->offset) : fs_.seek_hole(request.inode(), in->offset);
  if (!found.ok() && found.error().code() == Code::kNoData) {
    channel_.refuse(request, ENXIO);
    return Ok{};
  }
  if (!found.ok()) return std::move(found).error();
  fuse_lseek_out out{.offset = *found};
  channel_.answer(request, bytes_of(out));
  return Ok{};
}

// In steps, so that other requests get through in between.
Status Session::copy(const Request& request, Buffer&) {
  const auto* in = WARREN_TRY(request.body<fuse_copy_file_range_in>());
  if (request.header().uid != 0) WARREN_TRY(drop_privileges(Inode{in->nodeid_out}));
  constexpr std::uint64_t kLengthMax = std::uint64_t{1} << 30;  // the answer has 32 bits; the caller continues
  std::uint64_t length = std::min(in->len, kLengthMax);
  std::uint64_t done = 0;
  while (done < length) {
    std::uint64_t step = std::min<std::uint64_t>(length - done, kIoBytesMax);
    Result<std::uint64_t> copied =
        fs_.copy_range(request.inode(), in->off_in + done, Inode{in->nodeid_out}, in->off_out + done, step);
    if (!copied.ok() && done == 0) return std::move(copied).error();
    if (!copied.ok() || *copied == 0) break;
    done += *copied;
  }
  fuse_write_out out{};
  out.size = static_cast<std::uint32_t>(done);
  channel_.answer(request, bytes_of(out));
  return Ok{};
}

}  // namespace warren
