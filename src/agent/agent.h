// An open agent: the facade that every door uses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base_note.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/path_view.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "fs/overlay/upper_layer.h"
#include "store/record/tool_calls.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "vfs/audit_fs.h"
#include "vfs/caller.h"

namespace warren {

class NamespaceTree;

// Which tree an agent with a base shows: the merged tree, or only the content of its own file.
enum class Layers { kMerged, kOwn };

struct AgentOptions {
  std::string id_or_path;
  OpenMode mode = OpenMode::kReadWrite;  // kReadWrite fails with Code::kReadOnly for a file of an older schema
  Durability durability = Durability::kPower;
  Commits commits = Commits::kEach;
  Layers layers = Layers::kMerged;
  std::vector<std::string>
      hidden;  // absolute host paths to hide from the base; the agent's own folder is always hidden
  std::shared_ptr<const PathView> view;                      // what is shown of the base; null: everything
  std::uint64_t copy_whole_bytes = limits::kCopyWholeBytes;  // a file of the base up to this is copied whole
  // Who uses fs(), for the audit trail. Without a door nothing is recorded there. The agent's id is filled in.
  Caller caller = {};
  // With kReadOnly: where reading is to be recorded, the file is opened for writing all the same, and the caller
  // changes nothing through it. Otherwise such an agent is refused (kReadOnly).
  bool may_record = false;
  AuditReads audit_reads = AuditReads::kByFile;  // how reads are seen, where they are recorded
  std::optional<std::int64_t> checkpoint;        // as it was then (agent/checkpoints/checkpoints.h); only for reading
};

// The parts of an agent with a base.
struct AgentOverlay {
  UpperLayer& upper;             // the agent file's own content
  FileSystem& base;              // the host directory, read-only
  FileSystem& merged;            // the same as Agent::fs()
  const std::string& base_path;  // absolute
  const std::string& agent_path;
  const std::optional<BaseNote>& note;     // ours about this file; nullopt for a file from elsewhere
  const std::vector<std::string>& hidden;  // paths in the base that were hidden from the agent: "/a/secret"
  std::optional<std::string> identity;     // store/identity.h; nullopt if the file has none yet
};

// Thread-safe like its store. The clock outlives it.
class Agent {
 public:
  // Opens an existing agent (agent/locate.h). ":memory:" makes a new one that exists as long as the object.
  static Result<std::unique_ptr<Agent>> open(const AgentOptions& options, Clock& clock);
  ~Agent();

  // See Store::close. Only an agent with grouped commits needs it; call nothing afterwards.
  Status close();

  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  const std::string& path() const { return store_->path(); }
  const std::string& id() const { return id_; }  // of a session: the session's; else the file's name without ".db"
  bool is_read_only() const { return store_->is_read_only(); }
  const std::optional<std::string>& base() const { return base_; }  // its path; also with Layers::kOwn

  FileSystem& fs();                       // the merged tree, if the agent has a base; on the record
  std::optional<AgentOverlay> overlay();  // nullopt if it has no base
  KeyValue& kv() { return store_->kv(); }
  ToolCalls& tools() { return store_->tools(); }
  Store& store() { return *store_; }

  // The tree of the namespace: the agent's files or, with a base, a second tree of the agent file
  // (store/files/namespace_tree.h), which the first call opens or makes. kNotFound if there is none yet and it cannot
  // be made. For one thread.
  Result<FileSystem*> namespace_tree();

  AuditLevel audit_level() const { return audit_level_; }
  bool records_reads() const { return records_reads_; }  // of fs()
  // Why nothing is recorded although it would be by default: there is no key, and nobody has asked for a record. As a
  // warning for the user of the door.
  const std::optional<std::string>& unrecorded() const { return unrecorded_; }
  // Makes the trail ready if this agent's namespace is to be recorded; null if it is not.
  // kReadOnly if the operator has asked for that and the agent is open read-only.
  Result<AuditLog*> namespace_audit();
  // The same for what operators do with an agent as a whole, such as applying its changes: wherever there is a trail.
  Result<AuditLog*> operators_audit();
  // Stores the events of what was read so far: before it is handed out.
  Status check_recorded();
  // Stores what is recorded so far and notes the end of the trail (agent/record/audit_note.h), as the destructor does.
  Status note_trail();

  // What has changed in between, if two of them differ.
  struct ChangeMark {
    std::int64_t everything = 0;  // by anybody: files, namespace, keys, calls
    std::uint64_t names = 0;      // in the namespace, by this object; only with a base
  };
  Result<ChangeMark> change_mark();

  Status backup_to(const std::string& file) { return store_->backup_to(file); }  // even while it is in use
  Status limit_space(std::uint64_t bytes);

 private:
  struct Overlay;
  explicit Agent(std::unique_ptr<Store> store);
  static std::vector<std::string> hidden_in_base(const Overlay& overlay, std::vector<std::string> paths);
  Status open_base(const std::string& base_path, const AgentOptions& options);
  Status start_audit(const AgentOptions& options);
  bool can_record() const;
  Result<bool> start_trail();

  std::unique_ptr<Store> store_;
  std::string id_;
  std::optional<std::string> base_;
  std::unique_ptr<NamespaceTree> names_;  // only with a base, once it was asked for
  std::unique_ptr<Overlay> overlay_;      // destroyed before the store
  bool is_durable_ = false;               // every commit survives a power cut
  AuditLevel audit_level_ = AuditLevel::kDefault;
  bool records_reads_ = false;
  std::optional<std::string> unrecorded_;
  std::unique_ptr<AuditFs> audited_;  // what fs() returns, if it is recorded
};

// The id that an agent's file stands for: the session's, or the file's name without ".db".
std::string agent_id_of(std::string_view path);

}  // namespace warren
