// What in an agent's commits runs by itself: merging them is enough.
#include "base/ascii.h"
#include "base/json.h"
#include "base/path.h"
#include "changes/commits/commits.h"
#include "changes/git/git_settings.h"
#include "changes/linked_names.h"
#include "changes/review/remarks.h"

namespace warren {
namespace {

std::string why_committed_runs(const std::string& base, const std::string& path) {
  if (std::optional<std::string_view> why = runs_by_itself(path)) return std::string(*why);
  std::string_view name = base_name(path);
  if (name == "HEAD" || name == "commondir") return "git takes the directory for a repository";
  if (is_named_by_git(base, path)) return "the settings of git name it";
  return runs_through_link(base, path).value_or("");
}

// null if it has none, or cannot be read.
Json scripts_in(std::string_view text) {
  Result<Json> json = parse_json(text);
  return json.ok() && json->is_object() && json->contains("scripts") ? (*json)["scripts"] : Json();
}

}  // namespace

Result<std::vector<SelfRunningFile>> CommitImport::list_self_running() {
  std::vector<SelfRunningFile> found;
  std::string from = WARREN_TRY(find_merge_base(commit_));
  Captured listed = WARREN_TRY(
      joined_.run({"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=d", from, commit_}));
  if (listed.status != 0) return damaged(listed);
  for (const std::string& name : split_at_nul(listed.output)) {
    if (name.empty()) continue;
    std::string why = why_committed_runs(overlay_.base_path, "/" + name);
    if (why.empty()) continue;
    if (base_name(name) == "package.json") {  // only its scripts count
      Captured before = WARREN_TRY(joined_.run({"cat-file", "blob", from + ":" + name}));
      Captured after = WARREN_TRY(joined_.run({"cat-file", "blob", commit_ + ":" + name}));
      if (scripts_in(before.status == 0 ? before.output : "") == scripts_in(after.output)) continue;
    }
    found.push_back({"/" + name, std::string(why), false});
  }
  return found;
}

}  // namespace warren
