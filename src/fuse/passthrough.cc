#include "fuse/passthrough.h"

#include <cerrno>
#include <chrono>

#include <linux/fuse.h>
#include <sys/mman.h>

#include "os/error.h"

namespace warren {
namespace {

constexpr std::chrono::milliseconds kReadersWait{250};

constexpr std::uint64_t kOrdinary = 0;  // handles
constexpr std::uint64_t kPast = 1;

// Newer than Debian 12's header. From <linux/fuse.h> of Linux 6.9.
constexpr std::uint32_t kOpenPassthrough = 1U << 7;

}  // namespace

Status Passthrough::probe() {
  Fd file(::memfd_create("warren-probe", MFD_CLOEXEC));
  if (!file.is_open()) return system_error(errno, "memfd_create");
  std::int32_t backing = WARREN_TRY(channel_.open_backing(file));
  channel_.close_backing(backing);
  return Ok{};
}

bool Passthrough::is_in_use(Inode node) { return find(node).past > 0; }

// 0: no host file has its content, or none that the kernel accepts.
Result<std::int32_t> Passthrough::find_backing(Inode node) {
  Attributes now = WARREN_TRY(fs_.get_attributes(node));
  if (!now.is_file() || now.size < kPassthroughBytes) return 0;
  Fd file = WARREN_TRY(fs_.open_backing(node));
  if (!file.is_open()) return 0;
  Result<std::int32_t> backing = channel_.open_backing(file);
  return backing.ok() ? *backing : 0;
}

Passthrough::Opens Passthrough::find(Inode node) {
  std::lock_guard guard(mutex_);
  auto found = opens_.find(node);
  return found == opens_.end() ? Opens() : found->second;
}

Result<Passthrough::Opened> Passthrough::open_to_read(Inode node) {
  Opens before = find(node);
  std::uint32_t flags = kOpenPassthrough;
  std::int32_t backing = before.backing;
  if (before.past > 0) {
    // Another process changed it meanwhile: all opens must be of one kind, but this one reads through us.
    Fd file = WARREN_TRY(fs_.open_backing(node));
    if (!file.is_open()) flags |= FOPEN_DIRECT_IO;
  } else if (before.ordinary == 0) {
    backing = WARREN_TRY(find_backing(node));
  }
  std::lock_guard guard(mutex_);
  Opens& opens = opens_[node];
  bool is_direct = backing != 0 && opens.ordinary == 0;  // it may have been opened for writing meanwhile
  if (!is_direct) {
    if (backing != 0) channel_.close_backing(backing);
    ++opens.ordinary;
    return Opened{.handle = kOrdinary, .flags = FOPEN_KEEP_CACHE};
  }
  opens.backing = backing;
  ++opens.past;
  return Opened{.handle = kPast, .flags = flags, .backing = backing};
}

Status Passthrough::wait(std::unique_lock<std::mutex>& lock, Inode node) {
  auto is_free = [&] {
    auto found = opens_.find(node);
    return found == opens_.end() || found->second.past == 0;
  };
  if (released_.wait_for(lock, kReadersWait, is_free)) return Ok{};
  return Error(Code::kBusy, "a program is reading it by passthrough");
}

Result<Passthrough::Opened> Passthrough::open_to_write(Inode node) {
  std::unique_lock lock(mutex_);
  WARREN_TRY(wait(lock, node));
  ++opens_[node].ordinary;
  return Opened{.handle = kOrdinary, .flags = FOPEN_KEEP_CACHE};
}

Status Passthrough::wait_to_change(Inode node) {
  std::unique_lock lock(mutex_);
  return wait(lock, node);
}

void Passthrough::release(Inode node, std::uint64_t handle) {
  std::lock_guard guard(mutex_);
  auto found = opens_.find(node);
  if (found == opens_.end()) return;
  Opens& opens = found->second;
  std::uint64_t& count = handle == kPast ? opens.past : opens.ordinary;
  if (count > 0) --count;
  if (opens.past == 0 && opens.backing != 0) {
    channel_.close_backing(opens.backing);
    opens.backing = 0;
    released_.notify_all();
  }
  if (opens.past == 0 && opens.ordinary == 0) opens_.erase(found);
}

}  // namespace warren
