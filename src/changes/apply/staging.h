// The staging directories of an apply: one in the base's root, and one of the same name in the root of each other mount
// below it that is written to, because nothing can be renamed across mounts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/apply/apply_record.h"
#include "changes/apply/intent.h"
#include "os/files/host_tree.h"

namespace warren {

// For one apply. The base must be locked and outlive it.
class Staging {
 public:
  // The record must be stored: it is what allows the directory to be removed after a crash.
  static Result<Staging> make(HostTree& base, const ApplyRecord& record);
  static Result<Staging> dry_run(HostTree& base);  // writes nothing
  bool is_dry_run() const { return name_.empty(); }

  const std::string& name() const { return name_; }
  const std::vector<std::string>& tops() const { return tops_; }  // as in Intent

  // A new slot on the mount that contains this directory of the base.
  Result<std::uint64_t> new_slot(std::string_view dir);
  // The root of the mount that contains this directory; "/" for the base's own.
  Result<std::string> top_of(std::string_view dir);

  // Before an interrupted apply or undo is finished: without the staging directories it is impossible to tell which
  // steps were done. kUnavailable if a filesystem that has one is not mounted.
  static Status check_mounted(HostTree& base, const ApplyRecord& record);

  // Removes all of them, including those of a crashed apply. A directory that does not carry the mark of this record is
  // not ours, whatever its name is: kConflict, and it stays.
  static Status remove(HostTree& base, const ApplyRecord& record);

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
