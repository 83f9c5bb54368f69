#include "agent/agent_namespace.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/running.h"
#include "backends/open_backend.h"
#include "base/limits.h"
#include "base/path.h"
#include "fs/host_fs.h"
#include "os/error.h"
#include "os/host_files.h"
#include "os/host_stat.h"
#include "store/sqlite_fs.h"

namespace warren {
namespace {

// Of an inbox or an outbox: room for the largest attachments, but not for the whole disk.
constexpr std::uint64_t kMailBytes = std::uint64_t{4} << 30;
constexpr std::uint64_t kMailNodes = 65'536;

// The file that holds an agent's working memory between commands: named after the agent's file, not its path, so that a
// new agent of the same name begins with nothing.
Result<std::string> working_file(const std::string& agent_path) {
  std::string folder = WARREN_TRY(runtime_folder());
  std::string whole = WARREN_TRY(canonical_host_path(agent_path));
  HostStat info = WARREN_TRY(host_stat(AT_FDCWD, whole.c_str()));
  return fmt::format("{}/working-{:x}-{:x}-{:x}.db", folder, info.st_dev, info.st_ino, info.generation);
}

// Tells the relay that this agent sees nothing but its own mail (Root::is_confined). It stays: what the agent has sent
// may be read later. Where we may not put it, the agent has another user than the relay, which says the same.
void mark_confined(int agent_dir) {
  Fd mark(::openat(agent_dir, ".confined", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
}

// Follows no link below the relay's directory: an agent may put one into its own.
Result<std::unique_ptr<HostFs>> open_mail_folder(const RelayMailbox& relay, const char* folder) {
  WARREN_TRY(check_agent_id(relay.name));
  Fd at = WARREN_TRY(open_host_dir(relay.root).within("open the relay's directory"));
  for (const char* step : {"agents", relay.name.c_str(), folder}) {
    Fd next(::openat(at.get(), step, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.is_open() && errno == ENOENT) {
      return Error(Code::kNotFound,
                   fmt::format("the relay at {} has no agent {}", quote(relay.root), quote(relay.name)),
                   fmt::format("`warren relay register {} --root {}` makes it", relay.name, relay.root));
    }
    if (!next.is_open()) {
      return system_error(errno, fmt::format("open the {} of {} at the relay", folder, quote(relay.name)));
    }
    if (step == folder) mark_confined(at.get());
    at = std::move(next);
  }
  std::uint64_t bytes_max = std::min(relay.bytes_max.value_or(kMailBytes), kMailBytes);
  auto fs = WARREN_TRY(
      HostFs::open(fmt::format("/proc/self/fd/{}", at.get()),
                   {.hidden = {}, .view = {}, .is_writable = true, .bytes_max = bytes_max, .nodes_max = kMailNodes}));
  // The agent cannot reach the relay's store of attachments: they are handed over here.
  Result<Attributes> made = fs->make_dir(kRootInode, ".attachments", {.mode = 0700});
  if (!made.ok() && made.error().code() != Code::kExists) return std::move(made).take_error();
  return fs;
}

}  // namespace

AgentNamespace::AgentNamespace() = default;
AgentNamespace::~AgentNamespace() = default;

Result<std::unique_ptr<AgentNamespace>> AgentNamespace::open(Agent& agent, const AgentNamespaceOptions& options,
                                                             Clock& clock) {
  std::unique_ptr<AgentNamespace> made(new AgentNamespace);
  made->agent_id_ = agent.id();
  FileSystem* own = WARREN_TRY(agent.namespace_tree());
  made->semantic_ = std::make_unique<SemanticIndex>(agent.store(), *own);
  FileSystem* working =
      WARREN_TRY(made->open_working(agent.path(), options.working, clock).within("open /mem/working"));
  WARREN_TRY(made->open_mounts(options.mounts, clock));
  std::vector<NamespaceMount> mounted;
  for (BlobMount& mount : made->mounts_) mounted.push_back({mount.path, *mount.fs, mount.store->name()});
  if (options.relay) {
    made->inbox_ = WARREN_TRY(open_mail_folder(*options.relay, "inbox"));
    made->outbox_ = WARREN_TRY(open_mail_folder(*options.relay, "outbox"));
  }
  made->namespace_ =
      WARREN_TRY(Namespace::open(*own, *working,
                                 {.agent = made->agent_id_,
                                  .is_read_only = agent.is_read_only(),
                                  .working_backend = made->memory_ ? "memory" : "runtime folder",
                                  .mounts = std::move(mounted),
                                  .inbox = made->inbox_.get(),
                                  .outbox = made->outbox_.get(),
                                  .ipc_backend = options.relay ? fmt::format("relay {}", options.relay->root) : ""},
                                 clock));
  return made;
}

Status AgentNamespace::open_mounts(const std::vector<MountSpec>& mounts, Clock& clock) {
  WARREN_TRY(check_no_duplicates(mounts));
  auto variables = [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  for (const MountSpec& mount : mounts) {
    auto what = [&] { return "mount " + quote(mount.path); };
    std::string address = WARREN_TRY(expand_address(mount.backend, variables).within(what));
    BackendOptions options{.clock = clock, .directory = mount.directory};
    if (!mount.password_env.empty()) {
      options.password = variables(mount.password_env);
      if (!options.password) {
        return Error(Code::kInvalid, fmt::format("mount {}: the environment variable {} is not set", quote(mount.path),
                                                 quote(mount.password_env)));
      }
    }
    std::unique_ptr<BlobStore> store = WARREN_TRY(open_blob_store(address, options).within(what));
    auto fs = std::make_unique<BlobFs>(*store, clock, BlobFsOptions{.owner = {::geteuid(), ::getegid()}});
    mounts_.push_back({.path = mount.path, .store = std::move(store), .fs = std::move(fs)});
  }
  return Ok{};
}

Status AgentNamespace::sync_mounts() {
  Status all = Ok{};
  for (BlobMount& mount : mounts_) {
    Status one = mount.fs->sync(kRootInode).within([&] { return "store what was written to " + quote(mount.path); });
    if (!one.ok() && all.ok()) all = std::move(one);
  }
  return all;
}

std::vector<AgentNamespace::MountHealth> AgentNamespace::check_mounts() {
  std::vector<MountHealth> all;
  for (BlobMount& mount : mounts_) {
    Result<BlobPage> page = mount.store->list({.limit = 1});
    all.push_back({mount.path, page.ok() ? Status(Ok{}) : Status(std::move(page).take_error())});
  }
  return all;
}

Result<FileSystem*> AgentNamespace::open_working(const std::string& agent_path, WorkingMemory where, Clock& clock) {
  if (where == WorkingMemory::kProcess || agent_path == kMemoryAgent) {
    memory_ = std::make_unique<MemoryFs>(clock, limits::kChunkBytesDefault, limits::kWorkingMemoryBytes);
    return memory_.get();
  }
  std::string file = WARREN_TRY(working_file(agent_path));
  StoreOptions options{.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = Commits::kEach};
  Result<std::unique_ptr<Store>> store = Store::open(file, options, clock);
  if (!store.ok() && store.error().code() == Code::kExists) {
    options.mode = OpenMode::kReadWrite;
    store = Store::open(file, options, clock);
  }
  store_ = WARREN_TRY(std::move(store));
  return &store_->fs();
}

}  // namespace warren
