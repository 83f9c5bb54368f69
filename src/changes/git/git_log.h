// Logs of references of a repository inside a tree (`.git/logs`), read as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fs/file_system.h"

namespace warren {

namespace limits {
inline constexpr std::uint64_t kGitLogBytes = std::uint64_t{16} << 20;
}  // namespace limits

// A reference moved.
struct LogEntry {
  std::string from;  // an object's id
  std::string to;
  std::string message;  // "commit (amend): text"
};

// Oldest first. Lines that are not entries are skipped.
std::vector<LogEntry> parse_git_log(std::string_view text);

// Nothing if there is no such log, or it cannot be read or is above the limit.
std::vector<LogEntry> read_git_log(FileSystem& fs, const std::string& path);

}  // namespace warren
