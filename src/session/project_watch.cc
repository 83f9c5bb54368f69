#include "session/project_watch.h"

#include <algorithm>

#include "changes/git/base_heads.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::chrono::milliseconds kLookAgain{50};
constexpr std::chrono::seconds kLookFor{2};

std::string commit_of_base(const AgentOverlay& overlay) {
  Result<std::optional<GitHeads>> heads = find_base_heads(overlay);
  return heads.ok() && *heads ? (*heads)->commit : "";
}

bool add_dir(DirWatch& watch, const std::string& path) {
  Result<Fd> dir = open_host_dir(path);
  return dir.ok() && watch.add(dir->get());
}

}  // namespace

std::unique_ptr<ProjectWatch> ProjectWatch::start(const std::string& base, const AgentOverlay& overlay) {
  Result<DirWatch> watch = DirWatch::open();
  if (!watch.ok() || !add_dir(*watch, base + "/.git")) return nullptr;
  for (const char* name : {"/.git/logs", "/.git/refs/heads"}) add_dir(*watch, base + name);
  return std::unique_ptr<ProjectWatch>(new ProjectWatch(std::move(watch).take_value(), commit_of_base(overlay)));
}

int ProjectWatch::patience_ms(int otherwise) const {
  if (std::chrono::steady_clock::now() >= look_until_) return otherwise;
  int again = static_cast<int>(kLookAgain.count());
  return otherwise < 0 ? again : std::min(otherwise, again);
}

bool ProjectWatch::has_moved(const AgentOverlay& overlay) {
  auto now = std::chrono::steady_clock::now();
  if (!watch_.take().empty()) look_until_ = now + kLookFor;
  if (now >= look_until_) return false;
  std::string commit = commit_of_base(overlay);
  if (commit.empty() || commit == commit_) return false;
  commit_ = std::move(commit);
  return true;
}

}  // namespace warren
