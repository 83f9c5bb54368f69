#include "tools/agent/visible_changes.h"

#include "tools/files/file_tools.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

bool has_several_names(const std::optional<Attributes>& node) {
  return node && !node->is_directory() && node->nlink > 1;
}

}  // namespace

std::string ShownPaths::at(const std::string& path) const { return is_project ? project_path_of(path) : path; }

Result<std::vector<TreeChange>> visible_changes(ToolContext& context, ShownPaths paths,
                                                std::vector<TreeChange> changes) {
  std::vector<TreeChange> kept;
  for (TreeChange& change : changes) {
    bool is_linked = has_several_names(change.before) || has_several_names(change.after);
    if (is_linked && context.view.caller().space == Space::kUser) continue;
    bool may_see = WARREN_TRY(context.view.may(Rights::kRead, paths.at(change.path)));
    if (may_see && !change.base_path.empty() && change.base_path != change.path) {
      may_see = WARREN_TRY(context.view.may(Rights::kRead, paths.at(change.base_path)));
    }
    if (may_see) kept.push_back(std::move(change));
  }
  return kept;
}

}  // namespace warren
