#include "vfs/namespace.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

// Slots never change: they are part of the numbers.
constexpr int kWorkingSlot = 1;
constexpr std::string_view kWorkingPath = "/mem/working";
constexpr int kInboxSlot = MountFs::kSlotMax - 1;
constexpr int kOutboxSlot = MountFs::kSlotMax;

// '..' is walked as text.
Result<std::vector<std::string_view>> walked_names(std::string_view path) {
  auto names = WARREN_TRY(split_path(path));
  std::vector<std::string_view> walked;
  for (std::string_view name : names) {
    if (name != "..") walked.push_back(name);
    else if (!walked.empty()) walked.pop_back();
  }
  return walked;
}

std::string join_names(std::span<const std::string_view> names) {
  std::string path;
  for (std::string_view name : names) (path += '/') += name;
  return path;
}

// A link or file of the agent's in the place of a directory stays, and nothing is made where the link leads.
enum class Missing { kLook, kMake };
Result<bool> is_missing(FileSystem& own, const std::string& path, Missing missing) {
  auto names = WARREN_TRY(split_path(path));
  Inode at = kRootInode;
  for (std::string_view name : names) {
    Result<Attributes> found = own.lookup(at, name);
    bool is_absent = !found.ok() && found.error().code() == Code::kNotFound;
    if (is_absent && missing == Missing::kLook) return true;
    if (is_absent) found = own.make_dir(at, name, {.mode = 0755, .owner = {}});
    Attributes node = WARREN_TRY(std::move(found));
    if (!node.is_directory()) return false;
    at = node.inode;
  }
  return false;
}

// Looks first, so that opening changes nothing when all of them exist. All in one commit. The directory of a mount is
// made, too: otherwise nothing else could be written there, such as another drive beside a mounted one.
Status make_directories(FileSystem& own, const std::vector<NamespaceMount>& mounts) {
  std::vector<std::string> wanted = namespace_directories();
  for (const NamespaceMount& mount : mounts) wanted.emplace_back(directory_of(mount.path));
  std::vector<std::string> missing;
  for (const std::string& path : wanted) {
    if (WARREN_TRY(is_missing(own, path, Missing::kLook))) missing.push_back(path);
  }
  if (missing.empty()) return Ok{};
  std::unique_ptr<Unit> unit = WARREN_TRY(own.begin(UnitAccess::kWrite));
  for (const std::string& path : missing) WARREN_TRY(is_missing(own, path, Missing::kMake));
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
  if (!options.is_read_only) {
    WARREN_TRY(make_directories(own, options.mounts).within("make the namespace's directories"));
  }
  std::unique_ptr<Namespace> made(new Namespace(own, std::move(options.agent), clock));
  made->audit_ = options.audit;
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

NamespaceView::NamespaceView(std::unique_ptr<GuardFs> guard, std::unique_ptr<AuditFs> audit)
    : ForwardingFs(audit ? static_cast<FileSystem&>(*audit) : *guard),
      guard_(std::move(guard)),
      audit_(std::move(audit)) {}

Status NamespaceView::record(std::string_view op, std::string_view path, const Status& outcome) {
  return audit_ ? audit_->record(op, path, outcome) : Status(Ok{});
}

Status NamespaceView::check_value(Rights::Operation operation, std::string_view path, std::string_view op,
                                  std::uint64_t size_bytes) {
  return noted_refusal(op, path, guard_->check_value(operation, path, size_bytes));
}

Status NamespaceView::check_path(Rights::Operation operation, std::string_view path, std::string_view op) {
  return noted_refusal(op, path, guard_->check_path(operation, path));
}

Status NamespaceView::noted_refusal(std::string_view op, std::string_view path, Status checked) {
  if (checked.ok() || checked.error().code() != Code::kDenied) return checked;
  record(op, path, checked).ignore("it is refused, whether that can be recorded or not");
  return checked;
}

Result<bool> NamespaceView::may_read_value(std::string_view path) {
  Status checked = guard_->check_value(Rights::kRead, path);
  if (checked.ok()) return true;
  if (checked.error().code() == Code::kDenied || checked.error().code() == Code::kNotFound) return false;
  return std::move(checked).take_error();
}

Result<std::string> NamespaceView::resolve(const Namespace& names, std::string_view path, std::string_view op) {
  Result<std::string> resolved = names.resolve(path);
  if (resolved.ok() || resolved.error().code() != Code::kDenied) return resolved;
  record(op, path, resolved.error()).ignore("it is refused, whether that can be recorded or not");
  return resolved;
}

Status NamespaceView::check_recorded() { return audit_ ? audit_->check_recorded() : Status(Ok{}); }

std::unique_ptr<NamespaceView> Namespace::view(Caller caller, AuditReads reads) {
  auto guard = std::make_unique<GuardFs>(*tree_, policy_, caller, clock_);
  std::unique_ptr<AuditFs> audit;
  if (audit_ != nullptr) audit = std::make_unique<AuditFs>(*guard, *audit_, std::move(caller), reads, clock_);
  return std::make_unique<NamespaceView>(std::move(guard), std::move(audit));
}

bool is_standard_directory(std::string_view path) {
  if (path == kWorkingPath) return true;
  return path != "/" && std::ranges::any_of(namespace_directories(), [&](std::string_view standard) {
           return standard.starts_with(path) && (standard.size() == path.size() || standard[path.size()] == '/');
         });
}

Result<std::string> Namespace::resolve(std::string_view path) const { return resolve_path(agent_, path); }

Result<std::string> resolve_path(std::string_view agent, std::string_view path) {
  auto walked = WARREN_TRY(walked_names(path));
  std::size_t first = 0;
  if (!walked.empty() && walked[0] == "agent") {
    if (walked.size() < 2) return Error(Code::kDenied, "only an agent's own namespace can be listed");
    if (walked[1] != agent) {
      return Error(Code::kDenied, fmt::format("{} is in the namespace of another agent", quote(path)));
    }
    first = 2;
  }
  std::string resolved = join_names(std::span(walked).subspan(first));
  return resolved.empty() ? "/" : resolved;
}

Result<std::string> follow_links(FileSystem& own, std::string_view path) {
  std::string walked;
  std::string rest(path);
  Inode at = kRootInode;
  for (int links = 0; !rest.empty();) {
    std::size_t end = rest.find('/', 1);
    std::string name = rest.substr(1, end == std::string::npos ? end : end - 1);
    std::string after = end == std::string::npos ? "" : rest.substr(end);
    if (name.empty()) break;
    Result<Attributes> node = own.lookup(at, name);
    if (!node.ok() && (node.error().code() == Code::kNotFound || node.error().code() == Code::kNotDirectory)) break;
    Attributes found = WARREN_TRY(std::move(node));
    if (!found.is_symlink()) {
      walked += "/" + name;
      rest = std::move(after);
      at = found.inode;
      continue;
    }
    if (is_standard_directory(walked + "/" + name)) {
      return Error(Code::kDenied,
                   fmt::format("{} is a symbolic link, which is not followed", quote(walked + "/" + name)));
    }
    if (++links > limits::kSymlinkDepth) return Error(Code::kLoop, fmt::format("{} leads in a circle", quote(path)));
    std::string target = WARREN_TRY(own.read_link(found.inode));
    std::string whole = target.starts_with('/') ? target + after : walked + "/" + target + after;
    auto names = WARREN_TRY(walked_names(whole));
    rest = join_names(names);
    walked.clear();
    at = kRootInode;
  }
  std::string led = walked + rest;
  return led.empty() ? "/" : led;
}

Result<std::vector<std::string>> other_paths_of(FileSystem& tree, std::string_view path) {
  std::vector<std::string> paths;
  Result<Attributes> node = lstat(tree, path);
  if (!node.ok() || node->is_directory() || node->nlink <= 1) return paths;
  std::unique_ptr<Unit> unit = WARREN_TRY(tree.begin(UnitAccess::kRead));
  for (const EntryName& name : WARREN_TRY(tree.list_names_of(node->inode))) {
    std::string found = join_path("/", name.name);
    Inode dir = name.parent;
    for (int depth = 0; dir != kRootInode && depth < limits::kTreeDepth; ++depth) {
      std::vector<EntryName> up = WARREN_TRY(tree.list_names_of(dir));
      if (up.empty()) break;
      found.insert(0, join_path("/", up.front().name));
      dir = up.front().parent;
    }
    if (found != path) paths.push_back(std::move(found));
  }
  return paths;
}

}  // namespace warren
