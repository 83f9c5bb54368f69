#include "relay/delivery/mailroom.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "relay/protocol/message.h"

namespace warren::relay {
namespace {

constexpr std::size_t kOpenAtOnce = 256;  // descriptors: far below any usual limit
constexpr std::size_t kDirsAtOnce = 128;
constexpr int kNamesTried = 1000;

// Whether both are regular files with the same bytes.
bool has_same_content(int dir, const std::string& file, int other_dir, const std::string& other) {
  Result<ReadFile> one = read_below(dir, file, kMessageBytesMost);
  Result<ReadFile> two = one.ok() ? read_below(other_dir, other, one->facts.size) : Result<ReadFile>(one.error());
  return two.ok() && one->content == two->content;
}

}  // namespace

std::string staged_name(std::string_view inbox_name, std::string_view recipient) {
  return fmt::format("{}.{}", inbox_name, recipient);
}

// When descriptors run out, syncs and closes the open files and tries once more.
Result<Fd> Mailroom::open_sparingly(int dir, const std::string& relative, int flags) {
  Result<Fd> opened = open_below(dir, relative, flags);
  if (opened.ok() || opened.error().code() != Code::kLimit) return opened;
  WARREN_TRY(sync_staged());
  dirs_.clear();
  return open_below(dir, relative, flags);
}

Result<Fd> Mailroom::write_staged(const Delivery& delivery, std::string_view content) {
  std::string name = staged_name(delivery.inbox_name, delivery.recipient);
  Fd file = WARREN_TRY(open_sparingly(root_.deliveries(), name, O_WRONLY | O_CREAT | O_TRUNC));
  WARREN_TRY(write_all(file.get(), as_bytes(content)).within(fmt::format("write {}", quote(name))));
  return file;
}

Status Mailroom::stage(const Delivery& delivery, std::string_view content) {
  if (open_.size() >= kOpenAtOnce) WARREN_TRY(sync_staged());
  Fd file = WARREN_TRY(write_staged(delivery, content));
  open_.push_back(std::move(file));
  return Ok{};
}

Status Mailroom::stage_unsynced(const Delivery& delivery, std::string_view content) {
  WARREN_TRY(write_staged(delivery, content));
  return Ok{};
}

std::shared_ptr<SyncRequest> Mailroom::begin_sync_staged() {
  std::vector<Fd> files = std::exchange(open_, {});
  std::vector<int> kept;
  if (!files.empty()) kept.push_back(root_.deliveries());  // for the names of the files
  return syncs_.begin(std::move(files), kept);
}

Status Mailroom::sync_staged() { return syncs_.wait(*begin_sync_staged()).within("staged files"); }

void Mailroom::unstage(const Delivery& delivery) {
  open_.clear();
  remove_staged(staged_name(delivery.inbox_name, delivery.recipient));
}

void Mailroom::remove_staged(const std::string& file) { ::unlinkat(root_.deliveries(), file.c_str(), 0); }

bool Mailroom::is_staged(const Delivery& delivery) const {
  std::string name = staged_name(delivery.inbox_name, delivery.recipient);
  return ::faccessat(root_.deliveries(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<std::vector<std::string>> Mailroom::list_staged() const {
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(root_.deliveries()));
  std::vector<std::string> names;
  for (HostEntry& entry : entries) names.push_back(std::move(entry.name));
  return names;
}

Result<int> Mailroom::dir(const std::string& relative, const std::optional<Owner>& owner) {
  auto found = dirs_.find(relative);
  if (found != dirs_.end()) return found->second.get();
  Fd opened = WARREN_TRY(open_sparingly(root_.dir(), relative, O_RDONLY | O_DIRECTORY));
  struct stat info {};
  bool is_right = !owner || (::fstat(opened.get(), &info) == 0 && info.st_uid == owner->uid);
  if (!is_right) return Error(Code::kDenied, fmt::format("{} does not belong to user {}", quote(relative), owner->uid));
  return dirs_.emplace(relative, std::move(opened)).first->second.get();
}

// Just before the file is renamed into the inbox, and not when it is staged: if the user's quota is exceeded, only this
// delivery fails.
Status Mailroom::give(const Delivery& delivery, const Owner& owner) {
  std::string staged = staged_name(delivery.inbox_name, delivery.recipient);
  Result<Fd> file = open_sparingly(root_.deliveries(), staged, O_RDONLY);
  if (!file.ok() && file.error().code() == Code::kNotFound) return Ok{};  // it was renamed before a crash
  Fd opened = WARREN_TRY(std::move(file));
  if (::fchown(opened.get(), owner.uid, owner.gid) == 0) return Ok{};
  return system_error(errno, fmt::format("hand {} to user {}", quote(staged), owner.uid));
}

// A cached directory may have been replaced since it was opened.
Status Mailroom::publish(const Delivery& delivery) {
  if (dirs_.size() >= kDirsAtOnce) dirs_.clear();
  std::string path = fmt::format("agents/{}/inbox", delivery.recipient);
  std::string staged = staged_name(delivery.inbox_name, delivery.recipient);
  std::optional<Owner> owner = root_.find_owner(delivery.recipient);
  if (owner) WARREN_TRY(give(delivery, *owner));
  for (bool is_kept : {dirs_.contains(path), false}) {
    int inbox = WARREN_TRY(dir(path, owner));
    if (::renameat(root_.deliveries(), staged.c_str(), inbox, delivery.inbox_name.c_str()) == 0) return Ok{};
    int failed = errno;
    if (failed == ENOENT && !is_staged(delivery)) return Ok{};  // it was renamed before a crash
    if (!is_kept) return system_error(failed, fmt::format("deliver to {}", quote(delivery.recipient)));
    dirs_.erase(path);
  }
  return Ok{};
}

bool Mailroom::is_published(const Delivery& delivery, std::string_view content) const {
  std::string path = fmt::format("agents/{}/inbox/{}", delivery.recipient, delivery.inbox_name);
  Result<ReadFile> read = read_below(root_.dir(), path, content.size());
  if (read.ok() && read->content == content) return true;
  return open_below(root_.dir(), fmt::format("agents/{}/inbox/.done/{}", delivery.recipient, delivery.inbox_name),
                    O_PATH)
      .ok();
}

Status Mailroom::publish_into(int dir, const Delivery& delivery) {
  if (std::optional<Owner> owner = root_.find_owner(delivery.recipient)) WARREN_TRY(give(delivery, *owner));
  std::string staged = staged_name(delivery.inbox_name, delivery.recipient);
  if (::renameat(root_.deliveries(), staged.c_str(), dir, delivery.inbox_name.c_str()) == 0) return Ok{};
  return system_error(errno, fmt::format("restore {}", quote(delivery.inbox_name)));
}

Status Mailroom::archive(std::string_view agent, const std::string& file, const std::string& path) {
  if (dirs_.size() + 2 > kDirsAtOnce) dirs_.clear();  // archive() needs two at the same time
  SplitParent target = split_parent(path);
  Result<int> there = dir(std::string(target.parent));
  if (!there.ok() && there.error().code() == Code::kNotFound) {
    std::string_view day = split_parent(target.parent).parent;
    WARREN_TRY(root_.make_archive(split_parent(day).name, agent));
    there = dir(std::string(target.parent));
  }
  int to = WARREN_TRY(std::move(there));
  int outbox = WARREN_TRY(dir(fmt::format("agents/{}/outbox", agent), root_.find_owner(agent)));
  if (!dirs_.contains(std::string(target.parent))) to = WARREN_TRY(dir(std::string(target.parent)));
  std::string name(target.name);
  if (::renameat2(outbox, file.c_str(), to, name.c_str(), RENAME_NOREPLACE) == 0 || errno == ENOENT) return Ok{};
  if (errno == EINVAL && ::renameat(outbox, file.c_str(), to, name.c_str()) == 0) return Ok{};
  if (errno != EEXIST) return system_error(errno, fmt::format("archive {}", quote(file)));
  if (has_same_content(outbox, file, to, name)) {
    if (::unlinkat(outbox, file.c_str(), 0) == 0) return Ok{};
    return system_error(errno, fmt::format("archive {}", quote(file)));
  }
  for (int number = 1; number <= kNamesTried; ++number) {
    std::string other = fmt::format("{}.{}", name, number);
    if (::renameat2(outbox, file.c_str(), to, other.c_str(), RENAME_NOREPLACE) == 0) return Ok{};
    if (errno != EEXIST) break;
  }
  return system_error(errno, fmt::format("archive {}", quote(file)));
}

}  // namespace warren::relay
