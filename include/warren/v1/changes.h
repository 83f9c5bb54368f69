// Sessions of `warren run`, and the changes of an agent to its base: the directory that it sees and does not write to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <warren/result.h>

namespace warren::v1 {

// What the commands of one `warren run` have changed, kept until it is applied or discarded.
struct Session {
  std::string id{};
  std::string file{};            // the agent file: Agent::open({.path = file}) shows the session's tree
  std::string base{};            // the directory that it changes; empty if unknown
  std::int64_t used_at = 0;      // Unix seconds
  std::uint64_t size_bytes = 0;  // of the agent file
  bool is_running = false;
};

Result<std::vector<Session>> list_sessions();  // the newest first
// Both fail with kNotFound, or kBusy while the session runs; rename also with kExists.
Status rename_session(const std::string& from, const std::string& to);
Status delete_session(const std::string& id);  // with its changes

// Never renumber; add at the end.
enum class ChangeKind : std::uint8_t { kDeleted = 1, kModified = 2, kRenamed = 3, kAdded = 4 };
enum class NodeType : std::uint8_t { kFile = 1, kDirectory = 2, kLink = 3, kOther = 4 };

// One node that differs from the base.
struct Change {
  ChangeKind kind = ChangeKind::kModified;
  NodeType type = NodeType::kFile;
  std::string path{};            // from the top of the tree: "/src/a.c"
  std::string from{};            // of a renamed node: its path in the base
  std::uint64_t size_bytes = 0;  // of a file, after the change
  bool is_content_changed = false;
  bool is_metadata_changed = false;    // permission bits, owner, extended attributes
  std::vector<std::string> remarks{};  // what must not be overlooked: "set-user-id", "runs by itself: a git hook"
};

struct ChangeConflict {
  std::string path{};
  std::string why{};  // "it was changed in the base"
};

// Selects changes. A path selects itself and what is below it, a pattern with `*`, `?` or `[` what it matches; relative
// ones start at the top of the tree. Without paths, all are selected. A path that matches nothing is kNotFound.
struct ChangesFilter {
  std::vector<std::string> paths{};
  std::vector<std::string> excluded{};
};

// What to do if a file was changed in the base, too, since the agent saw it. A file that git has not merged in the
// session, with conflict markers in it, is a conflict, too: only kTakeAgent writes it.
enum class OnConflict : std::uint8_t {
  kStop = 1,       // write nothing, and return the conflicts
  kMerge = 2,      // merge text files; kStop where both changed the same lines
  kMark = 3,       // as kMerge, but write such lines between conflict markers
  kTakeAgent = 4,  // overwrite with the agent's version
};

// Files that programs run without being asked to, the next time somebody works in the base: git hooks, .envrc.
enum class SelfRunning : std::uint8_t { kRefuse = 1, kApply = 2 };

enum class Rehearse : std::uint8_t { kNo = 1, kYes = 2 };

struct ApplyOptions {
  std::vector<std::string> paths{};  // as in ChangesFilter
  std::vector<std::string> excluded{};
  OnConflict on_conflict = OnConflict::kStop;
  SelfRunning self_running = SelfRunning::kRefuse;
  // An agent file from elsewhere names a base that nobody here has agreed to. Then nothing is written (kDenied) unless
  // this is the base's path.
  std::string trusted_base{};
  Rehearse rehearse = Rehearse::kNo;  // kYes: do everything but write
};

struct ApplyResult {
  std::vector<Change> applied{};            // with what they need: a new directory above a new file
  std::vector<ChangeConflict> conflicts{};  // if there are any, nothing was written
  std::vector<std::string> merged{};        // paths
  std::vector<std::string> marked{};        // paths of files that have conflict markers now
  std::vector<std::string> notes{};         // for people: what was left out, or could not be kept exactly
  bool can_be_undone = false;               // by `warren undo`
};

struct ChangesOptions {
  // A session ("fix", or "session:fix" whatever else is called so), an agent in ./.agentfs, or the path of an agent
  // file.
  std::string id{};
};

// The changes of one agent. Thread-safe; each call opens the agent, and sees what other processes have done.
//
// What is in a .git directory of the base is not part of the changes unless a path names it. The agent's commits arrive
// by `warren apply`.
class Changes {
 public:
  // kNotFound; kInvalid for an agent without a base.
  static Result<std::unique_ptr<Changes>> open(const ChangesOptions& options);
  ~Changes();
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  const std::string& base() const;  // the directory

  Result<std::vector<Change>> list(const ChangesFilter& filter = {});  // sorted by path
  // For `git apply` and `patch -p1`: content and executable bits of files and links, against what the agent saw. At
  // most 256 MiB (kTooLarge).
  Result<std::string> patch(const ChangesFilter& filter = {});

  // Writes changes to the base: all of them or none, even after a crash; they are no longer changes then. First
  // finishes an apply that was interrupted. kDenied: see ApplyOptions; kBusy while another process applies to the same
  // base.
  Result<ApplyResult> apply(const ApplyOptions& options = {});

  // Drops changes, with those that cannot stay without them, so that the base's nodes show again. Returns them.
  Result<std::vector<Change>> discard(const ChangesFilter& filter = {});

 private:
  struct State;
  explicit Changes(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace warren::v1
