// Runs git in a repository of the user's, without anything that it would run by itself except content filters.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "changes/git/scratch_dir.h"
#include "os/processes/capture.h"

namespace warren {

namespace limits {
inline constexpr std::chrono::milliseconds kGitTime = std::chrono::minutes{10};  // one command of git
// What git may allocate: it holds whole objects, and an agent can make small ones that unpack to any size. Files up to
// 512 MiB and their differences need less, and so do millions of objects.
inline constexpr std::uint64_t kGitMemory = std::uint64_t{2} << 30;
}  // namespace limits

// Hooks, the file system monitor and automatic maintenance are switched off; variables that would lead git to another
// repository (GIT_DIR and others) do not reach it. Never point it to a repository whose settings a stranger wrote.
// What a partial clone lacks is missing, unless allow_lazy_fetch says that git may ask the remote for it.
class Git {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit Git(std::string dir);

  // From now on, commands use this work tree and index instead of the repository's own. The work tree may be a
  // temporary one with an agent's files: content filters, and whatever the environment names by a relative path, are
  // still those of the directory that was given before, which is the top of a work tree.
  Status use(std::string git_dir, std::string work_tree, std::string index);
  void set_author(std::string name, std::string email);
  void set_variable(std::string name, std::string value);
  void borrow_objects(const std::string& dir);  // the directory objects of another repository: this one has them, too
  void allow_lazy_fetch();
  void add_setting(std::string setting) { settings_.push_back(std::move(setting)); }  // "fetch.fsckObjects=true"
  void set_limit(std::chrono::milliseconds limit) { limit_ = limit; }                 // of each command
  // For all commands together; what has not ended by then is killed. Without one, each command has its limit only.
  void set_deadline(Deadline deadline) { deadline_ = deadline; }
  Deadline deadline() const { return deadline_; }

  // kNotFound if git is not installed, kTooLarge if it needs too much memory, kTimeout.
  Result<Captured> run(const std::vector<std::string>& words, int input = -1);
  // What git printed, without the newline that it adds: the answer may be a path. kInvalid with git's own message.
  Result<std::string> ask(const std::vector<std::string>& words, int input = -1);
  Result<std::string> ask_with(const std::vector<std::string>& words, std::string_view input);
  Result<bool> succeeds(const std::vector<std::string>& words);

 private:
  std::vector<std::string> list_environment() const;
  Status keep_filters_in_dir();
  Result<std::chrono::milliseconds> find_time_left() const;

  std::string dir_;
  std::string git_dir_;    // "" to let git find it
  std::string work_tree_;  // "" for the repository's own
  std::map<std::string, std::string> variables_;
  std::vector<std::string> options_;
  std::vector<std::string> settings_;
  std::chrono::milliseconds limit_ = limits::kGitTime;
  Deadline deadline_ = Deadline::max();
};

// Of a commit's message, the subject as it is shown: it may have any length.
std::string cut_subject(std::string subject);

// The content of objects/info/alternates that borrows from one directory of objects.
std::string alternates_text(const std::string& objects);

// The parts of git's output with -z.
std::vector<std::string> split_at_nul(std::string_view text);

// The lines of a text, without those that are empty.
template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.empty()) visit(line);
  }
}

// Files that differ between two commits or trees, by name: "src/a".
Result<std::unordered_set<std::string>> list_differing(Git& git, const std::string& from, const std::string& to);

// Of the files that these commits change, one id on each line. Of a merge, those that it has otherwise than all of its
// parents.
Result<std::vector<std::string>> list_changed_by(Git& git, const std::string& commits);

// Files of the work tree that are there otherwise than in the commit. Git compares, so content filters count. Replaces
// the index, which must be a temporary one.
Result<std::unordered_set<std::string>> list_unlike(Git& git, const std::string& commit);

// Those of the names ("src/a", below git's directory) that git ignores. Not what the index has.
Result<std::unordered_set<std::string>> list_ignored(Git& git, const std::vector<std::string>& names);

Result<std::string> find_head_of(Git& git);  // the commit of HEAD; "" before the first one
Result<bool> has_head(Git& git);
Result<bool> has_commit(Git& git, const std::string& commit);

// Whether HEAD does not contain the commit, but has every file that it changes in the same version: it was merged as
// other commits (`git merge --squash`, a rebase). Not if HEAD has another version of a file that any commit up to it
// changes: only an earlier one was merged perhaps. False if the repository does not have the commit.
Result<bool> is_in_head_otherwise(Git git, const std::string& commit);

// The id of the tree without files, to compare a commit without ancestors with.
Result<std::string> find_empty_tree(Git& git);

}  // namespace warren
