#include "agent/agent.h"

#include <fmt/format.h>

#include "agent/keys/audit_key.h"
#include "agent/keys/encrypted_note.h"
#include "agent/keys/file_key.h"
#include "agent/locate.h"
#include "agent/quota.h"
#include "agent/record/audit_note.h"
#include "agent/sessions.h"
#include "agent/staging_prefix.h"
#include "base/path.h"
#include "fs/host/host_fs.h"
#include "fs/overlay/overlay_fs.h"
#include "os/files/host_files.h"
#include "store/files/namespace_tree.h"
#include "store/files/sqlite_fs.h"
#include "store/identity.h"
#include "store/overlay/overlay_rows.h"
#include "store/overlay/overlay_schema.h"

namespace warren {

// The agent's own file as the upper layer of its base. With Layers::kOwn the base is not opened: an agent whose base
// is gone still has its state and its trail.
struct Agent::Overlay {
  std::string base_path;
  std::optional<BaseNote> note;
  std::vector<std::string> hidden;  // in the base
  std::unique_ptr<OverlayRows> rows;
  std::unique_ptr<HostFs> base;
  std::unique_ptr<OverlayFs> merged;
};

namespace {

// The .agentfs folders above the agent file. An agent whose base contains its own file must not see or change it.
std::vector<std::string> folders_to_hide(const std::string& agent_path) {
  std::vector<std::string> hidden;
  Result<std::string> whole = canonical_host_path(agent_path);
  if (!whole.ok()) return hidden;
  std::string_view at = *whole;
  while (at.size() > 1) {
    at = directory_of(at);
    if (base_name(at) == kAgentsDir) hidden.emplace_back(at);
  }
  return hidden;
}

}  // namespace

// Relative to the base; those outside it do not matter.
std::vector<std::string> Agent::hidden_in_base(const Overlay& overlay, std::vector<std::string> paths) {
  if (overlay.note) paths.insert(paths.end(), overlay.note->hidden.begin(), overlay.note->hidden.end());
  std::string above = overlay.base_path == "/" ? "" : overlay.base_path;
  std::vector<std::string> inside;
  for (const std::string& path : paths) {
    bool is_inside = path.size() > above.size() + 1 && path.starts_with(above) && path[above.size()] == '/';
    if (is_inside) inside.push_back(path.substr(above.size()));
  }
  return inside;
}

Agent::Agent(std::unique_ptr<Store> store) : store_(std::move(store)), id_(agent_id_of(store_->path())) {}

Agent::~Agent() {
  audited_.reset();
  note_trail().ignore("close() and check_recorded() return it; without a note, verify lacks one of its means");
  if (overlay_ && !store_->is_read_only()) {
    store_->fs().leave().ignore("the next open of the agent collects what is left");
  }
}

// Nodes without a name are collected while the overlay's rows are open, because some of them have rows there.
Status Agent::close() {
  audited_.reset();
  Status closed = store_->close();
  overlay_.reset();
  return closed;
}

namespace {

JournalAuthor author_of(const Caller& caller) {
  if (caller.door.empty()) return {};
  return {.door = caller.door, .space = std::string(name_of(caller.space))};
}

// Whether reading through this door is to be recorded.
bool records_reading(AuditLevel level, const Caller& caller) {
  if (caller.door.empty() || level == AuditLevel::kOff) return false;
  return level == AuditLevel::kReads || caller.door == kNamespaceDoor;
}

// An agent that is opened read-only: as it is, or for writing if reading it is to be recorded. By default, nobody has
// asked for that, and a file that cannot be written is shown without.
Result<std::unique_ptr<Store>> open_on_record(std::unique_ptr<Store> store, const AgentOptions& options, Clock& clock) {
  AuditLevel level = WARREN_TRY(store->audit().level());
  if (!records_reading(level, options.caller)) return store;
  std::string who = quote(agent_id_of(store->path()));
  constexpr std::string_view kHint = "`warren audit ID on` records changes only, `off` nothing";
  if (!options.may_record) {
    return Error(Code::kReadOnly,
                 fmt::format("what is read of agent {} is recorded in its file, so it cannot be opened read-only", who),
                 fmt::format("open it for writing; {}", kHint));
  }
  Result<std::unique_ptr<Store>> writable = Store::open(store->path(),
                                                        {.durability = options.durability,
                                                         .commits = options.commits,
                                                         .find_key = store->database().key_finder(),
                                                         .find_content_key = agent_content_keys(store->path()),
                                                         .author = author_of(options.caller)},
                                                        clock);
  if (writable.ok() && (*writable)->schema().is_current()) return writable;
  bool is_fixed =
      writable.ok() || writable.error().code() == Code::kReadOnly || writable.error().code() == Code::kDenied;
  if (!is_fixed) return writable;
  if (level == AuditLevel::kDefault) return store;
  return Error(Code::kReadOnly,
               fmt::format("what is read of agent {} is recorded in its file, which cannot be written", who),
               std::string(kHint));
}

}  // namespace

Result<std::unique_ptr<Agent>> Agent::open(const AgentOptions& options, Clock& clock) {
  std::string path = WARREN_TRY(locate_agent(options.id_or_path));
  StoreOptions store_options{.mode = options.mode,
                             .durability = options.durability,
                             .commits = options.commits,
                             .checkpoint = options.checkpoint,
                             .find_key = agent_keys(path),
                             .find_content_key = agent_content_keys(path),
                             .author = author_of(options.caller)};
  if (path == kMemoryAgent) store_options.mode = OpenMode::kCreate;
  auto store = WARREN_TRY(Store::open(path, store_options, clock));
  WARREN_TRY(check_still_encrypted(*store, path));
  if (options.mode == OpenMode::kReadWrite && !store->schema().is_current()) {
    return Error(
        Code::kReadOnly,
        fmt::format("{} has the older schema {} and can only be read", quote(path), name_of(store->schema().version)),
        fmt::format("`warren migrate {}` upgrades it", options.id_or_path));
  }
  if (store->is_read_only()) store = WARREN_TRY(open_on_record(std::move(store), options, clock));
  std::unique_ptr<Agent> agent(new Agent(std::move(store)));
  agent->base_ = WARREN_TRY(find_overlay_base(*agent->store_));
  if (agent->base_ && options.layers == Layers::kMerged) WARREN_TRY(agent->open_base(*agent->base_, options));
  agent->is_durable_ = options.durability == Durability::kPower && options.commits == Commits::kEach;
  WARREN_TRY(agent->start_audit(options).within("start the audit trail"));
  return agent;
}

// What is open read-only cannot be recorded in, and what is in memory needs no record.
bool Agent::can_record() const { return !store_->is_read_only() && store_->path() != kMemoryAgent; }

// False if there is no key for a record that nobody has asked for: the agent is used without one.
Result<bool> Agent::start_trail() {
  if (unrecorded_) return false;
  AuditHead head = WARREN_TRY(store_->audit().head());
  if (audit_level_ == AuditLevel::kDefault && head.seq == 0 && !is_audit_key_given()) {
    Result<AuditKeys> keys = load_audit_keys();
    if (!keys.ok()) {
      const Error& why = keys.error();
      unrecorded_ = fmt::format("nothing is recorded in the audit trail: {}", why.message());
      if (!why.hint().empty()) *unrecorded_ += fmt::format(" ({})", why.hint());
      return false;
    }
  }
  WARREN_TRY(enable_audit(store_->audit(), id_));
  return true;
}

// `run` and MCP record by default, the other plain doors where the switch says so.
Status Agent::start_audit(const AgentOptions& options) {
  audit_level_ = WARREN_TRY(store_->audit().level());
  bool is_plain = !options.caller.door.empty() && options.caller.door != kNamespaceDoor;
  bool is_on = audit_level_ == AuditLevel::kOn || audit_level_ == AuditLevel::kReads ||
               (audit_level_ == AuditLevel::kDefault && (options.caller.door == "run" || options.caller.door == "mcp"));
  if (!is_on || !is_plain || !can_record()) return Ok{};
  if (!WARREN_TRY(start_trail())) return Ok{};
  Caller caller = options.caller;
  caller.agent = id_;
  records_reads_ = audit_level_ == AuditLevel::kReads;
  store_->audit().set_source({.agent = id_,
                              .door = caller.door,
                              .space = std::string(name_of(caller.space)),
                              .session = caller.session,
                              .trace = caller.trace,
                              .records_reads = records_reads_});
  AuditReads reads = records_reads_ ? options.audit_reads : AuditReads::kNone;
  audited_ = std::make_unique<AuditFs>(fs(), store_->audit(), std::move(caller), reads, store_->clock());
  return Ok{};
}

Result<AuditLog*> Agent::namespace_audit() {
  if (audit_level_ == AuditLevel::kOff || store_->path() == kMemoryAgent) return static_cast<AuditLog*>(nullptr);
  if (store_->is_read_only()) {
    if (audit_level_ == AuditLevel::kDefault) return static_cast<AuditLog*>(nullptr);
    return Error(
        Code::kReadOnly,
        fmt::format("what is done in the namespace of agent {} is recorded in its file, which is open read-only",
                    quote(id_)),
        "open it for writing; `warren audit ID off` records nothing");
  }
  if (!store_->audit().is_enabled() && !WARREN_TRY(start_trail())) return static_cast<AuditLog*>(nullptr);
  return &store_->audit();
}

Result<AuditLog*> Agent::operators_audit() {
  if (audit_level_ == AuditLevel::kOff || !can_record()) return static_cast<AuditLog*>(nullptr);
  if (store_->audit().is_enabled()) return &store_->audit();
  AuditHead head = WARREN_TRY(store_->audit().head());
  if (audit_level_ == AuditLevel::kDefault && head.seq == 0) return static_cast<AuditLog*>(nullptr);
  WARREN_TRY(enable_audit(store_->audit(), id_).within("start the audit trail"));
  return &store_->audit();
}

Status Agent::check_recorded() {
  if (!store_->audit().is_enabled()) return Ok{};
  WARREN_TRY(store_->audit().flush());
  return store_->audit().check();
}

// After the last change. After a power cut, a note that is ahead of the file would look like a cut trail, so the file
// is synced first.
Status Agent::note_trail() {
  if (!store_->audit().is_enabled()) return Ok{};
  Status stored = store_->audit().flush();
  Status ended = store_->database().end_batch();
  if (!store_->audit().has_appended()) return stored.ok() ? std::move(ended) : std::move(stored);
  if (!is_durable_) WARREN_TRY(store_->database().sync());
  WARREN_TRY(note_audit_head(store_->audit(), store_->path()));
  return stored.ok() ? std::move(ended) : std::move(stored);
}

Status Agent::open_base(const std::string& base_path, const AgentOptions& options) {
  std::vector<std::string> hidden = options.hidden;
  if (!base_path.starts_with('/') || base_path.find('\0') != base_path.npos) {
    return Error(
        Code::kCorrupt,
        fmt::format("{} names the base {}, which is not an absolute path", quote(store_->path()), quote(base_path)),
        "it was not made by Warren; commands that need no base, such as `warren kv`, still work");
  }
  auto overlay = std::make_unique<Overlay>();
  overlay->base_path = base_path;
  if (store_->path() != kMemoryAgent) overlay->note = WARREN_TRY(find_base_note(store_->path()));
  overlay->hidden = hidden_in_base(*overlay, folders_to_hide(store_->path()));
  overlay->rows = WARREN_TRY(OverlayRows::open(*store_));
  for (std::string& folder : folders_to_hide(store_->path())) hidden.push_back(std::move(folder));
  Result<std::unique_ptr<HostFs>> base =
      HostFs::open(base_path, {.hidden = std::move(hidden), .hidden_prefix = kStagingPrefix, .view = options.view});
  if (!base.ok()) {
    return Error(
        base.error().code(),
        fmt::format("cannot open {}, the base of {}: {}", quote(base_path), quote(store_->path()),
                    base.error().message()),
        "put the directory back to see the changes again: they are in the agent's file; with an empty directory in its "
        "place, `warren apply ID --to DIR` writes the agent's changes to DIR; `--exclude` leaves out "
        "large files that the agent has only in part");
  }
  overlay->base = std::move(base).take_value();
  overlay->merged = WARREN_TRY(OverlayFs::open(*overlay->rows, *overlay->base, options.copy_whole_bytes));
  overlay_ = std::move(overlay);
  return Ok{};
}

FileSystem& Agent::fs() {
  if (audited_) return *audited_;
  if (overlay_) return *overlay_->merged;
  return store_->fs();
}

Result<FileSystem*> Agent::namespace_tree() {
  if (!base_) return &store_->fs();
  if (!names_) names_ = WARREN_TRY(NamespaceTree::open_in(*store_));
  return names_.get();
}

Result<Agent::ChangeMark> Agent::change_mark() {
  ChangeMark mark;
  WARREN_TRY(store_->database().end_batch());
  if (store_->journal() != nullptr) mark.everything = WARREN_TRY(store_->journal()->last_change_seq());
  if (names_) mark.names = names_->changes();
  return mark;
}

Status Agent::limit_space(std::uint64_t bytes) {
  return change_quota(*store_, {.bytes = std::optional(bytes), .inodes = {}});
}

std::string agent_id_of(std::string_view path) {
  std::string_view dir = directory_of(path);
  if (base_name(dir).empty() || session_file(std::string(dir)) != path || base_name(directory_of(dir)) != "run") {
    std::string_view name = base_name(path);
    if (name.ends_with(".db")) name.remove_suffix(3);
    return std::string(name);
  }
  return std::string(base_name(dir));
}

std::optional<AgentOverlay> Agent::overlay() {
  if (!overlay_) return std::nullopt;
  Result<std::optional<std::string>> identity = find_identity(*store_);
  return AgentOverlay{.upper = *overlay_->rows,
                      .base = *overlay_->base,
                      .merged = *overlay_->merged,
                      .base_path = overlay_->base_path,
                      .agent_path = store_->path(),
                      .note = overlay_->note,
                      .hidden = overlay_->hidden,
                      .identity = identity.ok() ? *std::move(identity) : std::nullopt};
}

}  // namespace warren
