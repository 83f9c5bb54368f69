#include "vfs/namespace.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

// Slots never change: they are part of the numbers.
constexpr int kWorkingSlot = 1;
constexpr std::string_view kWorkingPath = "/mem/working";
constexpr int kInboxSlot = MountFs::kSlotMax - 1;
constexpr int kOutboxSlot = MountFs::kSlotMax;

// Looks first, so that opening changes nothing when all of them exist. All in one commit.
Status make_directories(FileSystem& own) {
  std::vector<std::string> missing;
  for (const std::string& path : namespace_directories()) {
    if (!WARREN_TRY(exists(own, path))) missing.push_back(path);
  }
  if (missing.empty()) return Ok{};
  std::unique_ptr<Unit> unit = WARREN_TRY(own.begin(UnitAccess::kWrite));
  for (const std::string& path : missing) WARREN_TRY(make_dirs(own, path));
  return unit->commit();
}

}  // namespace

const std::vector<std::string>& namespace_directories() {
  static const std::vector<std::string> paths{
      "/mem/episodic", "/mem/semantic", "/state/checkpoints", "/policy", "/ipc/inbox", "/ipc/outbox", "/audit"};
  return paths;
}

Namespace::Namespace(FileSystem& own, std::string agent, Clock& clock)
    : agent_(std::move(agent)), clock_(clock), policy_(own) {}

Result<std::unique_ptr<Namespace>> Namespace::open(FileSystem& own, FileSystem& working, NamespaceOptions options,
                                                   Clock& clock) {
  if (!options.is_read_only) WARREN_TRY(make_directories(own).within("make the namespace's directories"));
  std::unique_ptr<Namespace> made(new Namespace(own, std::move(options.agent), clock));
  std::vector<Mount> mounts;
  made->mounts_ = {{.path = "/", .backend = "agent file"}};
  bool has_working =
      std::ranges::any_of(options.mounts, [](const NamespaceMount& mount) { return mount.path == kWorkingPath; });
  if (!has_working) {
    mounts.push_back({.path = std::string(kWorkingPath), .fs = working, .slot = kWorkingSlot});
    made->mounts_.push_back({.path = std::string(kWorkingPath), .backend = std::move(options.working_backend)});
  }
  int slot = kWorkingSlot;
  for (NamespaceMount& mount : options.mounts) {
    mounts.push_back({.path = mount.path, .fs = mount.fs, .slot = ++slot});
    made->mounts_.push_back({.path = std::move(mount.path), .backend = std::move(mount.backend)});
  }
  if (options.inbox != nullptr && options.outbox != nullptr) {
    mounts.push_back({.path = "/ipc/inbox", .fs = *options.inbox, .slot = kInboxSlot});
    mounts.push_back({.path = "/ipc/outbox", .fs = *options.outbox, .slot = kOutboxSlot});
    made->mounts_.push_back({.path = "/ipc/inbox", .backend = options.ipc_backend});
    made->mounts_.push_back({.path = "/ipc/outbox", .backend = std::move(options.ipc_backend)});
  }
  made->tree_ = WARREN_TRY(MountFs::make(own, mounts, clock));
  return made;
}

std::unique_ptr<GuardFs> Namespace::view(Caller caller) {
  return std::make_unique<GuardFs>(*tree_, policy_, std::move(caller), clock_);
}

Result<std::string> Namespace::resolve(std::string_view path) const {
  auto names = WARREN_TRY(split_path(path));
  std::vector<std::string_view> walked;
  for (std::string_view name : names) {
    if (name != "..") walked.push_back(name);
    else if (!walked.empty()) walked.pop_back();
  }
  std::size_t first = 0;
  if (!walked.empty() && walked[0] == "agent") {
    if (walked.size() < 2) return Error(Code::kDenied, "only an agent's own namespace can be listed");
    if (walked[1] != agent_) {
      return Error(Code::kDenied, fmt::format("{} is in the namespace of another agent", quote(path)));
    }
    first = 2;
  }
  std::string resolved;
  for (std::size_t i = first; i < walked.size(); ++i) (resolved += '/') += walked[i];
  return resolved.empty() ? "/" : resolved;
}

}  // namespace warren
