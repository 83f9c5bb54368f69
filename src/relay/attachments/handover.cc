#include "relay/attachments/handover.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"

namespace warren::relay {
namespace {

constexpr const char* kSent = "outbox/.attachments";
constexpr const char* kHanded = "inbox/.attachments";

std::int64_t ctime_ns_of(const HostEntry& entry) {
  return entry.attributes.st_ctim.tv_sec * 1'000'000'000 + entry.attributes.st_ctim.tv_nsec;
}

// Calls `is_removable` for each regular file of the directory.
template <class IsRemovable>
std::uint64_t remove_files(int dir, IsRemovable is_removable) {
  std::uint64_t removed = 0;
  Result<std::vector<HostEntry>> entries = list_host_dir(dir);
  if (!entries.ok()) return 0;  // the agent made it unreadable
  for (const HostEntry& entry : *entries) {
    if (!S_ISREG(entry.attributes.st_mode) || !is_removable(entry)) continue;
    if (::unlinkat(dir, entry.name.c_str(), 0) == 0) ++removed;
  }
  return removed;
}

}  // namespace

// The relay may be root, and can read what the agent cannot: so only files of the agent's own user are taken.
Result<AttachmentStore::Opened> Handover::find_sent(std::string_view agent, std::string_view hash) const {
  Fd dir = WARREN_TRY(root_.open_agent_dir(agent, kSent));
  AttachmentStore::Opened opened = WARREN_TRY(AttachmentStore::in_agent_dir(dir.get()).open(hash));
  struct stat info {};
  if (::fstat(opened.file.get(), &info) != 0) return system_error(errno, "stat an attachment");
  std::optional<Owner> owner = root_.find_owner(agent);
  if (info.st_uid == (owner ? owner->uid : ::geteuid())) return opened;
  return Error(Code::kDenied, fmt::format("attachment {} is a file of another user", reference_of(hash)));
}

Result<AttachmentStore::Verified> Handover::take_in(std::string_view agent, std::string_view hash,
                                                    std::uint64_t size_bytes_max, const std::atomic<bool>& stop) const {
  AttachmentStore::Opened sent = WARREN_TRY(find_sent(agent, hash));
  std::string found = WARREN_TRY(store_.add(sent.file.get(), size_bytes_max, stop));
  return AttachmentStore::Verified{sent.identity, found == hash};
}

bool Handover::is_wanted(std::string_view agent) const { return root_.open_agent_dir(agent, kHanded).ok(); }

bool Handover::is_handed(std::string_view agent, std::string_view hash, std::uint64_t size) const {
  Result<Fd> dir = root_.open_agent_dir(agent, kHanded);
  struct stat info {};
  return dir.ok() && ::fstatat(dir->get(), std::string(hash).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_size) == size;
}

// Written in tmp/, where the agent cannot exchange it before it belongs to the agent.
Status Handover::hand_out(std::string_view agent, std::string_view hash, const std::atomic<bool>& stop) const {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return system_error(errno, "get random bytes");
  std::string draft = fmt::format("handed-{:016x}", random);
  Fd tmp = WARREN_TRY(open_below(root_.dir(), "tmp", O_RDONLY | O_DIRECTORY));
  Fd to = WARREN_TRY(root_.open_agent_dir(agent, kHanded));
  Fd file = WARREN_TRY(open_below(tmp.get(), draft, O_WRONLY | O_CREAT | O_EXCL));
  Status done = store_.copy_to(hash, file.get(), stop);
  if (done.ok() && ::fsync(file.get()) != 0) done = system_error(errno, "sync");
  std::optional<Owner> owner = root_.find_owner(agent);
  if (done.ok() && owner && ::fchown(file.get(), owner->uid, owner->gid) != 0) {
    done = Error(Code::kDenied, fmt::format("cannot hand it to user {}: {}", owner->uid, std::strerror(errno)));
  }
  if (done.ok() && ::renameat(tmp.get(), draft.c_str(), to.get(), std::string(hash).c_str()) != 0) {
    done = system_error(errno, "rename");
  }
  if (done.ok() && ::fsync(to.get()) != 0) return system_error(errno, "sync");
  if (!done.ok()) ::unlinkat(tmp.get(), draft.c_str(), 0);
  return done;
}

std::uint64_t Handover::sweep(std::string_view agent, std::int64_t ctime_ns) const {
  std::uint64_t removed = 0;
  Result<Fd> handed = root_.open_agent_dir(agent, kHanded);
  if (handed.ok()) {
    removed += remove_files(handed->get(), [&](const HostEntry& entry) {
      if (!is_attachment_hash(entry.name)) return false;
      Result<AttachmentStore::Opened> stored = store_.open(entry.name);
      return !stored.ok() && stored.error().code() == Code::kNotFound;
    });
  }
  Result<Fd> sent = root_.open_agent_dir(agent, kSent);
  if (!sent.ok()) return removed;
  return removed + remove_files(sent->get(), [&](const HostEntry& entry) { return ctime_ns_of(entry) < ctime_ns; });
}

}  // namespace warren::relay
