// The base as the steps of an intent see it: where their nodes are, and whether somebody else has changed them. What
// performing the steps and rolling them back have in common.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "changes/apply/intent.h"
#include "os/files/host_tree.h"

namespace warren {

// Every directory that has a staging directory, the base's root first.
std::vector<std::string> tops_of(const Intent& intent);

Status sync_all(HostTree& base, const Intent& intent);  // syncs the filesystem of each

// "/.warren-apply-…/7"
std::string slot_path(const Intent& intent, std::uint64_t slot);

// Step::content of what is at this path.
Result<std::uint64_t> fingerprint_step(HostTree& base, StepKind kind, const std::string& at,
                                       const std::unordered_set<std::string>& skipped = {});

// Whether it is this node, with whatever content.
bool is_node(const HostNode& node, const struct stat& info);

// The files of a kOverwrite.
struct InPlaceFiles {
  Fd target;  // not open if the node is no longer there
  struct stat info {};
  Fd fresh;
  Fd old;
};

// Both must outlive it. For one thread.
class StepTree {
 public:
  StepTree(HostTree& base, const Intent& intent);

  HostTree& base() { return base_; }
  std::string slot(std::uint64_t number) const { return slot_path(intent_, number); }

  // The step that puts in what is in this slot; null.
  const Step* find_put_in(std::uint64_t slot) const;
  // The step that puts in the nearest directory above the path that one does; null.
  const Step* find_put_in_above(std::string_view path) const;
  // The path that the node in this slot had before a step took it out; null if it was staged.
  const std::string* find_taken(std::uint64_t slot) const;
  // Where a node may be: its path, and if that is below a renamed node, its path in that one's slot and its old path.
  std::vector<std::string> places_of(const std::string& path) const;

  // Whether the node that a step takes out is unchanged, except by other steps through another name.
  bool is_as_planned(const Step& step, const struct stat& info) const;
  // Whether a node that is changed in place is as it was planned, or as one of the steps has left it.
  bool is_known(const Step& step, const struct stat& info) const;

  Result<InPlaceFiles> open_in_place(const Step& step, const std::string& at);
  // Whether the content is the old one, the new one, or what we have written of either.
  static Result<bool> is_our_content(const InPlaceFiles& files);
  Status write_in_place(const std::string& at, const InPlaceFiles& files, int source, const HostMetadata& metadata);

  // Exchanges the two; the path may have been removed meanwhile.
  Status swap_back(const std::string& from, const std::string& path);

  void touch(std::string_view path);                                    // the entry has changed
  void set_changed(const std::string& path) { changed_.insert(path); }  // its metadata has
  Status sync();                                                        // all of them

 private:
  Result<bool> sync_node(const std::string& path);

  HostTree& base_;
  const Intent& intent_;
  std::unordered_map<std::uint64_t, const Step*> put_in_;                 // by slot
  std::unordered_map<std::string_view, const Step*> put_in_at_;           // by path
  std::unordered_map<std::uint64_t, std::string> taken_;                  // slot → the path that the node had
  std::unordered_map<std::string, std::uint64_t> renamed_;                // of renamed nodes: new path → slot
  std::unordered_map<std::uint64_t, std::vector<const Step*>> in_place_;  // by inode
  std::set<std::string> touched_;                                         // directories whose entries changed
  std::set<std::string> changed_;                                         // nodes whose metadata was set
};

}  // namespace warren
