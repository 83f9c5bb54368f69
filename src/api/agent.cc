#include <warren/v1/agent.h>

#include <utility>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "agent/checkpoints/mounted_state.h"
#include "agent/locate.h"
#include "api/state.h"
#include "base/path.h"
#include "changes/upper/keep_restored.h"
#include "os/files/host_files.h"
#include "store/store.h"
#include "vfs/mount_spec.h"

namespace warren::v1 {
namespace {

// Returns an unambiguous path for locate_agent, which would try a name without '/' as an id first.
Result<std::string> path_of(const AgentOptions& options) {
  if (options.id.empty() == options.path.empty()) {
    return Error(Code::kInvalid, "an agent is opened either by id or by path",
                 "set exactly one of AgentOptions::id and AgentOptions::path");
  }
  if (!options.id.empty()) {
    WARREN_TRY(check_agent_id(options.id));
    return path_of_agent(options.id);
  }
  bool is_plain = options.path == kMemoryAgent || options.path.starts_with('/');
  return is_plain ? options.path : "./" + options.path;
}

// If another process creates the agent at the same time, that one is used.
Status create(const std::string& path, const AgentOptions& options, Clock& clock) {
  if (!options.id.empty()) WARREN_TRY(make_host_dirs(std::string(kAgentsDir), 0755));
  auto made = Store::open(path, {.mode = OpenMode::kCreate, .chunk_bytes = options.chunk_bytes}, clock);
  if (made.ok() || made.error().code() == Code::kExists) return Ok{};
  return std::move(made).take_error();
}

Status create_if_missing(const std::string& path, const AgentOptions& options, Clock& clock) {
  if (path == kMemoryAgent || options.if_missing == IfMissing::kFail || options.mode == Mode::kReadOnly) return Ok{};
  if (WARREN_TRY(find_host_file(path))) return Ok{};
  return create(path, options, clock);
}

Status take_mounts(const AgentOptions& options, AgentState& state) {
  std::string here = WARREN_TRY(canonical_host_path("."));
  for (const VfsMountOptions& mount : options.mounts) {
    if (mount.backend.empty() == (mount.store == nullptr)) {
      return Error(Code::kInvalid, fmt::format("the mount on {} needs either a backend or a store", quote(mount.path)),
                   "set exactly one of VfsMountOptions::backend and VfsMountOptions::store");
    }
    if (mount.store) {
      std::string path = WARREN_TRY(parse_mount_point(mount.path));
      state.stores.push_back(std::make_unique<OwnBlobs>(mount.store));
      state.mounted_stores.push_back({.path = std::move(path), .store = *state.stores.back()});
      continue;
    }
    MountSpec spec = WARREN_TRY(make_mount(mount.path, mount.backend, here));
    spec.password = mount.password;
    state.mounts.push_back(std::move(spec));
  }
  return Ok{};
}

}  // namespace

Agent::Agent(std::unique_ptr<AgentState> state) : state_(std::move(state)) {}

Agent::~Agent() = default;

Result<std::unique_ptr<Agent>> Agent::open(const AgentOptions& options) {
  auto state = std::make_unique<AgentState>();
  std::string path = WARREN_TRY(path_of(options));
  WARREN_TRY(take_mounts(options, *state));
  WARREN_TRY(create_if_missing(path, options, state->clock));
  warren::AgentOptions internal{.id_or_path = path,
                                .mode = options.mode == Mode::kReadOnly ? OpenMode::kReadOnly : OpenMode::kReadWrite,
                                .durability = options.durability == Durability::kPower ? warren::Durability::kPower
                                                                                       : warren::Durability::kProcess};
  internal.caller = {.agent = {}, .space = warren::Space::kUser, .door = "library", .session = {}};
  state->agent = WARREN_TRY(warren::Agent::open(internal, state->clock));
  return std::unique_ptr<Agent>(new Agent(std::move(state)));
}

const std::string& Agent::path() const { return state_->agent->path(); }

namespace {

Checkpoint public_of(warren::Checkpoint one) {
  return {.id = one.id, .name = std::move(one.name), .taken_at_us = one.at_us, .cause = std::move(one.cause)};
}

// What checkpoints cover beside the agent file: nothing, unless something is mounted or the namespace is in use.
Result<MountedState*> mounted_of(AgentState& state) {
  bool has_mounts = !state.mounts.empty() || !state.mounted_stores.empty();
  if (!has_mounts) {
    AgentNamespace* opened = AgentNamespace::find_opened(state.names, *state.agent);
    return opened != nullptr ? &opened->mounted() : nullptr;
  }
  AgentNamespaceOptions options{.mounts = state.mounts, .stores = state.mounted_stores};
  WARREN_TRY(AgentNamespace::open_once(state.names, *state.agent, options, state.clock));
  return &state.names->mounted();
}

}  // namespace

Result<Checkpoint> Agent::checkpoint(const std::string& name) {
  WARREN_TRY(check_checkpoint_name(name));
  MountedState* mounted = WARREN_TRY(mounted_of(*state_));
  warren::Checkpoint made = WARREN_TRY(take_checkpoint(*state_->agent, name, "asked", mounted));
  return public_of(std::move(made));
}

Result<Checkpoint> Agent::restore(const std::string& which) {
  warren::Checkpoint wanted = WARREN_TRY(get_checkpoint(*state_->agent, which));
  MountedState* mounted = WARREN_TRY(mounted_of(*state_));
  warren::Checkpoint before = WARREN_TRY(restore_checkpoint(*state_->agent, wanted.id, mounted));
  const std::string& path = state_->agent->path();
  keep_restored(path, {.id_or_path = path, .mode = OpenMode::kReadOnly, .checkpoint = before.id}, state_->clock)
      .ignore("if the base is not there, nothing can be compared with it");
  return public_of(std::move(before));
}

Result<std::vector<Checkpoint>> Agent::checkpoints() {
  std::vector<warren::Checkpoint> all = WARREN_TRY(list_checkpoints(*state_->agent));
  std::vector<Checkpoint> found;
  for (warren::Checkpoint& one : all) found.push_back(public_of(std::move(one)));
  return found;
}

Status Agent::remove_checkpoint(const std::string& which) {
  warren::Checkpoint wanted = WARREN_TRY(get_checkpoint(*state_->agent, which));
  return warren::remove_checkpoint(*state_->agent, wanted.id);
}

Status Agent::backup(const std::string& path) { return state_->agent->backup_to(path); }

struct Unit::State {
  std::unique_ptr<warren::Unit> unit;
};

Unit::Unit(std::unique_ptr<State> state) : state_(std::move(state)) {}

Unit::~Unit() = default;

Result<std::unique_ptr<Unit>> Agent::begin_unit() {
  // Through the filesystem, whose lock comes before the database's (docs/design/fs.md).
  std::unique_ptr<warren::Unit> unit = WARREN_TRY(state_->agent->fs().begin(UnitAccess::kWrite));
  auto state = std::make_unique<Unit::State>(Unit::State{std::move(unit)});
  return std::unique_ptr<Unit>(new Unit(std::move(state)));
}

Status Unit::commit() {
  if (!state_) return Error(Code::kInvalid, "this unit has already been committed");
  Status done = state_->unit->commit();
  state_.reset();
  return done;
}

const char* version() { return WARREN_VERSION; }

}  // namespace warren::v1
