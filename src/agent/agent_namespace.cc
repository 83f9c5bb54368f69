#include "agent/agent_namespace.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoint_blobs.h"
#include "agent/checkpoints/mounted_state.h"
#include "agent/locate.h"
#include "agent/namespace_parts.h"
#include "backends/vector/vector_blobs.h"
#include "base/below.h"
#include "base/limits.h"
#include "base/path.h"
#include "fs/host/host_fs.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "store/files/sqlite_fs.h"
#include "vfs/vector_query.h"

namespace warren {
namespace {

// Of an inbox or an outbox: room for the largest attachments, but not for the whole disk.
constexpr std::uint64_t kMailBytes = std::uint64_t{4} << 30;
constexpr std::uint64_t kMailNodes = 65'536;

// Marks this agent for the relay: it sees nothing but its own mail (Root::is_confined). It stays: what the agent has
// sent may be read later. Where we may not put it, the agent has another user than the relay, which says the same.
Status mark_confined(int agent_dir, const std::string& name) {
  Fd mark(::openat(agent_dir, ".confined", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (mark.is_open() || errno == EACCES || errno == EPERM) return Ok{};
  return system_error(errno, fmt::format("mark {} as confined at the relay", quote(name)));
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
    if (step == folder) WARREN_TRY(mark_confined(at.get(), relay.name));
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

Status check_semantic_path(std::string_view path) {
  if (is_at_or_below(path, kSemanticMemory)) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} cannot be queried", quote(path)),
               fmt::format("queries search {}, and vector indexes where they are mounted", kSemanticMemory));
}

}  // namespace

AgentNamespace::AgentNamespace() = default;
AgentNamespace::~AgentNamespace() {
  if (announces_ != nullptr) announces_->when_audited({});
  if (mounted_) mounted_->clear();  // what is stored at the very end cannot cover what is gone already
}

Result<std::unique_ptr<AgentNamespace>> AgentNamespace::open(Agent& agent, const AgentNamespaceOptions& options,
                                                             Clock& clock) {
  std::unique_ptr<AgentNamespace> made(new AgentNamespace);
  made->agent_id_ = agent.id();
  made->mounted_ = std::make_unique<MountedState>(agent, clock);
  FileSystem* own = WARREN_TRY(agent.namespace_tree());
  made->semantic_ = std::make_unique<SemanticIndex>(agent.store(), *own);
  FileSystem* working = WARREN_TRY(made->open_working(agent, options.working, clock).within("open /mem/working"));
  auto hides_checkpoints = [](const auto& mount) { return is_at_or_below(kCheckpointsPath, mount.path); };
  if (std::ranges::none_of(options.mounts, hides_checkpoints) &&
      std::ranges::none_of(options.stores, hides_checkpoints)) {
    auto checkpoints = std::make_unique<CheckpointBlobs>(agent, *made->mounted_);
    BlobStore& store = *checkpoints;
    made->add_mount(std::string(kCheckpointsPath), store, std::move(checkpoints), clock);
  }
  WARREN_TRY(made->open_mounts(options, clock));
  for (BlobMount& mount : made->mounts_) {
    if (dynamic_cast<CheckpointBlobs*>(&mount.store) != nullptr) continue;
    std::string identity = mount.owned ? identity_of(mount.store) : "";
    made->mounted_->add(mount.path, mount.store, mount.fs.get(), std::move(identity));
  }
  made->mounted_->set_working(*working, made->store_ ? made->store_->path() : "");
  std::vector<NamespaceMount> mounted;
  for (BlobMount& mount : made->mounts_) mounted.push_back({mount.path, *mount.fs, mount.store.name()});
  std::optional<AgentOverlay> overlay = options.shows_project ? agent.overlay() : std::nullopt;
  if (overlay) mounted.push_back({std::string(kProjectPath), overlay->merged, "base " + overlay->base_path});
  if (options.relay) {
    made->inbox_ = WARREN_TRY(open_mail_folder(*options.relay, "inbox"));
    made->outbox_ = WARREN_TRY(open_mail_folder(*options.relay, "outbox"));
  }
  AuditLog* audit = WARREN_TRY(agent.namespace_audit().within("start the audit trail"));
  if (audit != nullptr) {
    made->audit_file_ = std::make_unique<AuditFileFs>(*own, *audit, clock);
    made->announces_ = &agent.store();
    agent.store().when_audited([file = made->audit_file_.get()] { file->announce(); });
    own = made->audit_file_.get();
  }
  made->namespace_ =
      WARREN_TRY(Namespace::open(*own, *working,
                                 {.agent = made->agent_id_,
                                  .is_read_only = agent.is_read_only(),
                                  .working_backend = made->memory_ ? "memory" : "runtime folder",
                                  .mounts = std::move(mounted),
                                  .inbox = made->inbox_.get(),
                                  .outbox = made->outbox_.get(),
                                  .ipc_backend = options.relay ? fmt::format("relay {}", options.relay->root) : "",
                                  .audit = audit},
                                 clock));
  return made;
}

Status AgentNamespace::open_once(std::unique_ptr<AgentNamespace>& opened, Agent& agent,
                                 const AgentNamespaceOptions& options, Clock& clock) {
  auto lock = agent.store().database().lock();
  if (!opened) opened = WARREN_TRY(open(agent, options, clock));
  return Ok{};
}

AgentNamespace* AgentNamespace::find_opened(const std::unique_ptr<AgentNamespace>& opened, Agent& agent) {
  auto lock = agent.store().database().lock();
  return opened.get();
}

Status AgentNamespace::open_mounts(const AgentNamespaceOptions& options, Clock& clock) {
  std::vector<MountSpec> all = options.mounts;
  for (const MountedStore& mount : options.stores) {
    all.push_back({.path = mount.path, .backend = {}, .password_env = {}, .directory = {}});
  }
  WARREN_TRY(check_no_duplicates(all));
  for (const MountSpec& mount : options.mounts) {
    std::unique_ptr<BlobStore> store = WARREN_TRY(open_mount(mount, clock));
    BlobStore& opened = *store;
    add_mount(mount.path, opened, std::move(store), clock);
  }
  for (const MountedStore& mount : options.stores) add_mount(mount.path, mount.store, nullptr, clock);
  return Ok{};
}

void AgentNamespace::add_mount(std::string path, BlobStore& store, std::unique_ptr<BlobStore> owned, Clock& clock) {
  auto fs = std::make_unique<BlobFs>(store, clock, BlobFsOptions{.owner = {::geteuid(), ::getegid()}});
  mounts_.push_back({.path = std::move(path), .owned = std::move(owned), .store = store, .fs = std::move(fs)});
}

const AgentNamespace::BlobMount* AgentNamespace::find_mount(std::string_view path) const {
  const BlobMount* innermost = nullptr;
  for (const BlobMount& mount : mounts_) {
    if (is_at_or_below(path, mount.path) && (innermost == nullptr || mount.path.size() > innermost->path.size()))
      innermost = &mount;
  }
  return innermost;
}

Result<std::vector<VectorMatch>> AgentNamespace::query(const std::string& path, const VectorQuery& query,
                                                       const SemanticIndex::MayRead& may_read) {
  const BlobMount* mount = find_mount(path);
  if (mount == nullptr) {
    WARREN_TRY(check_semantic_path(path));
    return semantic_->query(path, query, may_read);
  }
  auto* vectors = dynamic_cast<VectorBlobs*>(&mount->store);
  if (vectors == nullptr) {
    return Error(Code::kInvalid,
                 fmt::format("{} cannot be queried: what is mounted there is not a vector index", quote(path)));
  }
  auto may_read_at = [&](const std::string& at) { return may_read(at, OtherNames::kNo); };
  return query_mounted(vectors->index(), mount->path, path, query, may_read_at);
}

Result<std::vector<VectorMatch>> AgentNamespace::query_text(const std::string& path, const VectorQuery& query,
                                                            const SemanticIndex::MayRead& may_read,
                                                            Embedder& embedder) {
  if (find_mount(path) != nullptr) return this->query(path, query, may_read);
  WARREN_TRY(check_semantic_path(path));
  WARREN_TRY(semantic_->embed_missing(embedder));
  return semantic_->query(path, query, may_read, SemanticIndex::Dimension::kOfQuery);
}

Result<SemanticCheck> AgentNamespace::check_semantic(const std::string& path, const SemanticIndex::MayRead& may_read) {
  if (find_mount(path) != nullptr) {
    return Error(Code::kInvalid, fmt::format("{} is on a store that takes only what it can find again", quote(path)),
                 "only the files of /mem/semantic can be other than items");
  }
  WARREN_TRY(check_semantic_path(path));
  return semantic_->check(path, may_read);
}

// A mounted index checks for itself what it takes.
Status AgentNamespace::write(FileSystem& view, std::string_view path, std::string_view data, AsIs as_is,
                             std::optional<std::int64_t> expires_at_ms) {
  if (as_is == AsIs::kNo && find_mount(path) == nullptr) WARREN_TRY(semantic_->check_write(path, data));
  return write_value(view, path, data, as_is, expires_at_ms);
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
    Result<BlobPage> page = mount.store.list({.limit = 1});
    all.push_back({mount.path, page.ok() ? Status(Ok{}) : Status(std::move(page).take_error())});
  }
  return all;
}

Result<FileSystem*> AgentNamespace::open_working(Agent& agent, WorkingMemory where, Clock& clock) {
  if (where == WorkingMemory::kProcess || agent.path() == kMemoryAgent) {
    memory_ = std::make_unique<MemoryFs>(clock, limits::kChunkBytesDefault, limits::kWorkingMemoryBytes);
    return memory_.get();
  }
  std::string file = WARREN_TRY(working_file(agent.path()));
  store_ = WARREN_TRY(open_working_file(file, agent.store(), clock));
  return &store_->fs();
}

}  // namespace warren
