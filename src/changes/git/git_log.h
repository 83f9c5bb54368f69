// Logs of references of a repository inside a tree (`.git/logs`), read as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fs/file_system.h"

namespace warren {

namespace limits {
inline constexpr std::uint64_t kGitLogBytes = std::uint64_t{16} << 20;         // of one
inline constexpr std::uint64_t kGitBranchLogsBytes = std::uint64_t{32} << 20;  // of all branches
}  // namespace limits

// A reference moved.
struct LogEntry {
  std::string from;  // an object's id
  std::string to;
  std::string message;  // "commit (amend): text"

  bool operator==(const LogEntry&) const = default;
};

// By the message: whether the command has written the files of the commit to the work tree, as merge and checkout do,
// or has made the commit of what was in the index. A reset may be neither.
bool writes_files(const LogEntry& entry);
bool makes_commit(const LogEntry& entry);

// Oldest first. Lines that are not entries are skipped.
std::vector<LogEntry> parse_git_log(std::string_view text);

// The logs of the branches, below "/.git/logs/refs/heads". If these are too many or too large together, always the same
// ones of them.
std::vector<std::string> list_branch_logs(FileSystem& fs);

// Nothing if there is no such log, or it cannot be read or is above the limit.
std::vector<LogEntry> read_git_log(FileSystem& fs, const std::string& path);

}  // namespace warren
