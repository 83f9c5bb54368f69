#include "changes/upper/upper_tree.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/below.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/compare.h"
#include "fs/list_dir.h"
#include "fs/overlay/recorded.h"
#include "fs/walked_dirs.h"

namespace warren {
namespace {

// The row of the path itself, or of the nearest directory above it that has one; end() if there is none. Few lookups,
// however deep the path is.
template <class Rows>
typename Rows::const_iterator find_nearest(const Rows& rows, std::string_view path) {
  while (path.size() > 1) {
    auto after = rows.upper_bound(path);
    if (after == rows.begin()) break;
    auto before = std::prev(after);
    if (is_at_or_below(path, before->first)) return before;
    // Every directory above the path that has a row is above this one, too.
    auto common = static_cast<std::size_t>(std::ranges::mismatch(path, before->first).in1 - path.begin());
    std::size_t end = path.rfind('/', common);
    if (end == path.npos) break;
    path = path.substr(0, end);
  }
  return rows.end();
}

}  // namespace

bool is_as_recorded(const Attributes& node, const Origin& origin) {
  return origin.seen && is_as_recorded(node, *origin.seen);
}

bool UpperNode::is_untouched() const {
  if (origin == nullptr || is_nameless || !is_as_recorded(node, *origin)) return false;
  bool has_one_name = node.nlink == 1;
  if (is_kept_new()) return there && (has_one_name || there->inode == origin->seen->inode);
  bool is_moved_alone = !there && path != place;  // with a directory: what the base does not have is nowhere else
  return has_one_name && origin->base_path == place && !is_moved_alone;
}

Result<UpperTree> UpperTree::read(const AgentOverlay& overlay, TreeFinder& base) {
  UpperTree tree;
  WARREN_TRY(tree.load_rows(overlay.upper));
  WARREN_TRY(tree.walk(overlay.upper, base));
  // What was moved out of a directory follows that first.
  for (int round = 0; round < limits::kTreeDepth; ++round) {
    bool has_moved = WARREN_TRY(tree.follow_moves(overlay.base));
    if (!has_moved) break;
    WARREN_TRY(tree.walk(overlay.upper, base));
  }
  WARREN_TRY(tree.find_gaps(base));
  WARREN_TRY(tree.find_nameless(overlay, base));
  return tree;
}

Status UpperTree::load_rows(UpperLayer& upper) {
  std::vector<Origin> rows = WARREN_TRY(upper.list_origins());
  origins_.reserve(rows.size());
  for (Origin& row : rows) {
    Inode node = row.upper;
    origins_.insert_or_assign(node, std::move(row));
  }
  whiteouts_ = WARREN_TRY(upper.list_whiteouts());
  std::sort(whiteouts_.begin(), whiteouts_.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  std::vector<Cover> covers = WARREN_TRY(upper.list_covers());
  for (Cover& cover : covers) covers_.emplace(cover.base_path, std::move(cover));
  return Ok{};
}

const Cover* UpperTree::find_cover(std::string_view base_path) const {
  auto nearest = find_nearest(covers_, base_path);
  if (nearest == covers_.end()) return nullptr;
  // What is below a covered name does not show: there, a record holds even if nothing else has the name.
  for (std::string_view at = nearest->first; at.size() > 1; at = split_parent(at).parent) {
    if (covered_.contains(std::string(at))) return &nearest->second;
  }
  return nullptr;
}

std::vector<const Cover*> UpperTree::covers_of(std::string_view base_path) const {
  std::vector<const Cover*> found;
  auto own = covers_.find(base_path);
  if (own != covers_.end()) found.push_back(&own->second);
  std::string below = join_path(base_path, "");
  for (auto at = covers_.lower_bound(below); at != covers_.end() && at->first.starts_with(below); ++at) {
    found.push_back(&at->second);
  }
  return found;
}

bool UpperTree::is_only_hidden(const UpperGap& gap) const {
  const Cover* cover = find_cover(gap.place);
  return cover != nullptr && !cover->seen;
}

bool UpperTree::is_frozen(const UpperNode& node) const {
  bool is_copy = node.origin != nullptr && !node.place.empty() && node.origin->base_path == node.place;
  return is_copy && covers_.contains(node.place);
}

const Origin* UpperTree::find_origin(Inode upper) const {
  auto found = origins_.find(upper);
  return found == origins_.end() ? nullptr : &found->second;
}

const Whiteout* UpperTree::find_whiteout(std::string_view path) const {
  auto found = std::lower_bound(whiteouts_.begin(), whiteouts_.end(), path,
                                [](const Whiteout& row, std::string_view wanted) { return row.path < wanted; });
  return found == whiteouts_.end() || found->path != path ? nullptr : &*found;
}

std::span<const Whiteout> UpperTree::whiteouts_below(std::string_view path) const {
  std::string below = join_path(path, "");
  auto first = std::ranges::lower_bound(whiteouts_, below, {}, &Whiteout::path);
  return {first,
          std::find_if_not(first, whiteouts_.end(), [&](const auto& row) { return row.path.starts_with(below); })};
}

const UpperNode* UpperTree::find(std::string_view path) const {
  if (path == "/") return &root_node_;
  auto found = by_path_.find(std::string(path));
  return found == by_path_.end() ? nullptr : &nodes_[found->second];
}

const UpperGap* UpperTree::find_gap(std::string_view path) const {
  auto found = std::lower_bound(gaps_.begin(), gaps_.end(), path,
                                [](const UpperGap& gap, std::string_view wanted) { return gap.path < wanted; });
  return found == gaps_.end() || found->path != path ? nullptr : &*found;
}

Result<UpperNode> UpperTree::look(const UpperNode& dir, const DirEntry& entry, TreeFinder& base) {
  UpperNode node;
  node.path = join_path(dir.path, entry.name);
  node.node = *entry.attributes;
  node.parent = dir.node.inode;
  node.parent_changed = dir.node.ctime;
  node.origin = find_origin(entry.inode);
  if (const std::string* counterpart = dir.counterpart()) {
    node.place = join_path(*counterpart, entry.name);
    node.there = WARREN_TRY(base.find(node.place));
  }
  if (!node.node.is_directory()) return node;
  if (node.origin != nullptr) {
    if (!node.origin->base_path.empty()) node.base_path = node.origin->base_path;
  } else if (node.there && node.there->is_directory() && !dir.replaces_dir) {
    node.base_path = node.place;
  }
  bool covers_dir = node.there && node.there->is_directory() && !shown_.contains(node.place);
  node.replaces_dir = !node.base_path && covers_dir;
  return node;
}

// Of the nodes as they were matched with the base; true if the origin of one is another now.
Result<bool> UpperTree::follow_moves(FileSystem& base) {
  std::vector<MovedCopy> dirs;
  std::vector<MovedCopy> others;
  for (const UpperNode& node : nodes_) {
    bool is_moved = node.origin != nullptr && node.origin->seen && !node.origin->base_path.empty() && node.there &&
                    node.origin->base_path != node.place && names_of(node.node.inode).size() == 1;
    if (!is_moved) continue;
    (node.node.is_directory() ? dirs : others).push_back({node.origin->base_path, node.place, *node.origin->seen});
  }
  std::set<std::string, std::less<>> shown(shown_.begin(), shown_.end());
  BaseMoves moves = find_base_moves(base, dirs, shown);
  // As long as a directory above it has another path, the origin and the place of a file may be those of other files.
  if (moves.empty()) moves = find_base_moves(base, others, shown);
  if (moves.empty()) return false;
  for (auto& [upper, row] : origins_) {
    bool has_moved = WARREN_TRY(follow(moves, base, row));
    if (has_moved) followed_.insert(upper);
  }
  moves_.add_later(moves);
  return true;
}

Status UpperTree::walk(UpperLayer& upper, TreeFinder& base) {
  nodes_.clear();
  by_path_.clear();
  names_.clear();
  hidden_.clear();
  covered_.clear();
  moved_.clear();
  shown_.clear();
  for (const auto& [node, row] : origins_) {
    if (!row.base_path.empty()) shown_.insert(row.base_path);
  }
  root_ = WARREN_TRY(upper.fs().get_attributes(kRootInode));
  root_node_.path = "/";
  root_node_.node = root_;
  root_node_.place = "/";
  root_node_.base_path = "/";
  root_node_.origin = find_origin(kRootInode);
  root_node_.there = WARREN_TRY(base.find("/"));
  WalkedDirs walked(upper.fs());
  std::vector<UpperNode> pending{root_node_};
  while (!pending.empty()) {
    UpperNode dir = std::move(pending.back());
    pending.pop_back();
    WARREN_TRY(walked.enter(dir.node.inode, dir.path));
    std::vector<DirEntry> entries = WARREN_TRY(list_dir(upper.fs(), dir.node.inode, DirDetail::kAttributes));
    for (const DirEntry& entry : entries) {
      UpperNode node = WARREN_TRY(look(dir, entry, base));
      bool shows_place =
          node.base_path == node.place || (node.origin != nullptr && node.origin->base_path == node.place);
      if (node.there && !shows_place) hidden_.insert(node.place);
      bool is_recorded = node.origin != nullptr && (node.origin->base_path == node.place || node.is_kept_new());
      if (!node.place.empty() && !is_recorded) covered_.insert(node.place);
      if (node.base_path && node.base_path != node.place) moved_.emplace(*node.base_path, node.path);
      if (node.node.is_directory()) pending.push_back(node);
      by_path_.emplace(node.path, nodes_.size());
      names_[node.node.inode].push_back(nodes_.size());
      nodes_.push_back(std::move(node));
    }
  }
  return Ok{};
}

// The base path of a path that may not be in the upper layer; `dir` becomes the nearest directory above it that is.
// nullopt if nothing of the base shows there, or a directory above is deleted.
std::optional<std::string> UpperTree::place_of(std::string_view path, const UpperNode** dir) const {
  std::string_view above = path;
  for (;;) {
    above = split_parent(above).parent;
    const UpperNode* found = find(above);
    if (found != nullptr) {
      *dir = found;
      if (!found->base_path) return std::nullopt;
      std::string_view rest = path.substr(above == "/" ? 1 : above.size() + 1);
      return join_path(*found->base_path, rest);
    }
    if (find_whiteout(above) != nullptr) return std::nullopt;
  }
}

Status UpperTree::find_gaps(TreeFinder& base) {
  for (const Whiteout& row : whiteouts_) {
    if (find(row.path) != nullptr) continue;  // something else took the name: it is in hidden_
    const UpperNode* dir = nullptr;
    std::optional<std::string> place = place_of(row.path, &dir);
    if (!place) continue;
    UpperGap gap{.path = row.path, .place = *place, .there = {}, .row = &row, .known_at = dir->node.ctime};
    gap.there = WARREN_TRY(base.find(*place));
    bool is_ended = moves_.contains(*place) && !(gap.there && row.seen && gap.there->inode == row.seen->inode);
    if (is_ended) {
      ended_whiteouts_.push_back(row.path);
      continue;
    }
    covered_.insert(*place);
    hidden_.insert(*std::move(place));
    gaps_.push_back(std::move(gap));
  }
  return Ok{};
}

// Finds every base name of the wanted nodes that the merged tree shows.
Result<UpperTree::Places> UpperTree::search_base(const AgentOverlay& overlay, TreeFinder& base,
                                                 const Places& wanted) const {
  Places found;
  std::vector<std::string> pending{"/"};
  while (!pending.empty()) {
    std::string dir = std::move(pending.back());
    pending.pop_back();
    std::optional<Attributes> there = WARREN_TRY(base.find(dir));
    if (!there || !there->is_directory()) continue;
    Result<std::vector<DirEntry>> entries = list_dir(overlay.base, there->inode, DirDetail::kNames);
    if (!entries.ok() && entries.error().code() == Code::kDenied) continue;  // the agent cannot list it either
    if (!entries.ok()) return std::move(entries).take_error();
    for (const DirEntry& entry : *entries) {
      std::string place = join_path(dir, entry.name);
      bool is_name = wanted.contains(entry.inode) && !is_gone(place);
      if (is_name) found[entry.inode].push_back(place);
      if (S_ISDIR(entry.type)) pending.push_back(std::move(place));
    }
  }
  return found;
}

// A copy that has lost its own name still shows under the base's other names for the node: list it under the first.
Status UpperTree::find_nameless(const AgentOverlay& overlay, TreeFinder& base) {
  Places wanted;
  for (const auto& [upper, row] : origins_) {
    bool may_show = row.hidden_names > 0 && row.seen && !row.seen->is_directory() && !names_.contains(upper);
    if (may_show) wanted[row.seen->inode];
  }
  if (wanted.empty()) return Ok{};
  Places found = WARREN_TRY(search_base(overlay, base, wanted));
  for (auto& [upper, row] : origins_) {
    auto places = row.seen && !names_.contains(upper) ? found.find(row.seen->inode) : found.end();
    if (places == found.end()) continue;
    row.base_path = *std::min_element(places->second.begin(), places->second.end());
    UpperNode node;
    node.path = path_of(row.base_path);
    node.node = WARREN_TRY(overlay.upper.fs().get_attributes(upper));
    node.place = row.base_path;
    node.there = WARREN_TRY(base.find(row.base_path));
    node.origin = &row;
    node.parent_changed = node.node.ctime;
    node.is_nameless = true;
    by_path_.emplace(node.path, nodes_.size());
    names_[upper].push_back(nodes_.size());
    nodes_.push_back(std::move(node));
  }
  return Ok{};
}

std::string UpperTree::path_of(std::string_view base_path) const {
  for (std::string_view at = split_parent(base_path).parent; at != "/"; at = split_parent(at).parent) {
    auto moved = moved_.find(std::string(at));
    if (moved != moved_.end()) return moved->second + std::string(base_path.substr(at.size()));
  }
  return std::string(base_path);
}

bool UpperTree::is_gone(std::string_view base_path) const {
  for (std::string_view at = base_path;; at = split_parent(at).parent) {
    if (at != base_path && moved_.contains(std::string(at))) return false;
    if (hidden_.contains(std::string(at))) return true;
    if (at == "/") return false;
  }
}

}  // namespace warren
