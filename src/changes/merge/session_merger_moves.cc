// Where the files and directories of the base go that the second agent has renamed.
//
// If the second agent uses an old name again (it has exchanged two files, or has put a new directory in place of one
// that it has renamed), no order of renames is right. So what it alone has renamed is first moved to a directory of
// ours, the shelf.
#include <algorithm>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/below.h"
#include "base/path.h"
#include "changes/apply/copy_node.h"
#include "changes/merge/session_merger.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr int kTries = 100;

std::string renamed_to(const std::string& who, const std::string& goal) {
  return fmt::format("{} renamed it to {}", quote(who), quote(goal));
}

}  // namespace

// The shelf.

// In the directory of a node that the second agent has moved away or deleted, perhaps under a new name of that
// directory.
Result<bool> SessionMerger::uses_names_again(const std::vector<TreeChange>& theirs) {
  TreeFinder finder(second_.merged);
  for (const TreeChange& change : theirs) {
    bool is_free = change.kind == TreeChangeKind::kRenamed ||
                   (change.kind == TreeChangeKind::kDeleted && change.before->is_directory());
    if (!is_free) continue;
    SplitParent parts = split_parent(change.base_path);
    if (WARREN_TRY(finder.find(join_path(moved_path(their_names_, parts.parent), parts.name)))) return true;
  }
  return false;
}

Status SessionMerger::make_shelf() {
  for (int number = 1; number <= kTries; ++number) {
    shelf_ = fmt::format("/.warren-merge-{}", number);
    if (WARREN_TRY(find(shelf_))) continue;
    forget();
    WARREN_TRY(make_dir(first_.merged, shelf_, {.mode = 0700}));
    return Ok{};
  }
  return Error(Code::kExists, "there is no free name for a directory of the merge", "remove /.warren-merge-1");
}

// Not what the first agent has renamed, too: that is moved only when it is certain where to.
Status SessionMerger::lift_renamed(const std::vector<TreeChange>& theirs) {
  if (!WARREN_TRY(uses_names_again(theirs))) return Ok{};
  WARREN_TRY(make_shelf());
  for (const TreeChange& change : theirs) {
    bool is_theirs = change.kind == TreeChangeKind::kRenamed && !change.touches_hidden &&
                     !renamed_by_first_.contains(change.base_path);
    if (!is_theirs) continue;
    std::optional<Attributes> ours = WARREN_TRY(find_base_node(change.base_path));
    if (ours && (ours->mode & S_IFMT) == (change.after->mode & S_IFMT))
      homes_.emplace(change.base_path, place_of(change.base_path));
  }
  for (const auto& [base_path, home] : homes_) lifted_at_.emplace(home, base_path);
  for (auto home = homes_.begin(); home != homes_.end();) {
    std::string from = place_of(home->first);
    std::string to = fmt::format("{}/{}", shelf_, slots_.size());
    slots_.push_back(home->first);
    forget();
    Status moved = rename(first_.merged, from, to, RenameMode::kNoReplace);
    if (moved.ok()) {
      note_moved(home->first, from, to);
      ++home;
      continue;
    }
    if (moved.error().code() != Code::kCrossDevice) return moved;
    lifted_at_.erase(home->second);
    home = homes_.erase(home);
  }
  return Ok{};
}

// Where it was in the first agent before it was lifted. The directory that it was in may have moved, too.
std::string SessionMerger::home_of(const std::string& home) const {
  for (std::string_view at = split_parent(home).parent; at != "/"; at = split_parent(at).parent) {
    auto dir = lifted_at_.find(at);
    if (dir != lifted_at_.end()) return place_of(dir->second) + home.substr(at.size());
  }
  return home;
}

std::optional<SessionMerger::Shelved> SessionMerger::find_shelved(const std::string& path) const {
  if (shelf_.empty() || path.size() <= shelf_.size() || !is_at_or_below(path, shelf_)) return std::nullopt;
  std::string_view rest = std::string_view(path).substr(shelf_.size() + 1);
  std::size_t end = std::min(rest.find('/'), rest.size());
  std::optional<std::size_t> slot = parse_number<std::size_t>(rest.substr(0, end));
  if (!slot || *slot >= slots_.size()) return std::nullopt;
  return Shelved{.base_path = slots_[*slot], .below = rest.substr(end)};
}

// A path in the first agent as the user knows it.
std::string SessionMerger::shown(const std::string& path) const {
  std::optional<Shelved> shelved = find_shelved(path);
  if (!shelved) return path;
  return shown(home_of(homes_.find(shelved->base_path)->second) + std::string(shelved->below));
}

// Where a path in the first agent will be once all that was lifted has its new name. nullopt if that is nowhere: the
// directories of both agents would be inside each other.
std::optional<std::string> SessionMerger::final_place_of(std::string path) const {
  for (std::size_t steps = 0; steps <= slots_.size(); ++steps) {
    std::optional<Shelved> shelved = find_shelved(path);
    if (!shelved) return path;
    path = goal_of(their_names_.find(shelved->base_path)->second) + std::string(shelved->below);
  }
  return std::nullopt;
}

Status SessionMerger::return_home(const std::string& base_path) {
  return put_back(base_path, home_of(homes_.find(base_path)->second));
}

// At its home, or under a name like it if something else is there. If its home has come to be inside it, or below a
// file: at the top.
Status SessionMerger::put_back(const std::string& base_path, std::string home) {
  std::string from = place_of(base_path);
  bool is_possible = !is_at_or_below(home, from) && WARREN_TRY(make_parents(home));
  if (!is_possible) home = join_path("/", split_parent(home).name);
  std::string to = home;
  for (int number = 1; WARREN_TRY(find(to)); ++number) {
    if (number > kTries) return Error(Code::kExists, fmt::format("there is no free name like {}", quote(home)));
    to = fmt::format("{}~{}", home, number);
  }
  forget();
  WARREN_TRY(rename(first_.merged, from, to, RenameMode::kNoReplace));
  note_moved(base_path, from, to);
  return Ok{};
}

// Those that have no place where the second agent has put them. Each may be in the way of another.
Status SessionMerger::return_blocked(const std::vector<TreeChange>& theirs) {
  for (bool is_certain = false; !is_certain;) {
    is_certain = true;
    for (const TreeChange& change : theirs) {
      bool is_lifted = change.kind == TreeChangeKind::kRenamed && homes_.contains(change.base_path) &&
                       !stays_.contains(change.base_path);
      if (!is_lifted) continue;
      Move move{.base_path = change.base_path,
                .at = place_of(change.base_path),
                .goal = goal_of(change.path),
                .is_dir = change.after->is_directory()};
      if (WARREN_TRY(may_move(move))) continue;
      WARREN_TRY(return_home(change.base_path));
      is_certain = false;
    }
  }
  return Ok{};
}

Status SessionMerger::clear_shelf() {
  if (shelf_.empty()) return Ok{};
  for (const auto& [base_path, home] : homes_) {
    if (split_parent(place_of(base_path)).parent == shelf_) WARREN_TRY(return_home(base_path));
  }
  forget();
  return remove_dir(first_.merged, shelf_);
}

// Moves.

// What is in the way; "" if nothing is. A goal in a directory on the shelf is looked at where that directory will be,
// too: it may be united with one of the first agent's.
Result<std::string> SessionMerger::find_obstacle(const Move& move, bool may_unite) {
  std::optional<std::string> final_goal = final_place_of(move.goal);
  bool is_inside_itself = move.is_dir && (!final_goal || is_at_or_below(move.goal, move.at));
  std::string obstacle;
  if (is_inside_itself) obstacle = fmt::format("which is inside it in {}", quote(options_.first));
  if (obstacle.empty()) obstacle = WARREN_TRY(find_in_the_way(move.goal, may_unite));
  if (obstacle.empty() && final_goal && *final_goal != move.goal)
    obstacle = WARREN_TRY(find_in_the_way(*final_goal, may_unite));
  if (obstacle.empty()) return obstacle;
  return fmt::format("{}, {}", renamed_to(options_.second, final_goal.value_or(shown(move.goal))), obstacle);
}

Result<std::string> SessionMerger::find_in_the_way(const std::string& goal, bool may_unite) {
  std::optional<Attributes> there = WARREN_TRY(find(goal));
  if (there && !(may_unite && there->is_directory()))
    return fmt::format("where {} has something else", quote(options_.first));
  for (std::string_view dir = split_parent(goal).parent; dir != "/"; dir = split_parent(dir).parent) {
    std::optional<Attributes> above = WARREN_TRY(find(dir));
    if (above && above->is_directory()) break;
    if (above) return fmt::format("and a directory above that is something else in {}", quote(options_.first));
  }
  return std::string();
}

// Whether it may be moved to its goal, and nothing but a directory that it is to be united with is there. Otherwise
// that is a conflict, and it stays where the first agent has it.
Result<bool> SessionMerger::may_move(const Move& move) {
  bool is_by_both = renamed_by_first_.contains(move.base_path);
  std::string obstacle = WARREN_TRY(find_obstacle(move, move.is_dir && !is_by_both));
  if (!is_by_both && obstacle.empty()) return true;
  std::string why =
      is_by_both ? fmt::format("both renamed it, {} to {}", quote(options_.second), quote(shown(move.goal))) : obstacle;
  Keep keep = settle(shown(move.at), std::move(why));
  if (!obstacle.empty()) leave_out("its name stays");
  if (keep == Keep::kSecond && obstacle.empty()) return true;
  stays_.insert(move.base_path);
  return false;
}

Status SessionMerger::move_file(const std::string& base_path, const std::string& from, const std::string& goal) {
  WARREN_TRY(make_parents(goal));
  forget();
  WARREN_TRY(rename(first_.merged, from, goal, RenameMode::kNoReplace));
  moves_.insert_or_assign(base_path, goal);
  return Ok{};
}

Status SessionMerger::take_renamed_dir(const TreeChange& change) {
  std::optional<Attributes> old = WARREN_TRY(find_base_node(change.base_path));
  if (!old || !old->is_directory()) return bring_back_dir(change);
  std::string from = place_of(change.base_path);
  std::string goal = goal_of(change.path);
  bool is_moved_by_both = renamed_by_first_.contains(change.base_path);
  bool stays = goal == from || stays_.contains(change.base_path);
  Move move{.base_path = change.base_path, .at = from, .goal = goal, .is_dir = true};
  if (stays || !WARREN_TRY(may_move(move))) {
    dirs_.insert_or_assign(change.path, from);
    return Ok{};
  }
  WARREN_TRY(make_parents(goal));
  WARREN_TRY(move_dir(from, goal));
  moves_.insert_or_assign(change.base_path, goal);
  dirs_.insert_or_assign(change.path, goal);
  if (!is_moved_by_both) ++report_.taken;
  return Ok{};
}

// A directory as a whole, with what the first agent has in it. If its goal is a directory, both become one.
Status SessionMerger::move_dir(const std::string& from, const std::string& goal) {
  forget();
  Attributes node = WARREN_TRY(lstat(first_.merged, from));
  if (!WARREN_TRY(find(goal))) {
    forget();
    Status moved = rename(first_.merged, from, goal, RenameMode::kNoReplace);
    if (moved.ok()) {
      follow(from, goal);
      return Ok{};
    }
    if (moved.error().code() != Code::kCrossDevice) return moved;
    WARREN_TRY(copy_node(first_.merged, from, node, first_.merged, goal));  // without what is in it
  }
  forget();
  removed_.emplace(shown(from), node);
  for (const NamedAttributes& child : WARREN_TRY(read_dir_plus(first_.merged, from))) {
    WARREN_TRY(unite_child(join_path(from, child.name), join_path(goal, child.name), child.attributes.is_directory()));
  }
  WARREN_TRY(remove_if_empty(from));
  for (auto& [of, path] : moves_) {
    if (path == from) path = goal;
  }
  return Ok{};
}

Status SessionMerger::unite_child(const std::string& from, const std::string& goal, bool is_dir) {
  std::optional<Attributes> there = WARREN_TRY(find(goal));
  if (is_dir && (!there || there->is_directory())) return move_dir(from, goal);
  if (!there) {
    forget();
    WARREN_TRY(rename(first_.merged, from, goal, RenameMode::kNoReplace));
    follow(from, goal);
    return Ok{};
  }
  settle(shown(from),
         fmt::format("{}, where {} has something else", renamed_to(options_.second, goal), quote(options_.first)));
  leave_out("its name stays");
  std::string base_path = base_of_first(from);
  stays_.insert(base_path);
  moves_.insert_or_assign(base_path, from);
  bool is_lifted = !shelf_.empty() && is_at_or_below(from, shelf_);
  return is_lifted ? put_back(base_path, shown(from)) : Status(Ok{});
}

// Of a node in the first agent: where the base has it, if it is of the base.
std::string SessionMerger::base_of_first(const std::string& path) const {
  std::string best;
  std::string base_path = path;
  for (const auto& [of, at] : moves_) {
    if (at.size() < best.size() || !is_at_or_below(path, at)) continue;
    best = at;
    base_path = of + path.substr(at.size());
  }
  return base_path;
}

// Whether a node of the base is there that the second agent has elsewhere: because the first has moved it there, or a
// directory that it is in, or because it stays where it was.
Result<bool> SessionMerger::is_another_file(const std::string& path) {
  std::string base_path = base_of_first(path);
  if (stays_.contains(base_path)) return true;
  if (base_path == path || is_deleted(base_path)) return false;
  TreeFinder base(first_.base);
  std::optional<Attributes> node = WARREN_TRY(base.find(base_path));
  return node.has_value();
}

void SessionMerger::follow(const std::string& from, const std::string& goal) {
  auto move = [&](std::string& path) {
    if (is_at_or_below(path, from)) path.replace(0, from.size(), goal);
  };
  for (auto& [of, path] : moves_) move(path);
  for (auto& [of, path] : dirs_) move(path);
}

void SessionMerger::note_moved(const std::string& base_path, const std::string& from, const std::string& goal) {
  follow(from, goal);
  moves_.insert_or_assign(base_path, goal);
}

}  // namespace warren
