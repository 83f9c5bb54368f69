// What an apply will do, written down before it does it: enough to go on after a crash, and to go back.
//
// New content waits in a staging directory in the base's top (or that of its own filesystem), and what it replaces is
// kept there until the end, each under the number of its slot. First everything that leaves its name goes to a slot,
// deepest first, by the names the base has; then everything comes to its new name, from the top down. So a chain or a
// circle of renames needs no order. Each step tells by looking whether it was done.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/changes.h"
#include "os/host_tree.h"

namespace warren {

// What the names of staging directories begin with.
inline constexpr std::string_view kStagingPrefix = ".warren-apply-";

// Stored. Never renumber.
enum class StepKind : std::uint8_t {
  kTakeOut = 1,      // path → slot
  kPutIn = 2,        // slot → path, where nothing is
  kReplace = 3,      // slot → path, whose old node goes to `backup`
  kSetMetadata = 4,  // of path
  kOverwrite = 5,    // content of slot into the node of path, which has other names; the old is in `backup`
};

struct Step {
  StepKind kind = StepKind::kTakeOut;
  std::string path;
  std::uint64_t slot = 0;
  std::uint64_t backup = 0;
  HostNode old_node;        // at path before; none for kPutIn
  HostNode new_node;        // in the slot; for kPutIn and kReplace
  std::uint64_t nodes = 0;  // of what kTakeOut takes, all counted; 0: not looked at
  HostMetadata before;      // kSetMetadata, kOverwrite
  HostMetadata after;

  bool operator==(const Step&) const = default;
};

// A change as it was when it was staged, to be taken out of the upper layer.
struct AppliedChange {
  TreeChangeKind kind = TreeChangeKind::kModified;
  std::string path;
  std::string base_path;  // where the base had it
  std::uint32_t type = 0;
  Inode upper;  // 0: it was deleted
  std::uint64_t size = 0;
  Timestamp mtime;
  Timestamp ctime;

  bool operator==(const AppliedChange&) const = default;
};

struct Intent {
  std::string staging;  // name in the base's top
  std::vector<Step> steps;
  // Directories of the base in which other filesystems begin that are written to. Each has a staging directory of the
  // same name; the n-th one, counted from 1, has the slots from n * kSlotsPerTop on.
  std::vector<std::string> tops;
  std::vector<AppliedChange> changes;

  bool operator==(const Intent&) const = default;
};

inline constexpr std::uint64_t kSlotsPerTop = std::uint64_t{1} << 40;

std::string encode(const Intent& intent);
Result<Intent> decode_intent(std::string_view bytes);  // kCorrupt

}  // namespace warren
