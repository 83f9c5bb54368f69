#include "cli/changes/apply_state.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "crypto/digest.h"

namespace warren::cli {
namespace {

// A line; names have no line ends in it, since their sizes come first.
std::string state_line(const TreeChange& change) {
  std::string line = fmt::format("{} {}:{} {}:{}", change.letter(), change.path.size(), change.path,
                                 change.base_path.size(), change.base_path);
  if (!change.after) return line;
  const Attributes& node = *change.after;
  return line + fmt::format(" {:o} {} {} {}.{} {}.{} {}", node.mode, node.rdev, node.size, node.mtime.seconds,
                            node.mtime.nanoseconds, node.ctime.seconds, node.ctime.nanoseconds,
                            change.is_content_changed);
}

}  // namespace

std::string state_of_apply(const std::vector<TreeChange>& changes, const CommitsPlan* commits) {
  std::string all;
  for (const TreeChange& change : changes) all += state_line(change) + "\n";
  if (commits != nullptr && commits->taken) all += fmt::format("commit {} {}", commits->taken->commit, commits->branch);
  if (commits == nullptr) return sha256_hex(as_bytes(all));
  for (const MergedBranch& other : commits->others) {
    if (other.is_brought) all += fmt::format("\ncommit {} {}", other.branch.commit, other.branch.name);
  }
  return sha256_hex(as_bytes(all));
}

bool is_wanted_state(const Arguments& args, const std::string& state) {
  return args.find("if-state").value_or(state) == state;
}

Option if_state_option() {
  return {.name = "if-state",
          .value = "STATE",
          .help = "write nothing unless the changes are still those that a dry run with --json showed (its \"state\")"};
}

}  // namespace warren::cli
