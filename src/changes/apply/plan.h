// Turns changes into an intent: stages the new content in the base and makes the list of steps.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "changes/apply/intent.h"
#include "changes/apply/stage.h"
#include "changes/apply/staging.h"
#include "changes/changes.h"
#include "os/files/host_tree.h"

namespace warren {

// What to write instead of the agent's content.
struct MergedContent {
  std::string text;
  bool is_partial = false;   // the rest of the change stays one of the agent
  bool has_unseen = false;   // it contains work in the base that the agent has not seen
  bool has_markers = false;  // around what both have changed
};
using MergedContents = std::map<std::string, MergedContent>;  // by path

// For one apply. Writes only to the staging directories.
class Planner {
 public:
  Planner(HostTree& base, Stager& stager, Staging& staging) : base_(base), stager_(stager), staging_(staging) {
    intent_.staging = staging.name();
  }

  // `changes` must be sorted by path and complete (Selection::complete_for_apply). kConflict if the base has changed
  // since they were listed, kCrossDevice if a mount point is in the way. On return the staged content is on disk.
  Result<Intent> plan(const std::vector<TreeChange>& changes, const MergedContents& contents);

  // Returns the errors of plan() that can be found without writing. Needs a Staging::dry_run.
  Status rehearse(const std::vector<TreeChange>& changes, const MergedContents& contents);

 private:
  Status add_all(const std::vector<TreeChange>& changes, const MergedContents& contents);
  Status add(const TreeChange& change, const std::string* content);
  Status add_deleted(const TreeChange& change);
  Status add_renamed(const TreeChange& change, const std::string* content);
  Status add_modified(const TreeChange& change, const std::string* content);
  Status add_new(const TreeChange& change, const std::string* content);
  Status add_overwrite(const TreeChange& change, const HostNode& old_node, const std::string* content);
  Status add_metadata(const TreeChange& change, const HostNode& old_node);
  Status back_up(const TreeChange& change, std::uint64_t slot);
  Status write(const TreeChange& change, const std::string& at, const std::string* content);
  Result<HostNode> known_node(const TreeChange& change);
  Result<std::string> dir_around(std::string_view path);
  Result<std::uint64_t> new_slot(std::string_view dir);
  Result<bool> is_mount_point(std::string_view base_path);
  Status check_movable(std::string_view base_path);
  Result<HostNode> stage(const TreeChange& change, std::uint64_t slot, const std::string* content);
  void count_deleted(const std::vector<TreeChange>& changes);
  Status sync();

  HostTree& base_;
  Stager& stager_;
  Staging& staging_;
  Intent intent_;
  HostNode written_;  // AppliedChange::written of the change that is being added
  std::unordered_map<std::string, std::uint64_t> deleted_dirs_;  // base path → number of nodes in it
  std::unordered_map<std::string, std::string> staged_dirs_;     // path of a new directory → where it is staged
  std::unordered_map<std::string, std::string> renamed_dirs_;    // path → base path
  std::unordered_set<std::string> moved_out_;                    // base paths of renamed nodes
  std::unordered_set<std::string> leaving_dirs_;                 // base paths of deleted and renamed directories
};

}  // namespace warren
