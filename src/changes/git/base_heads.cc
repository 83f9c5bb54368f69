#include "changes/git/base_heads.h"

#include "changes/git/git.h"
#include "fs/path_ops.h"

namespace warren {

namespace {
constexpr std::string_view kBaseGit = "/.git";
}  // namespace

Result<std::optional<GitHeads>> find_base_heads(const AgentOverlay& overlay) {
  Result<Attributes> node = lstat(overlay.base, kBaseGit);
  if (!node.ok() || !node->is_file()) return find_git_heads(overlay.base, std::string(kBaseGit));
  Git git(overlay.base_path);
  std::string listed =
      WARREN_TRY(git.ask({"for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads"}));
  GitHeads heads;
  for_each_line(listed, [&](std::string_view line) {
    std::size_t space = line.rfind(' ');
    if (space != line.npos) heads.branches.emplace(line.substr(0, space), line.substr(space + 1));
  });
  heads.commit = WARREN_TRY(find_head_of(git));
  return std::optional(std::move(heads));
}

}  // namespace warren
