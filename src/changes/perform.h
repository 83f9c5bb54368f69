// Performs an intent on the base, and undoes it.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "changes/intent.h"
#include "os/host_tree.h"

namespace warren {

// Every directory that has a staging directory, the base's root first.
std::vector<std::string> tops_of(const Intent& intent);

Status sync_all(HostTree& base, const Intent& intent);  // syncs the filesystem of each

// "/.warren-apply-…/7"
std::string slot_path(const Intent& intent, std::uint64_t slot);

// Step::content of what is at this path.
Result<std::uint64_t> fingerprint_step(HostTree& base, StepKind kind, const std::string& at,
                                       const std::unordered_set<std::string>& skipped = {});

// Performs the steps that are not done yet; may be called again after a crash or an error, but not after roll_back has
// begun. kConflict if somebody else changed a node meanwhile: then only some steps are done. On success everything is
// on disk.
Status perform(HostTree& base, const Intent& intent);

// A node that a rollback left as it is, because somebody else has changed it or taken its place.
struct LeftNode {
  std::string path;
  std::string why;    // and what was done: "it was changed meanwhile, so it was kept"
  std::string aside;  // the other version, by its path in the base; "" if there is none

  bool operator==(const LeftNode&) const = default;
};

// Undoes the steps that are done; may be called again after a crash or an error. What somebody has changed since a step
// wrote it stays where it is, and what would have replaced it stays in its slot. Returns those nodes.
Result<std::vector<LeftNode>> roll_back(HostTree& base, const Intent& intent);

// "'/a': it was changed meanwhile, so it was kept; the other version is '/.warren-apply-…/7' in the base"
std::string describe(const LeftNode& node);
std::string describe(const std::vector<LeftNode>& nodes);  // all of them, in one line

}  // namespace warren
