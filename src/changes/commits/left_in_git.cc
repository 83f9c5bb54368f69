#include "changes/commits/left_in_git.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "changes/git/git.h"
#include "changes/git/git_log.h"
#include "changes/git/git_refs.h"
#include "changes/git/quarantine.h"
#include "changes/pinned/pinned_git.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::size_t kLeftNamed = 8;
constexpr std::size_t kBranchFileBytes = 4096;
constexpr std::string_view kGitPart = "/.git/";
constexpr std::string_view kTopObjects = "/.git/objects/";
constexpr std::string_view kTopBranches = "/.git/refs/heads/";
constexpr std::string_view kTopStash = "/.git/refs/stash";
constexpr std::string_view kBranches = "refs/heads/";
constexpr std::string_view kStashReference = "refs/stash";

// Git makes them again, or they say only where it was. Those that end with '/' are folders.
constexpr std::string_view kScratch[] = {
    "index",        "HEAD",       "ORIG_HEAD",  "FETCH_HEAD", "COMMIT_EDITMSG", "MERGE_MSG",        "MERGE_MODE",
    "MERGE_RR",     "SQUASH_MSG", "AUTO_MERGE", "gc.log",     "gc.pid",         "TAG_EDITMSG",      "NOTES_EDITMSG",
    "info/refs",    "logs/",      "worktrees/", "rr-cache/",  "refs/remotes/",  "NOTES_MERGE_MSG",  "lost-found/",
    "lfs/cache/",   "lfs/tmp/",   "gitk.cache", "branches/",  "index.lock",     "EDIT_DESCRIPTION", "refs/warren/",
    "refs/bisect/", "REBASE_HEAD"};
// Where a submodule's own files begin, below "modules/NAME/".
constexpr std::string_view kFolders[] = {"refs",      "objects",   "hooks",     "info",         "logs",
                                         "lfs",       "worktrees", "rr-cache",  "rebase-merge", "rebase-apply",
                                         "sequencer", "branches",  "lost-found"};

struct GitFile {
  std::string_view path;  // below the git directory: "refs/tags/v1"
  std::string_view dir;   // "/a/.git"
  bool is_of_submodule = false;
};

// "lib/x/refs/tags/v1" → "refs/tags/v1"; a submodule's name may have slashes.
std::string_view skip_module_name(std::string_view path) {
  for (std::size_t at = 0; at < path.size();) {
    std::size_t end = std::min(path.find('/', at), path.size());
    std::string_view part = path.substr(at, end - at);
    if (end == path.size()) return part;
    if (part == "modules") return skip_module_name(path.substr(end + 1));
    if (at > 0 && std::find(std::begin(kFolders), std::end(kFolders), part) != std::end(kFolders))
      return path.substr(at);
    at = end + 1;
  }
  return path;
}

std::optional<GitFile> git_file_of(std::string_view path) {
  std::size_t at = path.find(kGitPart);
  if (at == path.npos) return std::nullopt;
  constexpr std::string_view kModules = "modules/";
  GitFile file{.path = path.substr(at + kGitPart.size()), .dir = path.substr(0, at + kGitPart.size() - 1)};
  file.is_of_submodule = file.path.starts_with(kModules);
  if (file.is_of_submodule) file.path = skip_module_name(file.path.substr(kModules.size()));
  return file;
}

bool is_scratch(std::string_view path) {
  if (path.ends_with(".lock") || path.starts_with("sharedindex.") || path.starts_with("BISECT_")) return true;
  return std::any_of(std::begin(kScratch), std::end(kScratch),
                     [&](std::string_view one) { return one.ends_with('/') ? path.starts_with(one) : path == one; });
}

bool is_under_way(std::string_view path) {
  return path == "MERGE_HEAD" || path == "CHERRY_PICK_HEAD" || path == "REVERT_HEAD" ||
         path.starts_with("rebase-merge/") || path.starts_with("rebase-apply/") || path.starts_with("sequencer/");
}

// With the repository that it is of, unless that is the one at the top.
std::string of_repository(std::string_view what, const GitFile& file) {
  if (file.is_of_submodule) return fmt::format("{} of a submodule", what);
  if (file.dir == "/.git") return std::string(what);
  return fmt::format("{} in {}", what, quote(file.dir.substr(0, file.dir.size() - kGitPart.size() + 1)));
}

// Of what the agent has and the base does not have so.
std::string describe_new(const GitFile& file) {
  std::string_view path = file.path;
  bool is_top = file.dir == "/.git" && !file.is_of_submodule;
  if (path.starts_with("objects/")) return is_top ? "" : of_repository("commits", file);
  if (path.starts_with("refs/heads/")) return is_top ? "" : of_repository("branches", file);
  if (path == "refs/stash") return of_repository("the stash", file);
  if (path.starts_with("refs/tags/")) return of_repository("tags", file);
  if (path == "packed-refs") return of_repository("packed references", file);
  if (path.starts_with("refs/")) return of_repository("references", file);
  if (is_under_way(path)) return of_repository("a merge or rebase under way", file);
  std::size_t folder = path.find('/');
  if (folder == path.npos || path.starts_with("info/")) return "";
  return of_repository(fmt::format("files in {}", quote(fmt::format(".git/{}", path.substr(0, folder)))), file);
}

// What the references of the agent's repository at the top say, compared with those of the base, now and at the start.
class LeftReferences {
 public:
  LeftReferences(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git)
      : overlay_(overlay), base_(overlay.base_path) {
    Result<std::optional<PinnedGit>> pinned = find_pinned_git(overlay);
    if (pinned.ok()) pinned_ = *std::move(pinned);
    for (const TreeChange& change : in_git) {
      if (!change.after || !change.path.starts_with(kTopObjects)) continue;
      std::string name = change.path.substr(kTopObjects.size());
      if (object_file_of(name) == ObjectFile::kLoose) objects_.insert(name.erase(name.find('/'), 1));
    }
  }

  bool is_pinned() const { return pinned_.has_value(); }

  // In words, "" for none, and for a branch; nullopt for whatever is not a reference that this class judges.
  std::optional<std::string> describe(const TreeChange& change) {
    if (change.path == kTopStash) return has_own_stash() ? "the stash" : "";
    bool is_new = change.path.starts_with(kTopBranches) && change.after && change.after->is_file() && !change.before;
    if (!is_new || change.path.ends_with(".lock")) return std::nullopt;
    Result<std::string> text = read_file(overlay_.merged, change.path, {.size_bytes_max = kBranchFileBytes});
    if (!text.ok()) return std::nullopt;
    note_branch(change.path.substr(kGitPart.size()), std::string(trimmed(*text, kWhitespace)));
    return "";
  }

  // Of the file of packed references of a pinned state, which git also writes by itself (gc), and for a deleted branch.
  // Moved branches are judged by their commits, new ones by has_names_alone().
  std::vector<std::string> describe_packed() {
    Result<std::string> text =
        read_file(overlay_.merged, "/.git/packed-refs", {.size_bytes_max = limits::kGitPackedRefsBytes});
    if (!text.ok()) return {"packed references"};
    std::vector<std::string> left;
    for (const auto& [name, id] : parse_packed_references(*text)) {
      auto before = pinned_->references.find(name);
      bool is_known = before != pinned_->references.end() && (before->second == id || name.starts_with(kBranches));
      if (is_known || is_scratch(name)) continue;
      std::string what;
      if (name == kStashReference) what = has_own_stash() ? "the stash" : "";
      else if (name.starts_with(kBranches)) note_branch(name, id);
      else what = describe_new({.path = name, .dir = "/.git"});
      if (!what.empty()) left.push_back(std::move(what));
    }
    return left;
  }

  // Whether one of the branches seen so far names a commit that a reference of the start leads to: then only its name
  // is the agent's. After git has packed them, the session's own objects and the base's are in the same pack.
  bool has_names_alone() {
    if (has_other_branch_ || candidates_.empty() || !pinned_) return has_other_branch_ || !candidates_.empty();
    std::string asked;
    for (const std::string& id : candidates_) asked += fmt::format("{}\n", id);
    for (const auto& [name, id] : pinned_->references) asked += fmt::format("^{}\n", id);
    if (!pinned_->head.empty()) asked += fmt::format("^{}\n", pinned_->head);
    Result<std::string> listed = base_.ask_with({"rev-list", "--ignore-missing", "--stdin"}, asked);
    if (!listed.ok()) return true;
    std::set<std::string> of_start = candidates_;
    for (std::string_view rest = *listed; !rest.empty();) {
      std::size_t end = std::min(rest.find('\n'), rest.size());
      of_start.erase(std::string(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return !of_start.empty();
  }

 private:
  // Of the agent's branches, those whose commits are brought do not count, under whatever name.
  void note_branch(const std::string& name, const std::string& commit) {
    if (objects_.contains(commit) || is_known(name, commit)) return;
    if (is_object_id(commit)) candidates_.insert(commit);
    else has_other_branch_ = true;
  }

  // Stashes of the base were there at the start. Whatever the base does not have is the agent's.
  bool has_own_stash() {
    std::string ids;
    for (const LogEntry& entry : read_git_log(overlay_.merged, "/.git/logs/refs/stash")) ids += entry.to + "\n";
    Result<std::string> top = read_file(overlay_.merged, kTopStash, {.size_bytes_max = kBranchFileBytes});
    if (top.ok()) ids += std::string(trimmed(*top, kWhitespace)) + "\n";
    if (ids.empty()) return true;
    Result<std::string> found = base_.ask_with({"cat-file", "--batch-check=%(objecttype)"}, ids);
    return !found.ok() || found->find(" missing") != found->npos;
  }

  bool is_known(const std::string& name, const std::string& commit) {
    if (!known_) known_ = list_known();
    return known_->contains(name) || known_->contains(commit);
  }

  std::set<std::string> list_known() {
    std::set<std::string> known;
    if (pinned_) {
      for (const auto& [name, id] : pinned_->references) known.insert({name, id});
    }
    Result<std::string> listed = base_.ask({"for-each-ref", "--format=%(objectname)%0a%(refname)"});
    if (!listed.ok()) return known;  // then every name counts
    for (std::string_view rest = *listed; !rest.empty();) {
      std::size_t end = std::min(rest.find('\n'), rest.size());
      known.emplace(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return known;
  }

  const AgentOverlay& overlay_;
  Git base_;
  std::optional<PinnedGit> pinned_;
  std::set<std::string, std::less<>> objects_;
  std::set<std::string> candidates_;            // commits of new branches
  bool has_other_branch_ = false;               // that names no commit, but another branch, say
  std::optional<std::set<std::string>> known_;  // names and commits of the base's references, now and at the start
};

}  // namespace

std::string describe_left_in_git(const TreeChange& change) {
  std::optional<GitFile> file = git_file_of(change.path);
  if (!file || change.node().is_directory()) return "";
  if (file->path.starts_with("hooks/")) return "hooks";
  if (file->path == "config" || file->path == "config.worktree") return "git settings";
  bool is_new = change.after && (!change.before || change.is_content_changed);
  if (!is_new || is_scratch(file->path)) return "";
  bool is_old_reference = change.before && file->path.starts_with("refs/heads/");
  if (is_old_reference) return "";
  std::string what = describe_new(*file);
  bool is_judged_elsewhere = file->path.starts_with("objects/") || file->path.starts_with("refs/heads/");
  return what.empty() && !is_judged_elsewhere ? quote(change.path) : what;
}

std::vector<std::string> list_left_in_git(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git) {
  std::optional<Timestamp> made = find_time_of_made_repository(in_git);
  LeftReferences references(overlay, in_git);
  std::vector<std::string> left;
  auto add = [&](std::string what) {
    bool is_named = what.empty() || std::find(left.begin(), left.end(), what) != left.end();
    if (!is_named && left.size() < kLeftNamed) left.push_back(std::move(what));
    else if (!is_named && left.size() == kLeftNamed) left.emplace_back("other files in .git");
  };
  for (const TreeChange& change : in_git) {
    if (made && change.after && change.after->mtime == *made) continue;
    if (change.path == "/.git/packed-refs" && change.after && references.is_pinned()) {
      for (std::string& what : references.describe_packed()) add(std::move(what));
      continue;
    }
    std::optional<std::string> what = change.after ? references.describe(change) : std::nullopt;
    add(what ? *std::move(what) : describe_left_in_git(change));
  }
  if (references.has_names_alone()) add("branches");
  return left;
}

std::optional<Timestamp> find_time_of_made_repository(const std::vector<TreeChange>& in_git) {
  const TreeChange* alternates = nullptr;
  bool is_made = false;
  for (const TreeChange& change : in_git) {
    if (change.path == "/.git") is_made = change.after && change.after->is_directory();
    if (change.path == "/.git/objects/info/alternates" && change.after) alternates = &change;
  }
  if (!is_made || alternates == nullptr) return std::nullopt;
  return alternates->after->mtime;
}

}  // namespace warren
