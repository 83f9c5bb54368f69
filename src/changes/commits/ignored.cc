#include "changes/commits/ignored.h"

#include <set>
#include <string_view>
#include <unordered_set>

#include "base/limits.h"
#include "base/path.h"
#include "changes/git/git.h"
#include "changes/git/git_folder.h"
#include "changes/git/git_work_tree.h"
#include "changes/git/quarantine.h"
#include "changes/upper/tree_finder.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

constexpr std::uint64_t kRuleBytes = std::uint64_t{1} << 20;  // of one file

// The directories above the changes.
std::set<std::string> list_dirs_above(const std::vector<TreeChange>& changes) {
  std::set<std::string> dirs;
  for (const TreeChange& change : changes) {
    if (is_in_git_dir(change.path)) continue;
    for (std::string_view dir = split_parent(change.path).parent; dir != "/"; dir = split_parent(dir).parent) {
      if (!dirs.emplace(dir).second) break;
    }
  }
  return dirs;
}

// Gives a temporary work tree the rules of these directories.
Status write_rules(const AgentOverlay& overlay, const std::set<std::string>& dirs, Rules rules,
                   const std::string& work) {
  auto host = WARREN_TRY(HostTree::open(work));
  FileSystem& from = rules == Rules::kBase ? overlay.base : overlay.merged;
  auto write = [&](const std::string& path) -> Status {
    Result<Attributes> node = lstat(from, path);
    if (!node.ok() || !node->is_file() || node->size > kRuleBytes) return Ok{};
    std::string content = WARREN_TRY(read_file(from, path));
    return write_for_git(overlay, {.path = path, .node = *node}, *host, path.substr(1), content);
  };
  constexpr const char* kRules = ".gitignore";
  WARREN_TRY(write(join_path("/", kRules)));
  for (const std::string& dir : dirs) WARREN_TRY(write(join_path(dir, kRules)));
  return Ok{};
}

// Those of the changes and of the directories that a rule matches.
Result<std::unordered_set<std::string>> list_matching(const AgentOverlay& overlay,
                                                      const std::vector<TreeChange>& changes, Rules rules) {
  std::set<std::string> dirs = list_dirs_above(changes);
  ScratchDir scratch = WARREN_TRY(ScratchDir::make("ignored"));
  std::string work = scratch.path() + "/work";
  WARREN_TRY(make_host_dirs(work, 0700));
  WARREN_TRY(write_rules(overlay, dirs, rules, work));
  std::string names;
  for (const std::string& dir : dirs) names += dir.substr(1) + "/" + '\0';
  for (const TreeChange& change : changes) {
    if (is_in_git_dir(change.path)) continue;
    const char* end = change.node().is_directory() ? "/" : "";
    names += change.path.substr(1) + end + '\0';
    if (change.kind == TreeChangeKind::kRenamed) names += change.base_path.substr(1) + end + '\0';
  }
  Git in_base(overlay.base_path);
  std::string git_dir = WARREN_TRY(in_base.ask({"rev-parse", "--absolute-git-dir"}));
  Git git(work);
  git.set_limit(limits::kGitTime);
  git.use(git_dir, work, scratch.path() + "/index");  // an empty one
  std::unordered_set<std::string> found;
  Result<std::string> matching = git.ask_with({"check-ignore", "--no-index", "-z", "--stdin"}, names);
  if (!matching.ok()) return found;  // so it does if there are none
  for (std::string& name : split_at_nul(*matching)) {
    if (name.ends_with('/')) name.pop_back();
    found.insert("/" + name);
  }
  return found;
}

std::string topmost_of(const std::string& path, const std::unordered_set<std::string>& matching) {
  for (std::size_t end = path.find('/', 1); end != path.npos; end = path.find('/', end + 1)) {
    std::string dir = path.substr(0, end);
    if (matching.contains(dir)) return dir;
  }
  return matching.contains(path) ? path : std::string();
}

Result<std::unordered_set<std::string>> list_tracked(const std::string& base) {
  Git git(base);
  git.set_limit(limits::kGitTime);
  std::string listed = WARREN_TRY(git.ask({"ls-files", "-z"}));
  std::unordered_set<std::string> tracked;
  for (const std::string& name : split_at_nul(listed)) tracked.insert("/" + name);
  return tracked;
}

}  // namespace

Result<IgnoredPaths> find_ignored(const AgentOverlay& overlay, const std::vector<TreeChange>& changes, Rules rules) {
  IgnoredPaths ignored;
  TreeFinder base(overlay.base);
  if (changes.empty() || !WARREN_TRY(base.find("/.git"))) return ignored;
  std::unordered_set<std::string> matching = WARREN_TRY(list_matching(overlay, changes, rules));
  if (matching.empty()) return ignored;
  std::unordered_set<std::string> tracked = WARREN_TRY(list_tracked(overlay.base_path));
  for (const TreeChange& change : changes) {
    bool is_tracked = tracked.contains(change.path) || tracked.contains(change.base_path);
    bool is_moved_there = change.kind == TreeChangeKind::kRenamed && topmost_of(change.base_path, matching).empty();
    std::string topmost = is_in_git_dir(change.path) ? std::string() : topmost_of(change.path, matching);
    if (!is_tracked && !is_moved_there && !topmost.empty()) ignored.emplace(change.path, std::move(topmost));
  }
  return ignored;
}

}  // namespace warren
