// What `git diff-tree --raw -z` prints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace warren {

inline constexpr std::string_view kGitNoMode = "000000";  // there is nothing
inline constexpr std::string_view kGitTreeMode = "040000";
inline constexpr std::string_view kGitProgramMode = "100755";
inline constexpr std::string_view kGitLinkMode = "120000";
inline constexpr std::string_view kGitSubmoduleMode = "160000";

struct RawDiff {
  std::string path;  // "src/a"
  std::string old_mode;
  std::string new_mode;
  std::string old_id;  // zeros if it is not there
  std::string new_id;

  bool was_there() const { return old_mode != kGitNoMode; }
  bool is_there() const { return new_mode != kGitNoMode; }
};

// Without renames, which have two paths. What is not in that format ends the list.
std::vector<RawDiff> parse_raw_diff(std::string_view text);

}  // namespace warren
