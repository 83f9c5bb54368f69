// An agent's namespace: its own tree with the standard directories and mounts, seen by callers under the rules.
//
// The directories (/mem/episodic, /mem/semantic, /state/checkpoints, /policy, /ipc/inbox, /ipc/outbox, /audit) are
// ordinary ones of the agent's own tree; /mem/working is a filesystem of its own that does not last.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "fs/mounts/mount_fs.h"
#include "vfs/audit_fs.h"
#include "vfs/caller.h"
#include "vfs/guard_fs.h"
#include "vfs/live_policy.h"

namespace warren {

// A filesystem to be mounted. It outlives the namespace.
struct NamespaceMount {
  std::string path;  // normalised; on /mem/working it replaces the one that does not last
  FileSystem& fs;
  std::string backend;  // for people, without secrets
};

struct NamespaceOptions {
  std::string agent;                       // its id
  bool is_read_only = false;               // missing directories are not made
  std::string working_backend = "memory";  // what holds /mem/working, for people
  std::vector<NamespaceMount> mounts = {};
  FileSystem* inbox = nullptr;  // what is shown at /ipc/inbox and /ipc/outbox; null: the agent's own
  FileSystem* outbox = nullptr;
  std::string ipc_backend;    // what holds these two, for people
  AuditLog* audit = nullptr;  // where views record what is done; null: nowhere. Outlives the views
};

class Namespace;

// The whole tree as one caller may use it, under the rules and recorded.
class NamespaceView final : public ForwardingFs {
 public:
  NamespaceView(std::unique_ptr<GuardFs> guard, std::unique_ptr<AuditFs> audit);  // over the guard; may be null

  const Caller& caller() const { return guard_->caller(); }
  Result<bool> may_read(std::string_view path, OtherNames names) { return guard_->may_read(path, names); }
  Result<bool> may(Rights::Operation operation, std::string_view path) { return guard_->may(operation, path); }
  // GuardFs::check_path and check_value. A refusal is recorded as one of the operation `op`.
  Status check_path(Rights::Operation operation, std::string_view path, std::string_view op);
  Status check_value(Rights::Operation operation, std::string_view path, std::string_view op,
                     std::uint64_t size_bytes = 0);
  Result<bool> may_read_value(std::string_view path);  // nothing is recorded
  Result<bool> has_rights(Inode node) { return guard_->has_rights(node); }

  bool is_recorded() const { return audit_ != nullptr; }
  // See AuditFs; both succeed if nothing is recorded.
  Status record(std::string_view op, std::string_view path, const Status& outcome);
  // Namespace::resolve. A refusal is recorded as one of the operation `op`.
  Result<std::string> resolve(const Namespace& names, std::string_view path, std::string_view op);
  Status check_recorded();
  bool has_refused() const { return audit_ != nullptr && audit_->has_refused(); }

 private:
  Status noted_refusal(std::string_view op, std::string_view path, Status checked);

  std::unique_ptr<GuardFs> guard_;
  std::unique_ptr<AuditFs> audit_;
};

// What `warren vfs mounts` lists.
struct MountInfo {
  std::string path;
  std::string backend;  // "agent file", "memory", "sqlite:/home/me/notes.db"
};

// Thread-safe. What it is made of outlives it, and it outlives its views.
class Namespace {
 public:
  static Result<std::unique_ptr<Namespace>> open(FileSystem& own, FileSystem& working, NamespaceOptions options,
                                                 Clock& clock);

  std::unique_ptr<NamespaceView> view(Caller caller, AuditReads reads = AuditReads::kByFile);

  LivePolicy& policy() { return policy_; }
  const std::vector<MountInfo>& mounts() const { return mounts_; }

  // "/agent/<own id>/x" → "/x", "x" → "/x"; '..' is walked as text and never leaves the namespace. kDenied for another
  // agent's namespace.
  Result<std::string> resolve(std::string_view path) const;

 private:
  Namespace(FileSystem& own, std::string agent, Clock& clock);

  std::string agent_;
  Clock& clock_;
  AuditLog* audit_ = nullptr;
  LivePolicy policy_;
  std::vector<MountInfo> mounts_;
  std::unique_ptr<MountFs> tree_;
};

// The standard directories that are made in an agent's own tree.
const std::vector<std::string>& namespace_directories();
// One of these, a directory above one (but not the root), or /mem/working.
bool is_standard_directory(std::string_view path);

// What Namespace::resolve returns, for the agent of this id.
Result<std::string> resolve_path(std::string_view agent, std::string_view path);
// Where the symbolic links of the agent's own tree lead on a resolved path, as far as the path exists. kDenied if a
// standard directory is a link, kLoop for a circle.
Result<std::string> follow_links(FileSystem& own, std::string_view path);
// The other names of the file at a resolved path: hard links, by whose rules it is judged too. Empty if there is none.
Result<std::vector<std::string>> other_paths_of(FileSystem& own, std::string_view path);

}  // namespace warren
