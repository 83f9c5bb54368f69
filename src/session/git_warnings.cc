#include "session/git_warnings.h"

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/git/git.h"
#include "changes/pinned/git_rest.h"
#include "changes/pinned/linked_worktree.h"
#include "fs/host/host_fs.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

bool hides(const Plan& plan, const std::string& path) {
  const Plan::Place* nearest = nullptr;
  for (const Plan::Place& place : plan.places) {
    if (place.kind == Plan::Kind::kListed || !is_within(path, place.path)) continue;
    if (nearest == nullptr || place.path.size() >= nearest->path.size()) nearest = &place;
  }
  if (nearest != nullptr && nearest->kind == Plan::Kind::kHidden) return true;
  bool is_home = nearest == nullptr || nearest->kind == Plan::Kind::kHome;
  if (!is_home || !plan.is_in_home(path)) return false;
  return !plan.home->shown.view->shows(path_in_home(path, plan.home->path));
}

// The user's settings; "" if there is none.
std::string setting(Git& git, const char* type, const char* name) {
  Result<std::string> value = git.ask({"config", type, "--get", name});
  return value.ok() ? *std::move(value) : "";
}

// Where the key is that git signs commits with; nullopt if it signs none, or the key is not a file.
std::optional<std::string> find_signing_key(const std::string& base, const std::string& home) {
  Git git(base);
  if (setting(git, "--type=bool", "commit.gpgsign") != "true") return std::nullopt;
  std::string key;
  if (setting(git, "--no-type", "gpg.format") == "ssh") {
    key = setting(git, "--type=path", "user.signingkey");
  } else {
    const char* asked = std::getenv("GNUPGHOME");
    key = asked != nullptr ? asked : home + "/.gnupg";
  }
  if (!key.starts_with('/')) return std::nullopt;
  Result<std::string> canonical = canonical_host_path(key);
  return canonical.ok() ? std::optional(*std::move(canonical)) : std::nullopt;
}

}  // namespace

std::vector<std::string> list_git_warnings(const Plan& plan, const std::string& home) {
  std::vector<std::string> warnings;
  std::optional<std::string> top = find_repository_top(plan.base, home);
  if (!top) return warnings;
  if (*top != plan.base) {
    warnings.push_back(
        fmt::format("git cannot commit in this run: the repository {} is above the base; without --base, the whole "
                    "repository is the base of a new session",
                    quote(*top)));
    return warnings;
  }
  std::optional<std::string> key = find_signing_key(plan.base, home);
  if (key && hides(plan, *key)) {
    warnings.push_back(
        fmt::format("git is set to sign commits (commit.gpgsign), and the key {} is hidden in this run: commits fail, "
                    "unless they are made with --no-gpg-sign",
                    quote(*key)));
  }
  return warnings;
}

std::string find_git_lock_warning(const std::string& base, Clock& clock) {
  Result<std::unique_ptr<HostFs>> host = HostFs::open(base);
  if (!host.ok() || !has_old_git_lock(**host, "/.git", clock)) return "";
  return fmt::format(
      "git is at work in {}, or was interrupted: {} exists; the session begins with the state before that", quote(base),
      quote(base + "/.git/index.lock"));
}

}  // namespace warren
