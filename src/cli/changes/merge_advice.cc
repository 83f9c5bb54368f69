#include "cli/changes/merge_advice.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "cli/changes/changes_output.h"

namespace warren::cli {
namespace {

constexpr std::size_t kStashedPaths = 50;
constexpr std::size_t kObstaclesShown = 5;
constexpr std::size_t kShortCommit = 10;

// A file of the repository as a word of a shell's command, from whatever directory. nullopt if a terminal cannot show
// the name as it is.
std::optional<std::string> shell_pathspec(const std::string& path) {
  if (printable(path) != path) return std::nullopt;
  // Right after ":/" git takes most other characters for options of the path.
  bool is_simple = !path.empty() && (is_letter(path[0]) || is_digit(path[0]) || path[0] == '.');
  std::string whole = shell_word(":/" + path);
  return is_simple && !whole.starts_with('\'') ? whole : shell_word(":(top,literal)" + path);
}

// The files, for `git stash push` and `git add`. nullopt if they are too many.
std::optional<std::string> stash_words(const std::vector<std::string>& paths) {
  if (paths.size() > kStashedPaths) return std::nullopt;
  std::string words;
  for (const std::string& path : paths) {
    std::optional<std::string> word = shell_pathspec(path);
    if (!word) return std::nullopt;
    words += " " + *word;
  }
  return words;
}

// Local changes as the commits have them go to the stash for the merge: nothing is lost that the branch does not have.
// The stash is dropped only if it is the one that the command has made: without local changes, git makes none.
void print_with_local_changes(Output& out, const std::string& branch, const std::string& commit,
                              const MergeOutlook& outlook) {
  std::vector<std::string> all = outlook.as_committed;
  all.insert(all.end(), outlook.otherwise.begin(), outlook.otherwise.end());
  std::sort(all.begin(), all.end());
  std::string shown = out.name(listed_names(all, kObstaclesShown));
  std::optional<std::string> words = outlook.otherwise.empty() ? stash_words(all) : std::nullopt;
  if (!outlook.has_head) {
    out.print("  git merge alone would refuse, because these files are in your work tree: {}\n", shown);
    if (words) {
      out.print("  git add --{} && git merge {}   brings them into your branch\n", *words, branch);
    } else {
      out.print(
          "  git reset -q {} && git ls-files -zd :/ | git checkout-index -z --stdin   makes the commits those of your "
          "branch, keeps your files, and writes those that you do not have\n",
          branch);
    }
    return;
  }
  if (!words) {
    out.print("  git merge {}   brings them into your branch, once your local changes{} are committed or stashed: {}\n",
              branch, outlook.otherwise.empty() ? ", which equal the commits," : "", shown);
    return;
  }
  out.print("  git merge alone would refuse, because your work tree has local changes that equal the commits: {}\n",
            shown);
  std::string mark = "warren-" + commit.substr(0, kShortCommit);
  out.print("  git stash push -u -m {} --{} && git merge {} && git stash list -1 | grep -q {} && git stash drop", mark,
            *words, branch, mark);
  out.print("   brings them into your branch\n");
}

}  // namespace

void print_merge_advice(Output& out, const std::string& branch, const std::string& commit,
                        const MergeOutlook& outlook) {
  std::string name = shell_word(branch);
  if (printable(name) != name) name = "BRANCH";
  if (!outlook.is_related) {
    out.print("  they have no common ancestor with your branch, so git merge refuses; git log {} shows them\n", name);
  } else if (!outlook.as_committed.empty() || !outlook.otherwise.empty()) {
    print_with_local_changes(out, name, commit, outlook);
  } else {
    out.print("  git merge {}   brings them into your branch\n", name);
  }
  for (std::size_t i = 0; i < outlook.submodules.size() && i < kObstaclesShown; ++i) {
    const MissingSubmodule& one = outlook.submodules[i];
    out.print("  they need commit {} of the submodule {}, which yours does not have: it stays with the agent\n",
              one.commit.substr(0, kShortCommit), out.name(quote(one.path)));
  }
}

}  // namespace warren::cli
