#include "changes/commits/ignored.h"

#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/limits.h"
#include "base/path.h"
#include "changes/git/git.h"
#include "changes/git/git_folder.h"
#include "changes/git/git_work_tree.h"
#include "changes/upper/tree_finder.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

constexpr std::uint64_t kRuleBytes = std::uint64_t{1} << 20;  // of one file

void add_dirs_above(std::string_view path, std::set<std::string>& dirs) {
  for (std::string_view dir = split_parent(path).parent; dir != "/"; dir = split_parent(dir).parent) {
    if (!dirs.emplace(dir).second) break;
  }
}

// A temporary work tree that has nothing but rules. In the base's own, a link may have the name of a directory of the
// agent's, and git does not answer for what is beyond it.
class RulesTree {
 public:
  static Result<RulesTree> make(const AgentOverlay& overlay) {
    RulesTree made(overlay, WARREN_TRY(ScratchDir::make("ignored")));
    WARREN_TRY(make_host_dirs(made.work(), 0700));
    Git in_base(overlay.base_path);
    made.git_dir_ = WARREN_TRY(in_base.ask({"rev-parse", "--absolute-git-dir"}));
    made.prefix_ = WARREN_TRY(in_base.ask({"rev-parse", "--show-prefix"}));
    if (!made.prefix_.empty()) WARREN_TRY(made.write_above(WARREN_TRY(in_base.ask({"rev-parse", "--show-toplevel"}))));
    return made;
  }

  // The rules of the base and these directories.
  Status write(const std::set<std::string>& dirs, Rules rules) {
    auto host = WARREN_TRY(HostTree::open(work()));
    FileSystem& from = rules == Rules::kBase ? overlay_.base : overlay_.merged;
    auto write = [&](const std::string& path) -> Status {
      Result<Attributes> node = lstat(from, path);
      if (!node.ok() || !node->is_file() || node->size > kRuleBytes) return Ok{};
      std::string content = WARREN_TRY(read_file(from, path));
      return write_for_git(overlay_, {.path = path, .node = *node}, *host, prefix_ + path.substr(1), content);
    };
    WARREN_TRY(write(join_path("/", kRules)));
    for (const std::string& dir : dirs) WARREN_TRY(write(join_path(dir, kRules)));
    return Ok{};
  }

  // Those of the paths ("/src/a", a directory as "/src/") that a rule matches.
  Result<std::unordered_set<std::string>> list_matching(const std::vector<std::string>& paths) {
    std::vector<std::string> names;
    for (const std::string& path : paths) names.push_back(prefix_ + path.substr(1));
    Git git(overlay_.base_path);
    WARREN_TRY(git.use(git_dir_, work(), scratch_.path() + "/index"));  // an empty one
    std::unordered_set<std::string> matching = WARREN_TRY(list_ignored(git, names));
    std::unordered_set<std::string> found;
    for (std::string name : matching) {
      if (name.ends_with('/')) name.pop_back();
      found.insert("/" + name.substr(prefix_.size()));
    }
    return found;
  }

 private:
  static constexpr const char* kRules = ".gitignore";

  RulesTree(const AgentOverlay& overlay, ScratchDir scratch) : overlay_(overlay), scratch_(std::move(scratch)) {}

  std::string work() const { return scratch_.path() + "/work"; }

  // The rules of the directories above the base.
  Status write_above(const std::string& top) {
    WARREN_TRY(make_host_dirs(work() + "/" + prefix_, 0700));
    for (std::size_t end = 0; end < prefix_.size(); end = prefix_.find('/', end) + 1) {
      std::string name = "/" + prefix_.substr(0, end) + kRules;
      Result<std::string> content = read_host_file(top + name, kRuleBytes);
      if (content.ok()) WARREN_TRY(replace_host_file(work() + name, *content, 0600));
    }
    return Ok{};
  }

  const AgentOverlay& overlay_;
  ScratchDir scratch_;
  std::string git_dir_;
  std::string prefix_;  // of the base, below the top of the repository
};

// Those of the changes and of the directories above them that a rule matches.
Result<std::unordered_set<std::string>> list_matching(const AgentOverlay& overlay,
                                                      const std::vector<TreeChange>& changes, Rules rules) {
  std::set<std::string> dirs;
  std::vector<std::string> paths;
  for (const TreeChange& change : changes) {
    if (is_in_git_dir(change.path)) continue;
    add_dirs_above(change.path, dirs);
    const char* end = change.node().is_directory() ? "/" : "";
    paths.push_back(change.path + end);
    if (change.kind == TreeChangeKind::kRenamed) paths.push_back(change.base_path + end);
  }
  for (const std::string& dir : dirs) paths.push_back(dir + "/");
  RulesTree tree = WARREN_TRY(RulesTree::make(overlay));
  WARREN_TRY(tree.write(dirs, rules));
  return tree.list_matching(paths);
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

Result<std::unordered_set<std::string>> list_ignored_files(const AgentOverlay& overlay,
                                                           const std::vector<std::string>& paths) {
  std::set<std::string> dirs;
  for (const std::string& path : paths) add_dirs_above(path, dirs);
  RulesTree tree = WARREN_TRY(RulesTree::make(overlay));
  WARREN_TRY(tree.write(dirs, Rules::kBase));
  std::unordered_set<std::string> ignored = WARREN_TRY(tree.list_matching(paths));
  if (ignored.empty()) return ignored;
  std::unordered_set<std::string> tracked = WARREN_TRY(list_tracked(overlay.base_path));
  std::erase_if(ignored, [&](const std::string& path) { return tracked.contains(path); });
  return ignored;
}

}  // namespace warren
