#include "changes/git/git_log.h"

#include <algorithm>
#include <iterator>

#include "changes/git/git.h"
#include "changes/git/git_refs.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"

namespace warren {

bool writes_files(const LogEntry& entry) {
  constexpr std::string_view kWithFiles[] = {"merge", "rebase", "pull", "checkout", "commit (merge)"};
  return std::any_of(std::begin(kWithFiles), std::end(kWithFiles),
                     [&](std::string_view action) { return entry.message.starts_with(action); });
}

bool makes_commit(const LogEntry& entry) {
  constexpr std::string_view kMaking[] = {"commit", "cherry-pick", "revert", "am:"};
  return std::any_of(std::begin(kMaking), std::end(kMaking),
                     [&](std::string_view action) { return entry.message.starts_with(action); });
}

// "<from> <to> <who> <seconds> <zone>\t<message>"
std::vector<LogEntry> parse_git_log(std::string_view text) {
  std::vector<LogEntry> entries;
  for_each_line(text, [&](std::string_view line) {
    std::size_t first = line.find(' ');
    if (first == line.npos) return;
    std::string_view from = line.substr(0, first);
    std::string_view to = line.substr(first + 1).substr(0, first);
    if (!is_object_id(from) || !is_object_id(to)) return;
    std::size_t tab = line.find('\t');
    std::string_view message = tab == line.npos ? std::string_view() : line.substr(tab + 1);
    entries.push_back({std::string(from), std::string(to), std::string(message)});
  });
  return entries;
}

std::vector<std::string> list_branch_logs(FileSystem& fs) {
  std::vector<std::string> paths;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  walk(fs, "/.git/logs/refs/heads", [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (++count > limits::kGitRefs) return WalkNext::kStop;
    if (!entry.attributes.is_file() || entry.attributes.size > limits::kGitBranchLogsBytes - bytes)
      return WalkNext::kContinue;
    bytes += entry.attributes.size;
    paths.push_back(entry.path);
    return WalkNext::kContinue;
  }).ignore("without a log, what a rebase has replaced counts as lost");
  return paths;
}

std::vector<LogEntry> read_git_log(FileSystem& fs, const std::string& path) {
  Result<std::string> text = read_file(fs, path, {.size_bytes_max = limits::kGitLogBytes});
  return text.ok() ? parse_git_log(*text) : std::vector<LogEntry>();
}

}  // namespace warren
