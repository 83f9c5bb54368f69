#include "changes/pinned/git_state.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "base/ascii.h"
#include "base/below.h"
#include "base/clock.h"
#include "base/path.h"
#include "changes/pinned/pinned_git.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::string_view kRepositoryDir = "/.git";
// Directories of the state. All others go on showing the base's.
constexpr std::string_view kStateDirs[] = {"rebase-merge", "rebase-apply", "sequencer", "reftable"};
// Git keeps these for each worktree, and never packs them.
constexpr std::string_view kLooseOnly[] = {"refs/bisect/", "refs/worktree/", "refs/rewritten/"};
// Git appends to these logs. The list of stashes is one, and `git checkout -` reads that of HEAD.
constexpr std::string_view kLogsDir = "logs";
constexpr std::string_view kBranchLogs = "logs/refs/heads";
constexpr std::uint64_t kLogsBytes = std::uint64_t{64} << 20;  // of all that are copied
constexpr int kStateDepth = 64;

template <class Names>
bool is_one_of(std::string_view name, const Names& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_index(std::string_view name) { return name == "index" || name.starts_with("sharedindex."); }

// An error that says that the repository is not one that we copy, or that it changes just now.
bool is_odd(const Error& error) {
  Code code = error.code();
  return code == Code::kNotFound || code == Code::kStale || code == Code::kNotDirectory || code == Code::kTooLarge ||
         code == Code::kLimit || code == Code::kDenied || code == Code::kInvalid;
}

class StateReader {
 public:
  explicit StateReader(FileSystem& base) : base_(base) {}

  Result<GitState> read() {
    state_.begun = SystemClock().now();  // compared with the times of the host's files
    state_.dir = WARREN_TRY(lstat(base_, kRepositoryDir));
    if (!state_.dir.is_directory() || state_.dir.owner.uid != ::geteuid()) return odd(".git");
    std::vector<DirEntry> entries = WARREN_TRY(list_dir(base_, state_.dir.inode, DirDetail::kNames));
    if (entries.size() > limits::kGitStateFiles) return odd(".git");
    WARREN_TRY(read_references());
    std::stable_partition(entries.begin(), entries.end(), [](const DirEntry& entry) { return !is_index(entry.name); });
    for (const DirEntry& entry : entries) WARREN_TRY(add_top(entry.name));
    if (!has_objects_) return odd("objects");
    if (!has_index_) state_.time = head_time_;
    step_back(state_.time);
    return std::move(state_);
  }

 private:
  static Error odd(std::string_view what) {
    return {Code::kInvalid, quote(what) + " is not of an ordinary repository"};
  }

  // Git takes a file that is as old as the index for one that may have changed in the same moment, and compares its
  // content. So the copy of the index must not be newer than the index.
  static void step_back(Timestamp& time) {
    constexpr std::int32_t kSecond = 1'000'000'000;
    if (time.nanoseconds == 0) {
      time.seconds -= 1;
      time.nanoseconds = kSecond;
    }
    time.nanoseconds -= 1;
  }

  static std::string path_in_base(std::string_view path) { return join_path(kRepositoryDir, path); }

  Result<std::string> read(std::string_view path, std::uint64_t bytes_max) {
    return read_file(base_, path_in_base(path), {.size_bytes_max = bytes_max});
  }

  Result<std::optional<Attributes>> find(std::string_view path) {
    Result<Attributes> found = lstat(base_, path_in_base(path));
    if (found.ok()) return std::optional(*found);
    Code code = found.error().code();
    if (code == Code::kNotFound || code == Code::kNotDirectory) return std::optional<Attributes>();
    return std::move(found).take_error();
  }

  Status read_references() {
    std::optional<Attributes> head = WARREN_TRY(find("HEAD"));
    std::optional<Attributes> refs = WARREN_TRY(find("refs"));
    std::optional<Attributes> packed = WARREN_TRY(find("packed-refs"));
    if (!head || !head->is_file() || !refs || !refs->is_directory() || (packed && !packed->is_file()))
      return odd("HEAD");
    head_time_ = head->mtime;
    std::string text = WARREN_TRY(read("HEAD", limits::kGitRefBytes));
    if (packed) {
      std::string listed = WARREN_TRY(read("packed-refs", limits::kGitPackedRefsBytes));
      state_.references = parse_packed_references(listed);
      if (state_.references.size() >= limits::kGitRefs) return odd("packed-refs");
    }
    add({"refs", *refs});
    for (const char* dir : {"refs/heads", "refs/tags"}) add({dir, *refs});
    WARREN_TRY(add_references("refs", 0));
    state_.head = commit_of(text);
    add({"HEAD", *head, false, std::move(text)});
    return Ok{};
  }

  std::string commit_of(std::string_view head) const {
    constexpr std::string_view kNamesOther = "ref:";
    head = trimmed(head, kWhitespace);
    if (!head.starts_with(kNamesOther)) return is_object_id(head) ? std::string(head) : "";
    auto found = state_.references.find(std::string(trimmed(head.substr(kNamesOther.size()), kWhitespace)));
    return found == state_.references.end() ? "" : found->second;
  }

  // Loose references count before packed ones. In the session all are packed, except those that name another one.
  Status add_references(const std::string& dir, int depth) {
    if (depth > kStateDepth) return odd(dir);
    Attributes node = WARREN_TRY(lstat(base_, path_in_base(dir)));
    if (!node.is_directory()) return odd(dir);
    std::vector<DirEntry> entries = WARREN_TRY(list_dir(base_, node.inode, DirDetail::kAttributes));
    for (const DirEntry& entry : entries) {
      std::string path = join_path(dir, entry.name);
      if (++seen_ > limits::kGitRefs) return odd("refs");
      if (entry.attributes->is_directory()) WARREN_TRY(add_references(path, depth + 1));
      else if (entry.attributes->is_file() && !path.ends_with(".lock"))
        WARREN_TRY(add_reference(path, *entry.attributes));
      else if (entry.attributes->is_symlink()) return odd(path);
    }
    return Ok{};
  }

  Status add_reference(const std::string& path, const Attributes& as) {
    std::string text = WARREN_TRY(read(path, limits::kGitRefBytes));
    std::string_view line = trimmed(text, kWhitespace);
    bool is_loose = std::any_of(std::begin(kLooseOnly), std::end(kLooseOnly),
                                [&](std::string_view prefix) { return path.starts_with(prefix); });
    if (is_object_id(line) && !is_loose) {
      state_.references.insert_or_assign(path, std::string(line));
      return Ok{};
    }
    add_dirs_to(path);
    add({path, as, false, std::move(text)});
    return Ok{};
  }

  // Those above a path below refs.
  void add_dirs_to(const std::string& path) {
    for (std::size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1)) {
      std::string dir = path.substr(0, end);
      bool is_there = std::any_of(state_.nodes.begin(), state_.nodes.end(),
                                  [&](const GitStateNode& node) { return node.path == dir; });
      if (!is_there) add({dir, state_.dir});
    }
  }

  Status add_top(const std::string& name) {
    if (name == "HEAD" || name == "refs" || name == "packed-refs" || name.ends_with(".lock")) return Ok{};
    if (name == kPinRecord || name == kAppliedRecord || name == kBroughtRecord) return Ok{};
    if (name == "commondir" || name == "gitdir") return odd(name);  // of a worktree's
    std::optional<Attributes> node = WARREN_TRY(find(name));
    if (!node) return Ok{};
    if (node->is_directory() && is_one_of(name, kStateDirs)) return add_tree(name, *node, 0);
    if (node->is_directory() && name == kLogsDir) return add_logs(name, *node, 0);
    if (node->is_directory()) {
      has_objects_ = has_objects_ || name == "objects";
      add({name, *node, true, {}});
      return Ok{};
    }
    if (node->is_symlink()) return add_link(name, *node);
    return node->is_file() ? add_file(name, *node) : Status(Ok{});
  }

  Status add_link(const std::string& name, const Attributes& node) {
    if (is_index(name)) return odd(name);
    has_objects_ = has_objects_ || name == "objects";
    std::string target = WARREN_TRY(base_.read_link(node.inode));
    add({name, node, false, std::move(target)});
    return Ok{};
  }

  Status add_file(const std::string& path, const Attributes& node) {
    std::uint64_t bytes_max = is_index(path) ? limits::kGitIndexBytes : limits::kGitStateFileBytes;
    bool is_left_out = node.size > bytes_max && path.find('/') == path.npos && !is_index(path) && path != "config";
    if (is_left_out) return Ok{};  // not of git: it has no file of that size but the index
    if (path == "index") {
      has_index_ = true;
      state_.time = node.mtime;
    }
    std::string content = WARREN_TRY(read(path, bytes_max));
    add({path, node, false, std::move(content)});
    return Ok{};
  }

  Status add_tree(const std::string& dir, const Attributes& as, int depth) {
    if (depth > kStateDepth) return odd(dir);
    add({dir, as});
    std::vector<std::string> names = WARREN_TRY(list_names(base_, as.inode));
    for (const std::string& name : names) {
      std::string path = join_path(dir, name);
      std::optional<Attributes> node = WARREN_TRY(find(path));
      if (state_.nodes.size() > limits::kGitStateFiles) return odd(dir);
      if (node && node->is_directory()) WARREN_TRY(add_tree(path, *node, depth + 1));
      if (node && node->is_file()) WARREN_TRY(add_file(path, *node));
    }
    return Ok{};
  }

  static bool has_state_logs(std::string_view dir) {
    return dir == kLogsDir || dir == "logs/refs" || is_at_or_below(dir, kBranchLogs);
  }

  // Those of HEAD, the stash and the branches; others, such as those of remote branches, go on showing the base's. So
  // do all in a directory with too many. One that is too long is left out.
  Status add_logs(const std::string& dir, const Attributes& as, int depth) {
    std::vector<std::string> names = WARREN_TRY(list_names(base_, as.inode));
    bool are_shown =
        !has_state_logs(dir) || depth > kStateDepth || state_.nodes.size() + names.size() > limits::kGitStateFiles;
    add({dir, as, are_shown, {}});
    if (are_shown) return Ok{};
    for (const std::string& name : names) {
      std::string path = join_path(dir, name);
      std::optional<Attributes> node = WARREN_TRY(find(path));
      if (node && node->is_directory()) WARREN_TRY(add_logs(path, *node, depth + 1));
      bool is_log =
          node && node->is_file() && node->size <= limits::kGitStateFileBytes && node->size <= log_bytes_left_;
      if (!is_log) continue;
      log_bytes_left_ -= node->size;
      WARREN_TRY(add_file(path, *node));
    }
    return Ok{};
  }

  void add(GitStateNode node) { state_.nodes.push_back(std::move(node)); }

  FileSystem& base_;
  GitState state_;
  Timestamp head_time_;
  std::size_t seen_ = 0;
  std::uint64_t log_bytes_left_ = kLogsBytes;
  bool has_index_ = false;
  bool has_objects_ = false;
};

}  // namespace

Result<std::optional<GitState>> read_git_state(FileSystem& base) {
  SystemClock clock;
  return read_git_state(base, rest_with_pauses(clock));
}

Result<std::optional<GitState>> read_git_state(FileSystem& base, const GitRest& rest) {
  std::optional<GitState> found;
  Status done = read_git_at_rest(base, std::string(kRepositoryDir), rest, [&]() -> Status {
    found = WARREN_TRY(StateReader(base).read());
    return Ok{};
  });
  if (!done.ok() && is_odd(done.error())) return std::optional<GitState>();
  WARREN_TRY(std::move(done));
  return found;
}

}  // namespace warren
