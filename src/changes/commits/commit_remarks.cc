// What in an agent's commits runs by itself: merging them is enough.
#include "base/ascii.h"
#include "base/json.h"
#include "base/path.h"
#include "changes/commits/commits.h"
#include "changes/git/blobs.h"
#include "changes/git/git_settings.h"
#include "changes/git/raw_diff.h"
#include "changes/linked_names.h"
#include "changes/review/remarks.h"

namespace warren {
namespace {

constexpr std::uint64_t kPackageBytes = std::uint64_t{16} << 20;  // nobody looks into a package.json that is larger

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
      joined_.run({"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--diff-filter=d", from, commit_}));
  if (listed.status != 0) return damaged(listed);
  std::vector<std::vector<std::string>> packages;  // of each file that is found: its versions, if it is a package.json
  for (const RawDiff& one : parse_raw_diff(listed.output)) {
    std::string why = why_committed_runs(overlay_.base_path, "/" + one.path);
    if (why.empty()) continue;
    bool is_package = base_name(one.path) == "package.json";  // only its scripts count
    packages.push_back(is_package ? std::vector{one.old_id, one.new_id} : std::vector<std::string>());
    found.push_back({"/" + one.path, std::move(why), false});
  }
  std::vector<SelfRunningFile> running;
  WARREN_TRY(visit_blobs(joined_, packages, kPackageBytes, [&](std::size_t i, const BlobTexts& texts) {
    bool is_harmless = !texts.empty() && texts[1] && scripts_in(texts[0].value_or("")) == scripts_in(*texts[1]);
    if (!is_harmless) running.push_back(std::move(found[i]));
    return Status(Ok{});
  }));
  return running;
}

}  // namespace warren
