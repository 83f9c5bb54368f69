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
  std::string place_of(std::string_view base_path) const { return moved_path(moves_, base_path); }
  bool is_deleted(std::string_view base_path) const;  // by the first agent
  // Of a path of the second agent.
  std::string base_of(std::string_view path) const { return moved_path(their_moves_, path); }
  static std::string moved_path(const Moves& moves, std::string_view path);
  std::string place_of_path(std::string_view path) const;
  std::string goal_of(std::string_view path) const;
  bool is_touched(std::string_view base_path) const { return touched_.contains(base_path); }

  Result<std::optional<Attributes>> find(std::string_view path);
  Result<std::optional<Attributes>> find_base_node(std::string_view base_path);  // in the first agent
  void forget() { finder_.clear(); }

  void keep_renamed_dirs(const std::vector<TreeChange>& theirs);
  Status take_directories(const std::vector<TreeChange>& theirs);
  Status take_renamed_dir(const TreeChange& change);
  Status bring_back_dir(const TreeChange& change);
  Status take_dirs_of(const TreeChange& change);
  Status take_added_dir(const TreeChange& change);
  Status take_dir_metadata(const TreeChange& change);
  Status remove_left_dirs(const std::vector<TreeChange>& theirs);
  Result<bool> remove_if_empty(const std::string& dir);
  Result<bool> make_parents(const std::string& path);  // false: something that is not a directory is in the way

  // session_merger_moves.cc
  Result<bool> uses_names_again(const std::vector<TreeChange>& theirs);
  Status make_shelf();
  Status lift_renamed(const std::vector<TreeChange>& theirs);
  Status return_blocked(const std::vector<TreeChange>& theirs);
  Status clear_shelf();
  std::string home_of(const std::string& home) const;
  struct Shelved {
    std::string base_path;
    std::string_view below;  // the rest of the path; "" for what was lifted itself
  };
  std::optional<Shelved> find_shelved(const std::string& path) const;
  std::string shown(const std::string& path) const;
  std::optional<std::string> final_place_of(std::string path) const;
  Status return_home(const std::string& base_path);
  Status put_back(const std::string& base_path, std::string home);
  struct Move {
    std::string base_path;
    std::string at;    // where the first agent has it
    std::string goal;  // where the second agent's name for it leads to
    bool is_dir = false;
  };
  Result<std::string> find_obstacle(const Move& move, bool may_unite);
  Result<std::string> find_in_the_way(const std::string& goal, bool may_unite);
  Result<bool> may_move(const Move& move);
  Status move_file(const std::string& base_path, const std::string& from, const std::string& goal);
  Status move_dir(const std::string& from, const std::string& goal);
  Status unite_child(const std::string& from, const std::string& goal, bool is_dir);
  Result<bool> is_another_file(const std::string& path);
  std::string base_of_first(const std::string& path) const;
  void follow(const std::string& from, const std::string& goal);
  void note_moved(const std::string& base_path, const std::string& from, const std::string& goal);

  Status remove_special(const TreeChange& change);
  Status add_special(const TreeChange& change);
  Status move_special(const TreeChange& change);
  Status take_file(const ChangedFile& file);
  bool is_placed_by_second(const ChangedFile& file) const;
  Status take_deleted(const Job& job);
  Status take_added(const Job& job);
  Status take_changed(const Job& job);
  Status bring_back_file(const Job& job);
  Status move_to_goal(Job& job);
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
  Status replace_theirs(const Job& job);
  Status put_beside(const Job& job, const std::string& path, SessionConflict& conflict);

  // Records a conflict and returns what to do about it.
  Keep settle(const std::string& path, std::string why);
  // The conflict last recorded: the second agent's version has no place, so it was neither taken nor kept.
  void leave_out(std::string_view outcome);
  void say_left_out(const std::string& goal);
  SessionConflict& last() { return report_.conflicts.back(); }
  // Where neither the content of both can be kept nor merged: one of both, or with kMark both side by side.
  Status choose(const Job& job, std::string_view why);

  const AgentOverlay& first_;
  const AgentOverlay& second_;
  const SessionMergeOptions& options_;
  TreeFinder finder_;  // in the first agent's tree
  SessionMerge report_;
  Moves moves_;             // base path → path in the first agent, now
  Moves their_moves_;       // path in the second agent → base path
  Moves their_names_;       // the reverse
  Moves dirs_;              // directories that the second added or renamed → where
  Paths added_dirs_;        // of the second agent
  Paths touched_;           // base paths that the first has changed, moved or deleted
  Paths renamed_by_first_;  // of these
  Paths deleted_;           // of these; and directories that are removed because the second has deleted them
  Paths kept_dirs_;         // base paths of directories whose deletion by the second is not taken
  Paths brought_back_;      // renamed directories of the second that the first has deleted
  Paths stays_;             // base paths whose new name by the second is not taken, which was reported
  std::map<std::string, Attributes, std::less<>> removed_;  // directories of the first that are gone
  std::string shelf_;                                       // "" if there is none
  Moves homes_;                     // base path of what was lifted → path in the first agent before
  Moves lifted_at_;                 // the reverse
  std::vector<std::string> slots_;  // base paths of what was lifted, by its name on the shelf
  std::unordered_map<std::uint64_t, std::string> written_;  // added files with several names → the first one
};

}  // namespace warren
