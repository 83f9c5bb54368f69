// From changes to steps: stages the new content in the base, and says what is to be done with it.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "changes/changes.h"
#include "changes/intent.h"
#include "changes/stage.h"
#include "os/host_tree.h"

namespace warren {

using MergedContents = std::map<std::string, std::string>;  // by path: what goes to the base instead

// For one apply. Only the staging directory is written, which the caller has made.
class Planner {
 public:
  Planner(HostTree& base, Stager& stager, std::string staging) : base_(base), stager_(stager) {
    intent_.staging = std::move(staging);
  }

  // `changes` by path and complete (Selection::complete_for_apply). kConflict when the base is no longer what
  // was listed, kCrossDevice when a part of it is on another filesystem. What was staged is on the disk.
  Result<Intent> plan(const std::vector<TreeChange>& changes, const MergedContents& contents);

 private:
  Status add(const TreeChange& change, const std::string* content);
  Status add_deleted(const TreeChange& change);
  Status add_renamed(const TreeChange& change, const std::string* content);
  Status add_modified(const TreeChange& change, const std::string* content);
  Status add_new(const TreeChange& change, const std::string* content);
  Status add_overwrite(const TreeChange& change, const HostNode& old_node, const std::string* content);
  Status add_metadata(const TreeChange& change, const HostNode& old_node);
  Result<HostNode> known_node(const TreeChange& change);
  Status check_parent(std::string_view path);
  Result<HostNode> stage(const TreeChange& change, std::uint64_t slot, const std::string* content);
  void count_deleted(const std::vector<TreeChange>& changes);
  void sort_steps();
  Status sync();

  HostTree& base_;
  Stager& stager_;
  Intent intent_;
  std::uint64_t next_slot_ = 1;
  std::unordered_map<std::string, std::uint64_t> deleted_dirs_;  // base path → nodes that go with it
  std::unordered_map<std::string, std::string> staged_dirs_;     // path of a new directory → where it is staged
  std::unordered_map<std::string, std::string> renamed_dirs_;    // path → base path
};

}  // namespace warren
