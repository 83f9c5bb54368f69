#include "changes/pinned/linked_worktree.h"

#include <algorithm>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/below.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/path.h"
#include "changes/git/git.h"
#include "changes/pinned/git_rest.h"
#include "changes/pinned/git_state_files.h"
#include "changes/pinned/pinned_git.h"
#include "fs/host/host_fs.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

constexpr std::size_t kGitFileBytes = 8192;  // a file that names a path
constexpr const char* kCopiedFromCommon[] = {"info/exclude", "info/attributes", "shallow", "description"};
// Files at the top of a worktree's directory, or a submodule's, that are made anew, or that are ours.
constexpr std::string_view kMade[] = {"HEAD",   "packed-refs", "config",       "commondir",   "gitdir",
                                      "locked", kPinRecord,    kAppliedRecord, kBroughtRecord};

bool is_of_user(const struct stat& info) { return info.st_uid == ::geteuid(); }

// The content of a plain file below a directory of the host; nullopt if there is none. Links are not followed, neither
// at the end nor on the way: whoever made the directory would choose what the run gets to read.
Result<std::optional<std::string>> find_content(const std::string& dir, std::string_view path, std::size_t bytes_max) {
  std::unique_ptr<HostTree> tree = WARREN_TRY(HostTree::open(dir));
  std::string below = fmt::format("/{}", path);
  std::optional<struct stat> found = WARREN_TRY(tree->find(below));
  if (!found || !S_ISREG(found->st_mode)) return std::optional<std::string>();
  Fd file = WARREN_TRY(tree->open_file(below, O_RDONLY));
  auto size_bytes = static_cast<std::size_t>(found->st_size);
  if (size_bytes > bytes_max)
    return Error(Code::kTooLarge, fmt::format("{} has more than {} bytes", quote(dir + below), bytes_max));
  std::string content(size_bytes, '\0');
  content.resize(WARREN_TRY(read_full(file.get(), as_mutable_bytes(content)).within(quote(dir + below))));
  return std::optional(std::move(content));
}

// The first line of a small file, after `prefix`; nullopt if it is anything else.
std::optional<std::string> find_text(const std::string& dir, std::string_view path, std::string_view prefix = "") {
  Result<std::optional<std::string>> text = find_content(dir, path, kGitFileBytes);
  if (!text.ok() || !*text || !(*text)->starts_with(prefix)) return std::nullopt;
  std::string_view line = std::string_view(**text).substr(prefix.size());
  line = trimmed(line.substr(0, line.find('\n')), kWhitespace);
  return line.empty() ? std::nullopt : std::optional(std::string(line));
}

// It may be a link that leads to nothing yet: git once wrote it so.
bool has_head(const std::string& git_dir) {
  Result<std::optional<struct stat>> head = find_host_link(git_dir + "/HEAD");
  return head.ok() && *head && !S_ISDIR((*head)->st_mode);
}

// A path in one of git's files, which may be relative to where the file is.
std::optional<std::string> resolved(const std::string& dir, const std::optional<std::string>& path) {
  if (!path) return std::nullopt;
  Result<std::string> whole = canonical_host_path(path->starts_with('/') ? *path : dir + "/" + *path);
  return whole.ok() ? std::optional(*std::move(whole)) : std::nullopt;
}

// Whether it is a directory of the user's at exactly this path: no part of it is a link.
bool is_plain_dir(const std::string& path) {
  Result<std::optional<struct stat>> found = find_host_link(path);
  if (!found.ok() || !*found || !S_ISDIR((*found)->st_mode) || !is_of_user(**found)) return false;
  Result<std::string> canonical = canonical_host_path(path);
  return canonical.ok() && *canonical == path;
}

// "<id> <name>" for each.
Result<std::string> list_references(Git& git) {
  std::string listed = WARREN_TRY(git.ask({"for-each-ref", "--format=%(objectname) %(refname)"}));
  return listed + (listed.empty() ? "" : "\n");
}

// The record of what the session had at its start.
Result<std::string> make_record(Git& git, const std::string& references) {
  std::string commit = WARREN_TRY(find_head_of(git));
  return write_pin_record(commit, parse_packed_references(references), SystemClock().now());
}

// In quotes, as a file of settings needs it.
std::string setting_value(std::string_view text) {
  std::string value = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') value += '\\';
    value += c;
    if (c == '\n') value.replace(value.size() - 1, 1, "\\n");
  }
  return value + "\"";
}

// Older than the index: git takes a file that is not older than it for one that may have changed in the same moment.
Result<Timestamp> find_state_time(const std::string& git_dir) {
  for (const char* name : {"/index", "/HEAD"}) {
    std::optional<struct stat> found = WARREN_TRY(find_host_link(git_dir + name));
    if (found) return Timestamp{.seconds = found->st_mtim.tv_sec - 1, .nanoseconds = 0};
  }
  return Error(Code::kNotFound, fmt::format("{} has no HEAD", quote(git_dir)));
}

// Collects the files of the repository.
class WorktreeReader {
 public:
  WorktreeReader(const std::string& base, const LinkedWorktree& worktree, FileSystem& own)
      : base_(base), worktree_(worktree), own_(own), git_(base) {}

  Result<WorktreeRepository> read() {
    std::string references = WARREN_TRY(list_references(git_));
    std::optional<std::string> head = find_text(worktree_.git_dir, "HEAD");
    if (!head) return Error(Code::kInvalid, fmt::format("{} has no HEAD", quote(worktree_.git_dir)));
    add("HEAD", *head + "\n");
    add("packed-refs", "# pack-refs with: sorted \n" + references);
    add(kPinRecord, WARREN_TRY(make_record(git_, references)));
    add("objects/info/alternates", alternates_text(worktree_.common + "/objects"));
    WARREN_TRY(add_state().within(quote(worktree_.git_dir)));
    if (!is_submodule()) WARREN_TRY(add_logs_of_references().within(quote(worktree_.common)));
    for (const char* name : kCopiedFromCommon) WARREN_TRY(add_if_there(name));
    WARREN_TRY(add_settings());
    found_.time = WARREN_TRY(find_state_time(worktree_.git_dir));
    return std::move(found_);
  }

 private:
  void add(std::string_view path, std::string content) {
    found_.files.emplace_back(fmt::format("/.git/{}", path), std::move(content));
  }

  bool is_submodule() const { return worktree_.git_dir == worktree_.common; }

  // The index, what is under way, and logs.
  Status add_state() {
    std::vector<GitStateNode> nodes;
    GitStateFiles files(own_, "/", nodes);
    Attributes top = WARREN_TRY(lstat(own_, "/"));
    std::vector<std::string> names = WARREN_TRY(list_names(own_, top.inode));
    if (names.size() > limits::kGitStateFiles)
      return Error(Code::kLimit, fmt::format("there are more than {} files", limits::kGitStateFiles));
    for (const std::string& name : names) {
      bool is_made = std::find(std::begin(kMade), std::end(kMade), name) != std::end(kMade) || name.ends_with(".lock");
      std::optional<Attributes> node = WARREN_TRY(files.find(name));
      if (is_made || !node) continue;
      if (node->is_file()) WARREN_TRY(files.add_file(name, *node));
      else if (node->is_directory() && is_under_way_dir(name)) WARREN_TRY(files.add_tree(name, *node));
      else if (node->is_directory() && name == kGitLogsDir) WARREN_TRY(files.add_logs(name, *node));
    }
    return add_files(std::move(nodes));
  }

  // All worktrees of a repository have the stash and the branches together, and a HEAD of their own.
  Status add_logs_of_references() {
    std::unique_ptr<HostFs> common = WARREN_TRY(HostFs::open(worktree_.common));
    std::vector<GitStateNode> nodes;
    GitStateFiles files(*common, "/", nodes);
    std::optional<Attributes> logs = WARREN_TRY(files.find(kGitLogsOfReferences));
    if (logs && logs->is_directory()) WARREN_TRY(files.add_logs(std::string(kGitLogsOfReferences), *logs));
    return add_files(std::move(nodes));
  }

  Status add_files(std::vector<GitStateNode> nodes) {
    for (GitStateNode& node : nodes) {
      if (node.as.is_file()) add(node.path, std::move(node.content));
    }
    return Ok{};
  }

  // From the main repository, unless it is there already.
  Status add_if_there(const char* path) {
    std::string whole = fmt::format("/.git/{}", path);
    bool is_there =
        std::any_of(found_.files.begin(), found_.files.end(), [&](const auto& file) { return file.first == whole; });
    if (is_there) return Ok{};
    std::optional<std::string> content = WARREN_TRY(find_content(worktree_.common, path, limits::kGitStateFileBytes));
    if (content) add(path, *std::move(content));
    return Ok{};
  }

  // The settings of the worktree, as git sees them, without those that belong to the main repository's layout.
  Status add_settings() {
    std::optional<std::string> common =
        WARREN_TRY(find_content(worktree_.common, "config", limits::kGitStateFileBytes));
    std::string text = std::move(common).value_or("");
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    text += "[core]\n\tbare = false\n";
    if (is_submodule()) text += fmt::format("\tworktree = {}\n", setting_value(base_));
    bool has_hooks_path = text.find("hooksPath") != text.npos || text.find("hookspath") != text.npos;
    if (!has_hooks_path) text += fmt::format("\thooksPath = {}\n", setting_value(worktree_.common + "/hooks"));
    add("config", std::move(text));
    return Ok{};
  }

  const std::string& base_;
  const LinkedWorktree& worktree_;
  FileSystem& own_;  // the worktree's directory of the repository
  Git git_;
  WorktreeRepository found_;
};

// Whether the settings of a repository say that `base` is its work tree, as those of submodules do.
bool names_work_tree(const std::string& git_dir, const std::string& base) {
  Result<std::optional<std::string>> settings = find_content(git_dir, "config", limits::kGitStateFileBytes);
  if (!settings.ok() || !*settings) return false;
  Result<std::string> named = Git(base).ask_with({"config", "--file", "-", "--get", "core.worktree"}, **settings);
  return named.ok() && resolved(git_dir, *named) == base;
}

// Whether this is a repository whose objects are really in it.
bool is_whole_repository(const std::string& dir) { return is_plain_dir(dir + "/objects") && find_text(dir, "HEAD"); }

}  // namespace

std::optional<std::string> find_repository_top(const std::string& dir, const std::string& home) {
  for (std::string at = dir; at != "/" && at != "."; at = directory_of(at)) {
    bool is_home_or_above = at == home || home.starts_with(at + "/");
    if (is_home_or_above) return std::nullopt;
    Result<std::optional<struct stat>> found = find_host_link(at + "/.git");
    if (!found.ok() || !*found || !is_of_user(**found)) continue;
    bool is_repository = S_ISREG((*found)->st_mode) ? find_text(at, ".git", "gitdir:").has_value()
                                                    : S_ISDIR((*found)->st_mode) && has_head(at + "/.git");
    if (is_repository) return at;
  }
  return std::nullopt;
}

std::optional<std::string> find_git_outside(const std::string& base) {
  Result<std::optional<struct stat>> found = find_host_link(base + "/.git");
  if (!found.ok() || !*found || !S_ISREG((*found)->st_mode) || !is_of_user(**found)) return std::nullopt;
  std::optional<std::string> git_dir = resolved(base, find_text(base, ".git", "gitdir:"));
  return git_dir && !is_at_or_below(*git_dir, base) ? git_dir : std::nullopt;
}

std::optional<LinkedWorktree> find_linked_worktree(const std::string& base) {
  std::optional<std::string> git_dir = find_git_outside(base);
  if (!git_dir) return std::nullopt;
  if (is_whole_repository(*git_dir) && names_work_tree(*git_dir, base)) return LinkedWorktree{*git_dir, *git_dir};
  std::optional<std::string> common = resolved(*git_dir, find_text(*git_dir, "commondir"));
  std::optional<std::string> back = resolved(*git_dir, find_text(*git_dir, "gitdir"));
  bool is_known = common && back && *back == base + "/.git" && directory_of(*git_dir) == *common + "/worktrees";
  if (!is_known || !is_whole_repository(*common)) return std::nullopt;
  return LinkedWorktree{*std::move(git_dir), *std::move(common)};
}

std::vector<std::string> paths_to_read(const LinkedWorktree& worktree) {
  std::vector<std::string> paths;
  for (const char* name : {"/objects", "/hooks"}) {
    if (is_plain_dir(worktree.common + name)) paths.push_back(worktree.common + name);
  }
  return paths;
}

Result<WorktreeRepository> read_worktree_repository(const std::string& base, const LinkedWorktree& worktree) {
  SystemClock clock;
  std::unique_ptr<HostFs> outside = WARREN_TRY(HostFs::open(worktree.git_dir));
  WorktreeRepository found;
  WARREN_TRY(read_git_at_rest(*outside, "/", rest_with_pauses(clock), [&]() -> Status {
    found = WARREN_TRY(WorktreeReader(base, worktree, *outside).read());
    return Ok{};
  }));
  return found;
}

// All files have one time, so that what the agent changes later differs from what we made
// (changes/commits/left_in_git.h).
Status write_worktree_repository(FileSystem& fs, const WorktreeRepository& repository) {
  WARREN_TRY(remove(fs, "/.git", {.recursive = Recursive::kYes, .force = Force::kYes}));
  for (const char* dir :
       {"/.git/objects/info", "/.git/objects/pack", "/.git/refs/heads", "/.git/refs/tags", "/.git/info"})
    WARREN_TRY(make_dirs(fs, dir));
  SetTime made = SetTime::to(repository.time);
  for (const auto& [path, content] : repository.files) {
    WARREN_TRY(make_dirs(fs, split_parent(path).parent));
    WARREN_TRY(write_file(fs, path, as_bytes(content)));
    WARREN_TRY(set_times(fs, path, made, made, Follow::kNo));
  }
  return Ok{};
}

}  // namespace warren
