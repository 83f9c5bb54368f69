// The file-by-file work of changes/merge/session_merge.h.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"
#include "changes/merge/session_merge.h"
#include "changes/review/patch.h"
#include "changes/upper/tree_finder.h"

namespace warren {

// For one thread and one call of run(). Both overlays must outlive it.
class SessionMerger {
 public:
  SessionMerger(const AgentOverlay& first, const AgentOverlay& second, const SessionMergeOptions& options)
      : first_(first), second_(second), options_(options), finder_(first.merged) {}

  // `theirs`: the changes of the second agent that are to be merged, sorted.
  Result<SessionMerge> run(const std::vector<TreeChange>& theirs);

 private:
  using Moves = std::map<std::string, std::string, std::less<>>;
  using Paths = std::set<std::string, std::less<>>;
  enum class Keep { kFirst, kSecond, kBoth };

  // A file of the second agent, and where it belongs in the first.
  struct Job {
    const ChangedFile& file;
    std::string at;    // the same file in the first agent now; "" if the second has added it
    std::string goal;  // where it is to be; "" if the second has deleted it
  };

  Status read_first();
  // Where a node of the base is in the first agent, by the renames of directories and files.
  std::string place_of(std::string_view base_path) const;
  bool is_deleted_with_dir(std::string_view base_path) const;
  std::string base_of(std::string_view path) const;  // of a path of the second agent
  std::string place_of_path(std::string_view path) const;
  std::string goal_of(std::string_view path) const;
  bool is_touched(std::string_view base_path) const { return touched_.contains(base_path); }

  Result<std::optional<Attributes>> find(std::string_view path);
  Result<std::optional<Attributes>> find_base_node(std::string_view base_path);  // in the first agent
  void forget() { finder_.clear(); }

  void keep_renamed_dirs(const std::vector<TreeChange>& theirs);
  Status take_directories(const std::vector<TreeChange>& theirs);
  Status take_renamed_dir(const TreeChange& change);
  void note_moved(const std::string& base_path, const std::string& from, const std::string& goal);
  std::string why_not_to(const TreeChange& change, const std::string& from, const std::string& goal) const;
  Status bring_back_dir(const TreeChange& change);
  Status take_dirs_of(const TreeChange& change);
  // base_path: "" if the second agent has added it.
  Status copy_dir(const std::string& path, const std::string& base_path, const Attributes& theirs,
                  const std::string& goal);
  Status take_added_dir(const TreeChange& change);
  Status remove_left_dirs(const std::vector<TreeChange>& theirs);
  Status remove_if_empty(const std::string& dir);
  Result<bool> make_parents(const std::string& path);  // false: something that is not a directory is in the way

  Status take_special(const TreeChange& change);
  Status take_file(const ChangedFile& file);
  bool is_placed_by_second(const ChangedFile& file) const;
  Status take_deleted(const Job& job);
  Status take_added(const Job& job);
  Status take_changed(const Job& job);
  Status bring_back_file(const Job& job);
  Result<bool> free_goal(const std::string& at, const std::string& goal, const std::string& why);
  Status move_to_goal(Job& job);  // or it stays where the first agent has it
  Status take_content(const Job& job);
  Status take_metadata(const TreeChange& change, const std::string& path);
  using Xattrs = std::map<std::string, std::optional<std::string>>;  // nullopt: to be removed
  struct XattrPlan {
    Xattrs wanted;     // in the first agent
    Xattrs contested;  // both have changed these: the second agent's values
  };
  Result<XattrPlan> plan_xattrs(const TreeChange& change, const std::string& path);
  Status write_xattrs(const std::string& path, const Xattrs& wanted);

  Status merge_contents(const Job& job, const std::optional<std::string>& ancestor, std::string_view why);
  Result<std::optional<std::string>> find_ancestor(const Job& job);
  Status replace(const Job& job, const std::string& path);  // by the second agent's node
  Status put_beside(const Job& job, const std::string& path, SessionConflict& conflict);

  // Records a conflict and returns what to do about it.
  Keep settle(std::string path, std::string why);
  // The conflict last recorded: the second agent's version has no place, so it was neither taken nor kept.
  void leave_out(std::string_view outcome);
  SessionConflict& last() { return report_.conflicts.back(); }
  // Where neither the content of both can be kept nor merged: one of both, or with kMark both side by side.
  Status choose(const Job& job, std::string_view why);

  const AgentOverlay& first_;
  const AgentOverlay& second_;
  const SessionMergeOptions& options_;
  TreeFinder finder_;  // in the first agent's tree
  SessionMerge report_;
  Moves moves_;                       // base path → path in the first agent
  Moves their_moves_;                 // path in the second agent → base path
  Moves dirs_;                        // directories that the second added or renamed → where
  Paths touched_;                     // base paths that the first has changed, moved or deleted
  Paths deleted_dirs_;                // of these, deleted directories
  Paths kept_dirs_;                   // base paths of directories whose deletion by the second is not taken
  Paths brought_back_;                // renamed directories of the second that the first has deleted
  std::vector<std::string> emptied_;  // old paths of renamed directories
  std::unordered_map<std::uint64_t, std::string> written_;  // added files with several names → the first one
};

}  // namespace warren
