#include "changes/branch.h"

#include <algorithm>
#include <unordered_set>

#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/binary.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/conflicts.h"
#include "changes/patch.h"
#include "fs/file.h"
#include "fs/path_ops.h"
#include "os/capture.h"
#include "os/error.h"
#include "text/git_patch.h"
#include "text/merge3.h"

namespace warren {
namespace {

class Git {
 public:
  explicit Git(const std::string& dir) : dir_(dir) {}

  Result<Captured> run(std::vector<std::string> words, int input = -1) {
    words.insert(words.begin(), "git");
    Result<Captured> done = run_captured(words, dir_, input);
    if (!done.ok() && done.error().code() == Code::kNotFound)
      return Error(Code::kNotFound, "git is not installed", "--as-patch writes a patch without git");
    return done;
  }

  Result<std::string> ask(const std::vector<std::string>& words) {
    Captured done = WARREN_TRY(run(words));
    if (done.status != 0)
      return Error(Code::kInvalid, fmt::format("git {}: {}", words[0], trimmed(done.errors, kWhitespace)));
    if (done.output.ends_with('\n')) done.output.pop_back();  // only what git adds: the answer may be a path
    return std::move(done.output);
  }

  Result<bool> succeeds(const std::vector<std::string>& words) {
    Captured done = WARREN_TRY(run(words));
    return done.status == 0;
  }

 private:
  std::string dir_;
};

bool is_in_git_dir(std::string_view path) { return path.find("/.git/") != path.npos || path.ends_with("/.git"); }

// The input of `git fast-import`.
class Stream {
 public:
  Stream(const AgentOverlay& overlay, int fd, std::string prefix)
      : overlay_(overlay), fd_(fd), prefix_(std::move(prefix)) {}

  Status text(std::string_view text) { return write_all(fd_, as_bytes(text)); }

  Status remove(const std::string& path) { return text(fmt::format("D {}\n", name_of_path(path))); }

  Status put(const ChangedFile::Side& file, const std::optional<std::string>& content) {
    WARREN_TRY(text(fmt::format("M {:o} inline {}\n", git_mode(file.node.mode), name_of_path(file.path))));
    if (content) return text(fmt::format("data {}\n{}\n", content->size(), *content));
    if (file.node.is_symlink()) {
      std::string target = WARREN_TRY(read_link(overlay_.merged, file.path));
      return text(fmt::format("data {}\n{}\n", target.size(), target));
    }
    auto open = WARREN_TRY(File::open(overlay_.merged, file.path, {.follow = Follow::kNo}));
    Attributes node = WARREN_TRY(open->attributes());
    WARREN_TRY(text(fmt::format("data {}\n", node.size)));
    std::string buffer(limits::kCopyBytes, '\0');
    for (std::uint64_t at = 0; at < node.size;) {
      std::size_t count = WARREN_TRY(open->read_at(at, as_mutable_bytes(buffer)));
      count = static_cast<std::size_t>(std::min<std::uint64_t>(count, node.size - at));
      if (count == 0) return Error(Code::kConflict, fmt::format("{} was changed while it was read", quote(file.path)));
      WARREN_TRY(text(std::string_view(buffer).substr(0, count)));
      at += count;
    }
    return text("\n");
  }

 private:
  std::string name_of_path(const std::string& path) const { return git_quote(prefix_, path.substr(1)); }

  const AgentOverlay& overlay_;
  int fd_;
  std::string prefix_;
};

// Files of a commit.
class CommitFiles {
 public:
  CommitFiles(Git& git, std::string commit, std::string prefix)
      : git_(git), commit_(std::move(commit)), prefix_(std::move(prefix)) {}

  // nullopt if the commit does not have it.
  Result<std::optional<std::string>> find(const std::string& path) {
    if (commit_.empty()) return std::optional<std::string>();
    Captured done =
        WARREN_TRY(git_.run({"cat-file", "blob", fmt::format("{}:{}{}", commit_, prefix_, path.substr(1))}));
    return done.status == 0 ? std::optional(std::move(done.output)) : std::optional<std::string>();
  }

 private:
  Git& git_;
  std::string commit_;
  std::string prefix_;
};

// The content to commit so that the commit contains the agent's change and nothing else; nullopt for the agent's whole
// content. The commit's parent may differ from what the agent saw: somebody has committed since, or not yet.
Result<std::optional<std::string>> rebase_file(const AgentOverlay& overlay, CommitFiles& parent,
                                               const ChangedFile& file) {
  std::optional<std::string> none;
  if (file.change == nullptr || !file.before) return none;
  std::optional<std::string> theirs = WARREN_TRY(parent.find(file.before->path));
  if (!theirs) return none;
  std::string seen = WARREN_TRY(read_seen(overlay, *file.change));
  if (seen == *theirs) return none;
  bool is_pair = file.after && file.after->node.is_file() && file.before->node.is_file() &&
                 file.after->node.size <= limits::kPatchFileBytes;
  if (is_pair) {
    std::string ours = WARREN_TRY(read_file(overlay.merged, file.after->path));
    if (ours == *theirs) return std::optional(std::move(ours));
    bool is_text = !is_binary(seen) && !is_binary(ours) && !is_binary(*theirs);
    Merged merged = is_text ? merge3(seen, ours, *theirs) : Merged{};
    if (is_text && merged.is_clean()) return std::optional(std::move(merged.text));
  }
  return Error(
      Code::kConflict,
      fmt::format(
          "{}: HEAD does not have the version that the agent started from, and the agent's change does not apply to it",
          quote(file.path())),
      "commit or stash your own changes to it first, or name the paths to include, without this one");
}

// The new files that git ignores.
Result<std::unordered_set<std::string>> list_ignored(Git& git, const std::vector<ChangedFile>& files) {
  Fd list = WARREN_TRY(open_scratch_file());
  for (const ChangedFile& file : files) {
    if (!file.after || is_in_git_dir(file.after->path)) continue;
    WARREN_TRY(write_all(list.get(), as_bytes(file.after->path.substr(1) + '\0')));
  }
  if (::lseek(list.get(), 0, SEEK_SET) != 0) return system_error(errno, "read a temporary file");
  Captured done = WARREN_TRY(git.run({"check-ignore", "-z", "--stdin"}, list.get()));
  if (done.status > 1)
    return Error(Code::kInvalid, fmt::format("git check-ignore: {}", trimmed(done.errors, kWhitespace)));
  std::unordered_set<std::string> ignored;
  std::string_view rest = done.output;
  while (!rest.empty()) {
    std::size_t end = rest.find('\0');
    ignored.insert("/" + std::string(rest.substr(0, end)));
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
  }
  return ignored;
}

Status check_branch(Git& git, const std::string& branch) {
  bool is_inside = WARREN_TRY(git.succeeds({"rev-parse", "--is-inside-work-tree"}));
  if (!is_inside) return Error(Code::kInvalid, "the base is not in a git work tree", "--as-patch does not need one");
  bool is_name = WARREN_TRY(git.succeeds({"check-ref-format", "--branch", branch}));
  if (!is_name || branch.starts_with('-') || branch.starts_with('@'))
    return Error(Code::kInvalid, fmt::format("{} is not a valid branch name", quote(branch)));
  bool is_taken = WARREN_TRY(git.succeeds({"show-ref", "--verify", "--quiet", "refs/heads/" + branch}));
  if (is_taken) return Error(Code::kExists, fmt::format("the branch {} already exists", quote(branch)));
  return Ok{};
}

}  // namespace

Result<std::string> commit_to_branch(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                     const std::string& branch) {
  Git git(overlay.base_path);
  WARREN_TRY(check_branch(git, branch));
  std::string prefix = WARREN_TRY(git.ask({"rev-parse", "--show-prefix"}));
  std::string who = WARREN_TRY(git.ask({"var", "GIT_COMMITTER_IDENT"}));
  Captured head = WARREN_TRY(git.run({"rev-parse", "--verify", "--quiet", "HEAD"}));
  std::vector<ChangedFile> files = WARREN_TRY(list_changed_files(overlay, changes));
  std::unordered_set<std::string> ignored = WARREN_TRY(list_ignored(git, files));
  Fd script = WARREN_TRY(open_scratch_file());
  Stream stream(overlay, script.get(), prefix);
  std::string message = fmt::format("Apply the changes of a Warren agent\n\nBase: {}\n", overlay.base_path);
  WARREN_TRY(stream.text(
      fmt::format("commit refs/heads/{}\ncommitter {}\ndata {}\n{}\n", branch, who, message.size(), message)));
  std::string parent(head.status == 0 ? trimmed(head.output, kWhitespace) : std::string_view());
  if (!parent.empty()) WARREN_TRY(stream.text(fmt::format("from {}\n", parent)));
  CommitFiles in_parent(git, parent, prefix);
  std::size_t count = 0;
  for (const ChangedFile& file : files) {  // removals first: files may have swapped names
    bool is_removed = file.before && (!file.after || file.is_renamed()) && !is_in_git_dir(file.before->path);
    if (is_removed && !file.after) WARREN_TRY(rebase_file(overlay, in_parent, file));
    if (is_removed) WARREN_TRY(stream.remove(file.before->path));
    count += is_removed ? 1 : 0;
  }
  for (const ChangedFile& file : files) {
    bool is_written = file.after && !is_in_git_dir(file.after->path) && !ignored.contains(file.after->path);
    std::optional<std::string> content;
    if (is_written) content = WARREN_TRY(rebase_file(overlay, in_parent, file));
    if (is_written) WARREN_TRY(stream.put(*file.after, content));
    count += is_written ? 1 : 0;
  }
  if (count == 0)
    return Error(Code::kInvalid, "nothing to commit: git ignores all of the changes or cannot store them");
  if (::lseek(script.get(), 0, SEEK_SET) != 0) return system_error(errno, "read a temporary file");
  Captured done = WARREN_TRY(git.run({"fast-import", "--quiet", "--date-format=raw"}, script.get()));
  if (done.status != 0) return Error(Code::kIo, fmt::format("git fast-import: {}", trimmed(done.errors, kWhitespace)));
  return git.ask({"rev-parse", "refs/heads/" + branch});
}

}  // namespace warren
