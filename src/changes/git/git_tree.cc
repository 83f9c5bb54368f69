#include "changes/git/git_tree.h"

#include <algorithm>

namespace warren {
namespace {

constexpr std::size_t kTreePathsAtOnce = 200;  // in one command

}  // namespace

// "100644 blob ID\tPATH"
std::vector<GitTreeEntry> parse_git_tree(std::string_view text) {
  std::vector<GitTreeEntry> entries;
  for (std::string_view line : split_at_nul(text)) {
    std::size_t tab = line.find('\t');
    if (tab == line.npos) continue;
    std::string_view node = line.substr(0, tab);
    std::size_t id = node.rfind(' ');
    if (id == node.npos) continue;
    entries.push_back({.mode = std::string(node.substr(0, node.find(' '))),
                       .id = std::string(node.substr(id + 1)),
                       .path = std::string(line.substr(tab + 1))});
  }
  return entries;
}

Result<std::vector<GitTreeEntry>> find_in_commit(Git git, const std::string& commit,
                                                 const std::vector<std::string>& paths) {
  git.set_variable("GIT_LITERAL_PATHSPECS", "1");
  std::vector<GitTreeEntry> found;
  for (std::size_t at = 0; at < paths.size(); at += kTreePathsAtOnce) {
    std::vector<std::string> words{"ls-tree", "-z", "--full-tree", commit, "--"};
    std::size_t end = std::min(paths.size(), at + kTreePathsAtOnce);
    for (std::size_t i = at; i < end; ++i) words.push_back(paths[i]);
    std::string listed = WARREN_TRY(git.ask(words));
    for (GitTreeEntry& entry : parse_git_tree(listed)) found.push_back(std::move(entry));
  }
  return found;
}

Result<std::vector<GitTreeEntry>> list_git_tree(Git git, const std::string& tree, const std::string& dir) {
  git.set_variable("GIT_LITERAL_PATHSPECS", "1");
  std::vector<std::string> words{"ls-tree", "-r", "-z", "--full-tree", tree};
  if (!dir.empty()) words.insert(words.end(), {"--", dir});
  std::string listed = WARREN_TRY(git.ask(words));
  return parse_git_tree(listed);
}

}  // namespace warren
