#include "changes/review/overview.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/below.h"
#include "base/path.h"

namespace warren {
namespace {

class Folder {
 public:
  Folder(const std::vector<TreeChange>& changes, const OverviewOptions& options)
      : changes_(changes), options_(options), roots_(changes.size()) {}

  std::vector<OverviewLine> fold() {
    find_ignored();
    find_whole_dirs();
    std::unordered_map<std::string, std::size_t> lines;  // folded directory → its line
    std::vector<OverviewLine> all;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const TreeChange& change = changes_[i];
      if (roots_[i].empty()) {
        all.push_back({.change = &change, .folded = {}, .letter = change.letter()});
        continue;
      }
      auto [found, is_new] = lines.try_emplace(roots_[i], all.size());
      if (is_new) {
        bool is_ignored = ignored_.contains(roots_[i]);
        all.push_back({.change = &change, .folded = roots_[i], .letter = change.letter(), .is_ignored = is_ignored});
      }
      add(all[found->second], change);
    }
    return all;
  }

 private:
  static void add(OverviewLine& line, const TreeChange& change) {
    if (line.letter != change.letter()) line.letter = 'M';
    if (change.node().is_directory()) return;
    ++line.changes;
    line.bytes += change.node().is_file() ? change.node().size : 0;
  }

  bool is_notable(std::size_t index) const { return index < options_.notable.size() && options_.notable[index]; }

  bool is_named(std::string_view dir) const {
    return std::any_of(options_.named.begin(), options_.named.end(),
                       [&](const std::string& path) { return is_at_or_below(path, dir); });
  }

  // What git ignores, if several changes have the same ignored directory above them.
  void find_ignored() {
    std::unordered_map<std::string, std::size_t> counts;
    std::vector<std::string> found(changes_.size());
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (is_notable(i)) continue;
      auto known = options_.ignored.find(changes_[i].path);
      if (known != options_.ignored.end()) found[i] = known->second;
      if (!found[i].empty() && !changes_[i].node().is_directory()) ++counts[found[i]];
    }
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      auto count = counts.find(found[i]);
      if (count == counts.end() || count->second < 2 || is_named(found[i])) continue;
      ignored_.insert(found[i]);
      roots_[i] = std::move(found[i]);
    }
  }

  void find_whole_dirs() {
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      bool is_whole = changes_[i].kind == TreeChangeKind::kAdded || changes_[i].kind == TreeChangeKind::kDeleted;
      if (!is_whole || !changes_[i].node().is_directory() || !roots_[i].empty()) continue;
      std::vector<std::size_t> below = list_below(i);
      if (below.size() <= kFoldedNodes || is_named(changes_[i].path)) continue;
      roots_[i] = changes_[i].path;
      for (std::size_t index : below) roots_[index] = changes_[i].path;
    }
  }

  // Those of the same kind below a directory. Paths are sorted, and "/a-b" is between "/a" and "/a/b".
  std::vector<std::size_t> list_below(std::size_t dir) const {
    std::vector<std::size_t> below;
    std::string from = changes_[dir].path + "/";
    auto first =
        std::lower_bound(changes_.begin(), changes_.end(), from,
                         [](const TreeChange& change, const std::string& wanted) { return change.path < wanted; });
    for (auto it = first; it != changes_.end() && it->path.starts_with(from); ++it) {
      auto index = static_cast<std::size_t>(it - changes_.begin());
      if (it->kind == changes_[dir].kind && roots_[index].empty() && !is_notable(index)) below.push_back(index);
    }
    return below;
  }

  const std::vector<TreeChange>& changes_;
  const OverviewOptions& options_;
  std::vector<std::string> roots_;           // of each change: the directory that it is folded into; "" if none
  std::unordered_set<std::string> ignored_;  // those of roots_ that git ignores
};

}  // namespace

std::vector<OverviewLine> make_overview(const std::vector<TreeChange>& changes, const OverviewOptions& options) {
  return Folder(changes, options).fold();
}

}  // namespace warren
