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
#include "changes/pinned/pinned_git.h"
#include "fs/host/host_fs.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

constexpr std::size_t kGitFileBytes = 8192;                     // a file that names a path
constexpr std::size_t kGitStateBytes = std::size_t{256} << 20;  // the index, lists of references
constexpr const char* kCopied[] = {"index", "ORIG_HEAD", "MERGE_HEAD", "MERGE_MSG", "CHERRY_PICK_HEAD"};
constexpr const char* kCopiedFromCommon[] = {"info/exclude", "info/attributes", "shallow", "description"};

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
  Captured head = WARREN_TRY(git.run({"rev-parse", "--verify", "--quiet", "HEAD^{commit}"}));
  std::string commit(head.status == 0 ? trimmed(head.output, kWhitespace) : std::string_view());
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
  WorktreeReader(const std::string& base, const LinkedWorktree& worktree)
      : base_(base), worktree_(worktree), git_(base) {}

  Result<WorktreeRepository> read() {
    std::string references = WARREN_TRY(list_references(git_));
    std::optional<std::string> head = find_text(worktree_.git_dir, "HEAD");
    if (!head) return Error(Code::kInvalid, fmt::format("{} has no HEAD", quote(worktree_.git_dir)));
    add("HEAD", *head + "\n");
    add("packed-refs", "# pack-refs with: sorted \n" + references);
    add(kPinRecord, WARREN_TRY(make_record(git_, references)));
    add("objects/info/alternates", alternates_text(worktree_.common + "/objects"));
    for (const char* name : kCopied) WARREN_TRY(add_if_there(worktree_.git_dir, name));
    for (const char* name : kCopiedFromCommon) WARREN_TRY(add_if_there(worktree_.common, name));
    WARREN_TRY(add_settings());
    found_.time = WARREN_TRY(find_state_time(worktree_.git_dir));
    return std::move(found_);
  }

 private:
  void add(std::string_view path, std::string content) {
    found_.files.emplace_back(fmt::format("/.git/{}", path), std::move(content));
  }

  Status add_if_there(const std::string& dir, const char* path) {
    std::optional<std::string> content = WARREN_TRY(find_content(dir, path, kGitStateBytes));
    if (content) add(path, *std::move(content));
    return Ok{};
  }

  // The settings of the worktree, as git sees them, without those that belong to the main repository's layout.
  Status add_settings() {
    std::optional<std::string> common = WARREN_TRY(find_content(worktree_.common, "config", kGitStateBytes));
    std::string text = std::move(common).value_or("");
    WARREN_TRY(add_if_there(worktree_.git_dir, "config.worktree"));
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    text += "[core]\n\tbare = false\n";
    bool is_submodule = worktree_.git_dir == worktree_.common;
    if (is_submodule) text += fmt::format("\tworktree = {}\n", setting_value(base_));
    bool has_hooks_path = text.find("hooksPath") != text.npos || text.find("hookspath") != text.npos;
    if (!has_hooks_path) text += fmt::format("\thooksPath = {}\n", setting_value(worktree_.common + "/hooks"));
    add("config", std::move(text));
    return Ok{};
  }

  const std::string& base_;
  const LinkedWorktree& worktree_;
  Git git_;
  WorktreeRepository found_;
};

// Whether the settings of a repository say that `base` is its work tree, as those of submodules do.
bool names_work_tree(const std::string& git_dir, const std::string& base) {
  Result<std::optional<std::string>> settings = find_content(git_dir, "config", kGitStateBytes);
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
    found = WARREN_TRY(WorktreeReader(base, worktree).read());
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
    WARREN_TRY(write_file(fs, path, as_bytes(content)));
    WARREN_TRY(set_times(fs, path, made, made, Follow::kNo));
  }
  return Ok{};
}

}  // namespace warren
