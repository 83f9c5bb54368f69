#include "session/project_watch.h"

#include <algorithm>

#include "changes/git/base_heads.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::chrono::milliseconds kLookAgain{50};
constexpr std::chrono::seconds kLookFor{2};

std::string commit_of_base(Agent& agent) {
  Result<std::string> commit = find_base_commit(agent);
  return commit.ok() ? *commit : "";
}

bool add_dir(DirWatch& watch, const std::string& path) {
  Result<Fd> dir = open_host_dir(path);
  return dir.ok() && watch.add(dir->get());
}

}  // namespace

std::unique_ptr<ProjectWatch> ProjectWatch::start(const std::string& base, Agent& agent) {
  Result<DirWatch> watch = DirWatch::open();
  if (!watch.ok() || !add_dir(*watch, base + "/.git")) return nullptr;
  for (const char* name : {"/.git/logs", "/.git/refs/heads"}) add_dir(*watch, base + name);
  return std::unique_ptr<ProjectWatch>(new ProjectWatch(std::move(watch).take_value(), commit_of_base(agent)));
}

int ProjectWatch::patience_ms(int otherwise) const {
  if (std::chrono::steady_clock::now() >= look_until_) return otherwise;
  int again = static_cast<int>(kLookAgain.count());
  return otherwise < 0 ? again : std::min(otherwise, again);
}

bool ProjectWatch::has_moved(Agent& agent) {
  auto now = std::chrono::steady_clock::now();
  if (!watch_.take().empty()) look_until_ = now + kLookFor;
  if (now >= look_until_) return false;
  commit_ = commit_of_base(agent);
  if (commit_.empty() || commit_ == followed_) return false;
  look_until_ = now + kLookFor;
  return true;
}

void ProjectWatch::set_followed() { followed_ = commit_; }

}  // namespace warren
