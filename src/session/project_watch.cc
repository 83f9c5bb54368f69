#include "session/project_watch.h"

#include <algorithm>

#include "changes/git/git_refs.h"
#include "fs/host/host_fs.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::chrono::milliseconds kLookAgain{50};
constexpr std::chrono::seconds kLookFor{2};
constexpr std::chrono::milliseconds kFirstDelay = std::chrono::seconds{1};
constexpr std::chrono::milliseconds kLongestDelay = std::chrono::minutes{5};

bool add_dir(DirWatch& watch, const std::string& path) {
  Result<Fd> dir = open_host_dir(path);
  return dir.ok() && watch.add(dir->get());
}

}  // namespace

std::unique_ptr<ProjectWatch> ProjectWatch::start(const std::string& base) {
  LinkedWorktree git = find_linked_worktree(base).value_or(LinkedWorktree{base + "/.git", base + "/.git"});
  Result<DirWatch> watch = DirWatch::open();
  if (!watch.ok() || !add_dir(*watch, git.git_dir)) return nullptr;
  if (git.common != git.git_dir) add_dir(*watch, git.common);
  for (const std::string& dir : {git.git_dir + "/logs", git.common + "/refs/heads"}) add_dir(*watch, dir);
  std::unique_ptr<ProjectWatch> started(new ProjectWatch(std::move(watch).take_value(), std::move(git)));
  started->followed_ = started->find_commit();
  return started;
}

std::string ProjectWatch::find_commit() const {
  Result<std::unique_ptr<HostFs>> git_dir = HostFs::open(git_.git_dir);
  Result<std::unique_ptr<HostFs>> common = HostFs::open(git_.common);
  if (!git_dir.ok() || !common.ok()) return "";
  Result<std::string> commit = find_head_commit(**git_dir, **common);
  return commit.ok() ? *commit : "";
}

int ProjectWatch::patience_ms(int otherwise) const {
  Moment now = std::chrono::steady_clock::now();
  auto wait = kLookAgain;
  if (now < not_before_) wait = std::chrono::duration_cast<std::chrono::milliseconds>(not_before_ - now) + kLookAgain;
  else if (now >= look_until_) return otherwise;
  int again = static_cast<int>(wait.count());
  return otherwise < 0 ? again : std::min(otherwise, again);
}

bool ProjectWatch::has_moved() {
  Moment now = std::chrono::steady_clock::now();
  if (!watch_.take().empty()) look_until_ = now + kLookFor;
  bool is_time = now >= not_before_ && (now < look_until_ || put_off_.count() > 0);
  if (!is_time) return false;
  commit_ = find_commit();
  return !commit_.empty() && commit_ != followed_;
}

void ProjectWatch::set_followed() {
  followed_ = commit_;
  put_off_ = {};
}

void ProjectWatch::put_off() {
  put_off_ = std::min(std::max(put_off_ * 2, kFirstDelay), kLongestDelay);
  not_before_ = std::chrono::steady_clock::now() + put_off_;
}

}  // namespace warren
