// Where an apply keeps what comes and what goes: a directory in the base's top, and one of the same name in the top of
// each other mount below it that is written to, since nothing can be renamed from one to another.
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

// For one apply. The base must be locked, and outlive it.
class Staging {
 public:
  static Result<Staging> make(HostTree& base, Store& store);
  static Result<Staging> imagine(HostTree& base);  // nothing is written
  bool is_imagined() const { return name_.empty(); }

  const std::string& name() const { return name_; }
  const std::vector<std::string>& tops() const { return tops_; }  // as in Intent

  // A new slot on the mount that has this directory of the base.
  Result<std::uint64_t> new_slot(std::string_view dir);
  // The directory in which that mount begins; "/" for the base's own.
  Result<std::string> top_of(std::string_view dir);

  // All of them. What is left after an error the next command removes.
  static Status remove(HostTree& base, const std::string& name, const std::vector<std::string>& tops);

  // Those of the agent's that nobody needs: an apply that never began, or that ended before it had tidied up, left
  // them.
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
