#include "changes/pinned/git_state.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/path.h"
#include "changes/pinned/git_state_files.h"
#include "changes/pinned/pinned_git.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::string_view kRepositoryDir = "/.git";
constexpr std::string_view kReferenceTables = "reftable";
// Git keeps these for each worktree, and never packs them.
constexpr std::string_view kLooseOnly[] = {"refs/bisect/", "refs/worktree/", "refs/rewritten/"};
constexpr int kStateDepth = 64;

// An error that says that the repository is not one that we copy, or that it changes just now.
bool is_odd(const Error& error) {
  Code code = error.code();
  return code == Code::kNotFound || code == Code::kStale || code == Code::kNotDirectory || code == Code::kTooLarge ||
         code == Code::kLimit || code == Code::kDenied || code == Code::kInvalid;
}

class StateReader {
 public:
  explicit StateReader(FileSystem& base) : base_(base), files_(base, kRepositoryDir, state_.nodes) {}

  Result<GitState> read() {
    state_.begun = SystemClock().now();  // compared with the times of the host's files
    state_.dir = WARREN_TRY(lstat(base_, kRepositoryDir));
    if (!state_.dir.is_directory() || state_.dir.owner.uid != ::geteuid()) return odd(".git");
    std::vector<DirEntry> entries = WARREN_TRY(list_dir(base_, state_.dir.inode, DirDetail::kNames));
    if (entries.size() > limits::kGitStateFiles) return odd(".git");
    WARREN_TRY(read_references());
    std::stable_partition(entries.begin(), entries.end(),
                          [](const DirEntry& entry) { return !is_git_index(entry.name); });
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

  Status read_references() {
    std::optional<Attributes> head = WARREN_TRY(files_.find("HEAD"));
    std::optional<Attributes> refs = WARREN_TRY(files_.find("refs"));
    std::optional<Attributes> packed = WARREN_TRY(files_.find("packed-refs"));
    if (!head || !head->is_file() || !refs || !refs->is_directory() || (packed && !packed->is_file()))
      return odd("HEAD");
    head_time_ = head->mtime;
    std::string text = WARREN_TRY(files_.read("HEAD", limits::kGitRefBytes));
    if (packed) {
      std::string listed = WARREN_TRY(files_.read("packed-refs", limits::kGitPackedRefsBytes));
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
    head = trimmed(head, kWhitespace);
    std::optional<std::string_view> name = find_symbolic_target(head);
    if (!name) return is_object_id(head) ? std::string(head) : "";
    auto found = state_.references.find(std::string(*name));
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
    std::string text = WARREN_TRY(files_.read(path, limits::kGitRefBytes));
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
    std::optional<Attributes> node = WARREN_TRY(files_.find(name));
    if (!node) return Ok{};
    if (node->is_directory() && (is_under_way_dir(name) || name == kReferenceTables))
      return files_.add_tree(name, *node);
    if (node->is_directory() && name == kGitLogsDir) return files_.add_logs(name, *node);
    if (node->is_directory()) {
      has_objects_ = has_objects_ || name == "objects";
      add({name, *node, true, {}});
      return Ok{};
    }
    if (node->is_symlink()) return add_link(name, *node);
    if (!node->is_file()) return Ok{};
    if (name == "index") {
      has_index_ = true;
      state_.time = node->mtime;
    }
    return files_.add_file(name, *node);
  }

  Status add_link(const std::string& name, const Attributes& node) {
    if (is_git_index(name)) return odd(name);
    has_objects_ = has_objects_ || name == "objects";
    std::string target = WARREN_TRY(base_.read_link(node.inode));
    add({name, node, false, std::move(target)});
    return Ok{};
  }

  void add(GitStateNode node) { state_.nodes.push_back(std::move(node)); }

  FileSystem& base_;
  GitState state_;
  GitStateFiles files_;
  Timestamp head_time_;
  std::size_t seen_ = 0;
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
