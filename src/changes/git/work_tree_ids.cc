#include "changes/git/work_tree_ids.h"

#include <optional>
#include <string_view>

#include <sys/stat.h>

#include "text/diff/git_patch.h"

namespace warren {

Result<std::unordered_map<std::string, std::string>> hash_work_tree(Git& git, HostTree& tree,
                                                                    const std::vector<std::string>& paths) {
  std::unordered_map<std::string, std::string> ids;
  std::vector<std::string> files;
  std::string lines;
  for (const std::string& path : paths) {
    std::optional<struct stat> found = WARREN_TRY(tree.find("/" + path));
    if (!found) continue;
    if (S_ISREG(found->st_mode)) {
      files.push_back(path);
      lines += git_quote("", path) + "\n";
    } else if (S_ISLNK(found->st_mode)) {
      std::string target = WARREN_TRY(tree.read_link("/" + path));
      ids[path] = WARREN_TRY(git.ask_with({"hash-object", "--stdin"}, target));
    }
  }
  if (files.empty()) return ids;
  std::string hashed = WARREN_TRY(git.ask_with({"hash-object", "--stdin-paths"}, lines));
  auto file = files.begin();
  for_each_line(hashed, [&](std::string_view id) {
    if (file != files.end()) ids[*file++] = id;
  });
  return ids;
}

}  // namespace warren
