// The staging directories of an apply: one in the base's root, and one of the same name in the root of each other mount
// below it that is written to, because nothing can be renamed across mounts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/intent.h"
#include "os/host_tree.h"
#include "store/store.h"

namespace warren {

// For one apply. The base must be locked and outlive it.
class Staging {
 public:
  static Result<Staging> make(HostTree& base, Store& store);
  static Result<Staging> dry_run(HostTree& base);  // writes nothing
  bool is_dry_run() const { return name_.empty(); }

  const std::string& name() const { return name_; }
  const std::vector<std::string>& tops() const { return tops_; }  // as in Intent

  // A new slot on the mount that contains this directory of the base.
  Result<std::uint64_t> new_slot(std::string_view dir);
  // The root of the mount that contains this directory; "/" for the base's own.
  Result<std::string> top_of(std::string_view dir);

  // Removes all of them. After an error, the next command removes the rest.
  static Status remove(HostTree& base, const std::string& name, const std::vector<std::string>& tops);

  // Staging directories of this agent that are no longer needed: left by an apply that never committed its intent, or
  // that ended before it cleaned up.
  static Result<bool> has_leftovers(HostTree& base, Store& store);
  static Status remove_leftovers(HostTree& base, Store& store);

 private:
  static Result<Staging> make_named(HostTree& base, std::string name);
  Staging(HostTree& base, std::string name) : base_(&base), name_(std::move(name)) {}
  Status add_top(const std::string& top);

  HostTree* base_;
  std::string name_;
  std::vector<std::string> tops_;
  std::map<std::uint64_t, std::string> top_of_mount_;
  std::uint64_t next_slot_ = 1;
};

}  // namespace warren
