// What a reader of a diff must not overlook: new privileges, devices, files that run by themselves,
// and work of the user's that is taken back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/apply/stage.h"
#include "changes/changes.h"

namespace warren {

// A file that programs run, or that makes them run something, the next time the user works in the directory, without
// being asked to run it: "a git hook". Judges by the path alone; nullopt for all others.
std::optional<std::string_view> runs_by_itself(std::string_view path);

// Whether a directory or link of this name would hold such files: ".vscode".
bool holds_what_runs(std::string_view path);

struct Remarks {
  std::vector<std::string> privileges;  // "set-user-id", "block device 8:0", "security.capability"
  std::string runs;                     // why it runs by itself; "" if it does not
  bool is_opened = false;               // its mode now lets everybody write it
  bool takes_back_work = false;         // TreeChange::takes_back_work
  bool is_in_git = false;               // at or in a .git directory: `apply --as-branch` leaves it out

  std::vector<std::string> list() const;
};
// Of a package.json only the scripts count; a deleted file has no remarks, except that it takes back work.
Result<Remarks> remarks_of(const AgentOverlay& overlay, const TreeChange& change);

// Removes device nodes that are not in `privileged`, with whatever else has their path. Returns a note for each.
std::vector<std::string> leave_out_devices(std::vector<TreeChange>& changes, const PrivilegedPaths& privileged);

}  // namespace warren
