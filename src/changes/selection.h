// Some of the changes, and those that cannot be left out when these are taken.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "changes/changes.h"

namespace warren {

// The changes outlive it.
class Selection {
 public:
  explicit Selection(const std::vector<TreeChange>& all);

  void take(std::size_t index);
  void take_if(const ChangeFilter& filter);  // an empty one takes all
  // For dropping: what is below an added, renamed or deleted directory, what shares a path with something
  // taken, and what stands where a renamed or deleted node or a directory above it was.
  void complete_for_discard();
  // For writing to the base: directories that were added above something taken, what is below a deleted
  // directory, and what the base has where something goes.
  void complete_for_apply();

  bool has(std::size_t index) const { return taken_[index]; }
  std::vector<TreeChange> list() const;
  std::vector<std::size_t> with_path(std::string_view path) const;

 private:
  void take_below(std::string_view dir);
  void take_path(std::string_view path);
  void take_above(std::string_view path);
  void take_place(const std::string& base_path);
  void take_moved_from(const std::string& base_dir);
  void take_covers(std::string_view base_path);

  const std::vector<TreeChange>& all_;  // by path
  std::vector<bool> taken_;
  std::vector<std::size_t> pending_;  // taken, and not looked at yet
  std::unordered_multimap<std::string_view, std::size_t> by_place_;
  std::map<std::string_view, std::size_t> moved_from_;                   // renamed nodes by where they were
  std::unordered_multimap<std::string_view, std::size_t> by_base_path_;  // what left the name: deleted, renamed
};

}  // namespace warren
