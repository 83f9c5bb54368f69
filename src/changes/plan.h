// From changes to steps: stages the new content in the base, and says what is to be done with it.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "changes/changes.h"
#include "changes/intent.h"
#include "changes/stage.h"
#include "changes/staging.h"
#include "os/host_tree.h"

namespace warren {

using MergedContents = std::map<std::string, std::string>;  // by path: what goes to the base instead

// For one apply. Only the staging directories are written.
class Planner {
 public:
  Planner(HostTree& base, Stager& stager, Staging& staging) : base_(base), stager_(stager), staging_(staging) {
    intent_.staging = staging.name();
  }

  // `changes` by path and complete (Selection::complete_for_apply). kConflict when the base is no longer what
  // was listed, kCrossDevice when a mount point is in the way. What was staged is on the disk.
  Result<Intent> plan(const std::vector<TreeChange>& changes, const MergedContents& contents);

  // The same errors, as far as they show before anything is written. The staging is an imagined one.
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
  void sort_steps();
  Status sync();

  HostTree& base_;
  Stager& stager_;
  Staging& staging_;
  Intent intent_;
  std::unordered_map<std::string, std::uint64_t> deleted_dirs_;  // base path → nodes that go with it
  std::unordered_map<std::string, std::string> staged_dirs_;     // path of a new directory → where it is staged
  std::unordered_map<std::string, std::string> renamed_dirs_;    // path → base path
  std::unordered_set<std::string> leaving_dirs_;                 // base paths of those that are deleted or renamed
};

}  // namespace warren
