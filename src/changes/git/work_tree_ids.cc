#include "changes/git/work_tree_ids.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <sys/stat.h>

namespace warren {
namespace {

// git reads such a path differently, line by line.
bool is_one_line(std::string_view path) { return path.find('\n') == path.npos && !path.starts_with('"'); }

}  // namespace

Result<std::unordered_map<std::string, std::string>> hash_work_tree(Git& git, HostTree& tree,
                                                                    const std::vector<std::string>& paths) {
  std::unordered_map<std::string, std::string> ids;
  std::vector<std::string> files;
  std::string lines;
  for (const std::string& path : paths) {
    std::optional<struct stat> found = WARREN_TRY(tree.find("/" + path));
    if (!found || !is_one_line(path)) continue;
    if (S_ISREG(found->st_mode)) {
      files.push_back(path);
      lines += path + "\n";
    } else if (S_ISLNK(found->st_mode)) {
      std::string target = WARREN_TRY(tree.read_link("/" + path));
      ids[path] = WARREN_TRY(git.ask_with({"hash-object", "--stdin"}, target));
    }
  }
  if (files.empty()) return ids;
  std::string hashed = WARREN_TRY(git.ask_with({"hash-object", "--stdin-paths"}, lines));
  std::string_view rest = hashed;
  for (const std::string& path : files) {
    std::string_view id = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), id.size() + 1));
    ids[path] = id;
  }
  return ids;
}

}  // namespace warren
