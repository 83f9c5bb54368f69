// A selection of changes, completed by the changes that it depends on.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "changes/changes.h"

namespace warren {

// The changes must outlive it.
class Selection {
 public:
  using Indexes = std::vector<std::size_t>;

  explicit Selection(const std::vector<TreeChange>& all);

  void take(std::size_t index);
  void leave(std::size_t index);
  void take_if(const ChangeFilter& filter);  // an empty filter takes all
  // Adds changes that cannot stay if the taken ones are dropped: those below an added, renamed or deleted directory,
  // those that share a path with a taken one, and nodes at the old name of a taken node or of a directory above it.
  void complete_for_discard();
  // Adds changes that the taken ones need in the base: added directories above them, everything below a deleted
  // directory, and deletions or renames that make room at a destination.
  void complete_for_apply();

  bool has(std::size_t index) const { return taken_[index]; }
  std::vector<TreeChange> list() const;
  Indexes with_path(std::string_view path) const;
  // What complete_for_apply adds for this one, before it looks at what those need. It can name `index` itself.
  Indexes list_needed(std::size_t index) const;

 private:
  void take_all(const Indexes& indexes);
  std::optional<std::size_t> next_pending();
  Indexes list_below(std::string_view dir) const;
  Indexes list_made_above(std::string_view path) const;
  Indexes list_at_place(std::string_view base_path) const;
  Indexes list_moved_from(const std::string& base_dir) const;
  Indexes list_covers(std::string_view base_path) const;

  const std::vector<TreeChange>& all_;  // by path
  std::vector<bool> taken_;
  Indexes pending_;  // not processed yet: what was taken, and may have been left again
  std::unordered_multimap<std::string_view, std::size_t> by_place_;
  std::map<std::string_view, std::size_t> moved_from_;                   // renamed nodes by their base path
  std::unordered_multimap<std::string_view, std::size_t> by_base_path_;  // deleted and renamed nodes
};

}  // namespace warren
