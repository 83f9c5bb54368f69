#include "changes/merge/session_merger.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/below.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/apply/copy_node.h"
#include "changes/conflicts.h"
#include "changes/pinned/head_versions.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"

namespace warren {
namespace {

bool is_file_or_link(const Attributes& node) { return node.is_file() || node.is_symlink(); }

bool is_special(const std::optional<Attributes>& node) {
  return node && !node->is_directory() && !is_file_or_link(*node);
}

}  // namespace

Result<SessionMerge> SessionMerger::run(const std::vector<TreeChange>& theirs) {
  WARREN_TRY(read_first());
  for (const TreeChange& change : theirs) {
    if (change.kind == TreeChangeKind::kRenamed) {
      their_moves_.emplace(change.path, change.base_path);
      their_names_.emplace(change.base_path, change.path);
    }
    if (change.kind == TreeChangeKind::kAdded && change.after->is_directory()) added_dirs_.insert(change.path);
  }
  std::vector<ChangedFile> files = WARREN_TRY(list_changed_files(second_, theirs));  // deletions first
  keep_renamed_dirs(theirs);
  auto kept = std::find_if(files.begin(), files.end(), [](const ChangedFile& file) { return file.after.has_value(); });
  for (auto file = files.begin(); file != kept; ++file) WARREN_TRY(take_file(*file));
  for (const TreeChange& change : theirs) WARREN_TRY(remove_special(change));
  WARREN_TRY(lift_renamed(theirs));
  WARREN_TRY(remove_left_dirs(theirs));
  WARREN_TRY(return_blocked(theirs));
  WARREN_TRY(take_directories(theirs));
  for (auto file = kept; file != files.end(); ++file) WARREN_TRY(take_file(*file));
  for (const TreeChange& change : theirs) WARREN_TRY(add_special(change));
  WARREN_TRY(clear_shelf());
  WARREN_TRY(remove_left_dirs(theirs));
  for (const TreeChange& change : theirs) {
    bool is_dir = change.before && change.after && change.after->is_directory() && change.is_metadata_changed;
    if (is_dir) WARREN_TRY(take_dir_metadata(change));
  }
  return std::move(report_);
}

Status SessionMerger::read_first() {
  std::vector<TreeChange> ours = WARREN_TRY(list_changes(first_));
  for (const TreeChange& change : ours) {
    if (!change.base_path.empty()) touched_.insert(change.base_path);
    if (change.kind == TreeChangeKind::kDeleted) deleted_.insert(change.base_path);
    if (change.kind != TreeChangeKind::kRenamed) continue;
    moves_.emplace(change.base_path, change.path);
    renamed_by_first_.insert(change.base_path);
  }
  return Ok{};
}

// By the longest part of the path that has moved.
std::string SessionMerger::moved_path(const Moves& moves, std::string_view path) {
  for (std::string_view at = path; at != "/"; at = split_parent(at).parent) {
    auto moved = moves.find(at);
    if (moved != moves.end()) return moved->second + std::string(path.substr(at.size()));
  }
  return std::string(path);
}

// Whether the first agent has deleted it, or a directory that it was in and from which it had not been moved.
bool SessionMerger::is_deleted(std::string_view base_path) const {
  for (std::string_view at = base_path; at != "/"; at = split_parent(at).parent) {
    if (moves_.contains(at)) return false;
    if (deleted_.contains(at)) return true;
  }
  return false;
}

// A directory of the second agent in the first: where we have put it, where the first has moved it, or below its
// parent.
std::string SessionMerger::place_of_path(std::string_view path) const {
  if (path == "/") return "/";
  auto known = dirs_.find(path);
  if (known != dirs_.end()) return known->second;
  if (added_dirs_.contains(path)) return goal_of(path);  // whatever the base has there
  auto moved = moves_.find(base_of(path));
  if (moved != moves_.end()) return moved->second;
  return goal_of(path);
}

std::string SessionMerger::goal_of(std::string_view path) const {
  SplitParent parts = split_parent(path);
  return join_path(place_of_path(parts.parent), parts.name);
}

Result<std::optional<Attributes>> SessionMerger::find(std::string_view path) { return finder_.find(path); }

Result<std::optional<Attributes>> SessionMerger::find_base_node(std::string_view base_path) {
  if (is_deleted(base_path)) return std::optional<Attributes>();  // something else may be there
  return find(place_of(base_path));
}

SessionMerger::Keep SessionMerger::settle(const std::string& path, std::string why) {
  SessionConflict conflict{.path = shown(path), .why = std::move(why), .outcome = {}};
  Keep keep = Keep::kFirst;
  if (options_.on_conflict == OnMergeConflict::kMark) {
    keep = Keep::kBoth;
    conflict.outcome = fmt::format("the version of {} stays", quote(options_.first));
  } else if (options_.on_conflict != OnMergeConflict::kReport) {
    bool is_second = options_.on_conflict == OnMergeConflict::kSecond;
    keep = is_second ? Keep::kSecond : Keep::kFirst;
    conflict.outcome = fmt::format("the version of {} was taken", quote(is_second ? options_.second : options_.first));
    conflict.is_settled = true;
  }
  report_.conflicts.push_back(std::move(conflict));
  return keep;
}

// With --conflict=first nothing of the second agent was to be taken.
void SessionMerger::leave_out(std::string_view outcome) {
  if (options_.on_conflict == OnMergeConflict::kFirst) return;
  last().is_settled = false;
  if (options_.on_conflict != OnMergeConflict::kReport) last().outcome = outcome;
}

void SessionMerger::say_left_out(const std::string& goal) {
  settle(goal, fmt::format("{} has something else there", quote(options_.first)));
  leave_out("it was left out");
}

// Directories.

Result<bool> SessionMerger::make_parents(const std::string& path) {
  std::string above(split_parent(path).parent);
  std::optional<Attributes> around;
  for (std::size_t end = 0;; end = above.find('/', end + 1)) {
    std::string part = end == 0 ? "/" : above.substr(0, end);
    std::optional<Attributes> there = WARREN_TRY(find(part));
    if (there && !there->is_directory()) return false;
    if (!there) {
      auto removed = removed_.find(part);
      const std::optional<Attributes> like = removed != removed_.end() ? removed->second : around;
      MakeDirOptions how;
      if (like) how = {.mode = like->mode & 07777, .owner = like->owner};
      there = WARREN_TRY(make_dir(first_.merged, part, how));
      forget();
    }
    around = there;
    if (end == above.npos || above == "/") return true;
  }
}

Status SessionMerger::take_directories(const std::vector<TreeChange>& theirs) {
  for (const TreeChange& change : theirs) {
    if (!change.after || !change.after->is_directory()) continue;
    if (change.kind == TreeChangeKind::kRenamed) WARREN_TRY(take_renamed_dir(change));
    else if (change.kind == TreeChangeKind::kAdded) WARREN_TRY(take_added_dir(change));
  }
  return Ok{};
}

// Those that the first agent has renamed and the second has deleted.
void SessionMerger::keep_renamed_dirs(const std::vector<TreeChange>& theirs) {
  for (const TreeChange& change : theirs) {
    bool is_dir = change.kind == TreeChangeKind::kDeleted && change.before->is_directory();
    auto moved = moves_.find(change.base_path);
    if (!is_dir || moved == moves_.end()) continue;
    Keep keep = settle(moved->second,
                       fmt::format("{} renamed it, {} deleted it", quote(options_.first), quote(options_.second)));
    if (keep != Keep::kSecond) kept_dirs_.insert(change.base_path);
  }
}

// The second agent has renamed it, the first has deleted it.
Status SessionMerger::bring_back_dir(const TreeChange& change) {
  std::string goal = goal_of(change.path);
  Keep keep = settle(goal, fmt::format("{} deleted it, {} renamed it", quote(options_.first), quote(options_.second)));
  if (keep == Keep::kFirst) {
    dirs_.emplace(change.path, goal);  // for what the second has added in it
    return Ok{};
  }
  if (keep == Keep::kBoth) {
    last().outcome = fmt::format("the version of {} is there", quote(options_.second));
    last().has_second = true;
  }
  brought_back_.insert(change.path);
  return take_dirs_of(change);
}

// A renamed directory with those in it, and with special files: what the list of changed files does not have.
Status SessionMerger::take_dirs_of(const TreeChange& change) {
  WARREN_TRY(take_added_dir(change));
  return walk(second_.merged, change.path,
              [&](const WalkEntry& entry) -> Result<WalkNext> {
                if (is_file_or_link(entry.attributes) || entry.path == change.path) return WalkNext::kContinue;
                if (their_moves_.contains(entry.path)) return WalkNext::kSkip;
                std::string goal = place_of_path(entry.path);
                if (WARREN_TRY(find(goal)) || !WARREN_TRY(make_parents(goal))) {
                  if (!entry.attributes.is_directory()) say_left_out(goal);
                  return WalkNext::kContinue;
                }
                WARREN_TRY(copy_node(second_.merged, entry.path, entry.attributes, first_.merged, goal));
                forget();
                return WalkNext::kContinue;
              },
              {.follow = Follow::kNo});
}

Status SessionMerger::take_added_dir(const TreeChange& change) {
  std::string goal = goal_of(change.path);
  dirs_.emplace(change.path, goal);
  std::optional<Attributes> there = WARREN_TRY(find(goal));
  if (there && there->is_directory()) return Ok{};
  if (there) {
    Keep keep = settle(goal, fmt::format("it is a directory in {} only", quote(options_.second)));
    bool is_other = WARREN_TRY(is_another_file(goal));
    if (is_other) leave_out("it was left out");
    if (keep != Keep::kSecond || is_other) return Ok{};
    WARREN_TRY(unlink(first_.merged, goal));
    forget();
  }
  if (!WARREN_TRY(make_parents(goal))) {
    if (WARREN_TRY(read_dir_plus(second_.merged, change.path)).empty()) say_left_out(goal);
    return Ok{};  // otherwise what is below it says so
  }
  WARREN_TRY(copy_node(second_.merged, change.path, *change.after, first_.merged, goal));
  forget();
  ++report_.taken;
  return Ok{};
}

// A directory in which the first agent has something stays.
Result<bool> SessionMerger::remove_if_empty(const std::string& dir) {
  forget();
  Status removed = remove_dir(first_.merged, dir);
  if (removed.ok()) return true;
  Code why = removed.error().code();
  bool is_kept = why == Code::kNotEmpty || why == Code::kNotFound || why == Code::kNotDirectory || why == Code::kExists;
  if (is_kept) return false;
  return std::move(removed).take_error();
}

Status SessionMerger::remove_left_dirs(const std::vector<TreeChange>& theirs) {
  for (auto change = theirs.rbegin(); change != theirs.rend(); ++change) {  // the deepest first
    bool is_dir = change->kind == TreeChangeKind::kDeleted && change->before->is_directory();
    if (!is_dir || is_at_or_below_one(change->base_path, kept_dirs_)) continue;
    std::optional<Attributes> ours = WARREN_TRY(find_base_node(change->base_path));
    std::string at = place_of(change->base_path);
    if (!ours || !WARREN_TRY(remove_if_empty(at))) continue;
    removed_.emplace(at, *ours);
    deleted_.insert(change->base_path);
    ++report_.taken;
  }
  return Ok{};
}

Status SessionMerger::take_dir_metadata(const TreeChange& change) {
  std::string at = place_of_path(change.path);
  if (!is_deleted(change.base_path)) return take_metadata(change, at);
  if (change.kind == TreeChangeKind::kRenamed) return Ok{};  // it was brought back, or not
  settle(at, fmt::format("{} deleted it, {} changed its mode, owner or attributes", quote(options_.first),
                         quote(options_.second)));
  leave_out("it stays deleted");
  return Ok{};
}

// Files and links.

Status SessionMerger::take_file(const ChangedFile& file) {
  Job job{.file = file, .at = {}, .goal = {}};
  if (file.before) job.at = place_of(file.before->path);
  if (file.after) job.goal = is_placed_by_second(file) ? goal_of(file.after->path) : job.at;
  if (file.change != nullptr && file.change->touches_hidden) {
    settle(file.path(),
           fmt::format("it would replace or move something that was hidden from {}", quote(options_.second)));
    leave_out("it was left out");
    last().is_settled = false;
    return Ok{};
  }
  if (!file.after) return take_deleted(job);
  return file.before ? take_changed(job) : take_added(job);
}

// A file that has only moved with its directory is where the first agent has moved it.
bool SessionMerger::is_placed_by_second(const ChangedFile& file) const {
  if (!file.before) return true;
  if (stays_.contains(file.before->path)) return false;
  bool is_moved_itself = file.change != nullptr && file.change->kind == TreeChangeKind::kRenamed;
  return file.is_renamed() && (is_moved_itself || !renamed_by_first_.contains(file.before->path));
}

Status SessionMerger::take_deleted(const Job& job) {
  std::optional<Attributes> ours = WARREN_TRY(find_base_node(job.file.before->path));
  if (!ours) return Ok{};
  const TreeChange* change = job.file.change;
  bool is_touched_here = is_touched(job.file.before->path) || ours->is_directory();
  if (!is_touched_here && is_at_or_below_one(job.file.before->path, kept_dirs_)) return Ok{};
  bool is_newer = change != nullptr && !WARREN_TRY(is_as_agent_saw(second_, *change));
  if (is_touched_here || is_newer) {
    Keep keep = settle(
        job.at, is_touched_here
                    ? fmt::format("{} changed it, {} deleted it", quote(options_.first), quote(options_.second))
                    : fmt::format("it was changed in the base, {} deleted an older version", quote(options_.second)));
    if (ours->is_directory()) leave_out("the directory stays");
    if (keep != Keep::kSecond || ours->is_directory()) return Ok{};
  } else {
    ++report_.taken;
  }
  WARREN_TRY(unlink(first_.merged, job.at));
  forget();
  return Ok{};
}

Status SessionMerger::take_added(const Job& job) {
  std::optional<Attributes> ours = WARREN_TRY(find(job.goal));
  const Attributes& theirs = job.file.after->node;
  if (ours) {
    bool are_files = ours->is_file() && theirs.is_file();
    if (!are_files) return choose(job, fmt::format("{} has something else there", quote(options_.first)));
    // The base may lack it only now: the agent did see it then. Not if it has moved that file, and it stays here.
    std::optional<std::string> seen;
    bool is_other = stays_.contains(base_of_first(job.goal));
    if (job.file.change != nullptr && !is_other) seen = WARREN_TRY(find_kept(second_, *job.file.change));
    return merge_contents(job, seen.value_or(""), fmt::format("{} has another one", quote(options_.first)));
  }
  if (!WARREN_TRY(make_parents(job.goal))) {
    return choose(job, fmt::format("a directory above it is something else in {}", quote(options_.first)));
  }
  ++report_.taken;
  auto other_name = written_.find(theirs.inode.value);
  if (theirs.nlink > 1 && other_name != written_.end()) {
    WARREN_TRY(link(first_.merged, other_name->second, job.goal));
  } else {
    WARREN_TRY(copy_node(second_.merged, job.file.after->path, theirs, first_.merged, job.goal));
    if (theirs.nlink > 1) written_.emplace(theirs.inode.value, job.goal);
  }
  forget();
  return Ok{};
}

Status SessionMerger::take_changed(const Job& given) {
  Job job = given;
  std::optional<Attributes> ours = WARREN_TRY(find_base_node(job.file.before->path));
  if (!ours || !is_file_or_link(*ours)) {
    if (job.file.change != nullptr) return bring_back_file(job);
    // It has only moved with its directory.
    return is_at_or_below_one(job.file.after->path, brought_back_) ? take_added(job) : Status(Ok{});
  }
  WARREN_TRY(move_to_goal(job));
  WARREN_TRY(take_content(job));
  return job.file.change == nullptr ? Status(Ok{}) : take_metadata(*job.file.change, job.goal);
}

// The second agent has changed it, the first has deleted it.
Status SessionMerger::bring_back_file(const Job& job) {
  Keep keep =
      settle(job.goal, fmt::format("{} deleted it, {} changed it", quote(options_.first), quote(options_.second)));
  std::optional<Attributes> there = WARREN_TRY(find(job.goal));
  if (keep == Keep::kFirst) return Ok{};
  if (there && keep == Keep::kBoth) return put_beside(job, job.goal, last());
  if (there || !WARREN_TRY(make_parents(job.goal))) {
    leave_out("it was left out");
    return Ok{};
  }
  if (keep == Keep::kBoth) {
    last().outcome = fmt::format("the version of {} is there", quote(options_.second));
    last().has_second = true;
  }
  WARREN_TRY(copy_node(second_.merged, job.file.after->path, job.file.after->node, first_.merged, job.goal));
  forget();
  return Ok{};
}

// Or it stays where the first agent has it.
Status SessionMerger::move_to_goal(Job& job) {
  if (job.at == job.goal) return Ok{};
  const std::string& base_path = job.file.before->path;
  std::string goal = std::exchange(job.goal, job.at);
  if (!WARREN_TRY(may_move({.base_path = base_path, .at = job.at, .goal = goal, .is_dir = false}))) {
    if (!find_shelved(job.at)) return Ok{};
    WARREN_TRY(return_home(base_path));
    job.goal = job.at = place_of(base_path);
    return Ok{};
  }
  WARREN_TRY(move_file(base_path, job.at, goal));
  job.goal = std::move(goal);
  if (job.file.change == nullptr || !job.file.change->is_content_changed) ++report_.taken;
  return Ok{};
}

Status SessionMerger::take_content(const Job& job) {
  const TreeChange* change = job.file.change;
  if (change == nullptr || !change->is_content_changed) return Ok{};
  bool is_touched_here = is_touched(job.file.before->path);
  bool is_newer = !WARREN_TRY(is_as_agent_saw(second_, *change));
  if (!is_touched_here && !is_newer) {
    ++report_.taken;
    return replace(job, job.goal);
  }
  std::string why = is_touched_here ? "both changed it" : "it was changed in the base too";
  std::optional<Attributes> ours = WARREN_TRY(find(job.goal));
  const Attributes& theirs = job.file.after->node;
  if (ours && ours->is_symlink() && theirs.is_symlink()) {
    std::string here = WARREN_TRY(read_link(first_.merged, job.goal));
    std::string there = WARREN_TRY(read_link(second_.merged, job.file.after->path));
    return here == there ? Status(Ok{}) : choose(job, why);
  }
  if (!ours || !ours->is_file() || !theirs.is_file()) return choose(job, why);
  std::optional<std::string> ancestor = WARREN_TRY(find_ancestor(job));
  return merge_contents(job, ancestor, why);
}

// Special files.

Status SessionMerger::remove_special(const TreeChange& change) {
  if (!is_special(change.before)) return Ok{};
  std::optional<Attributes> ours = WARREN_TRY(find_base_node(change.base_path));
  bool stays = is_touched(change.base_path) || is_at_or_below_one(change.base_path, kept_dirs_);
  if (!is_special(ours) || stays || change.kind == TreeChangeKind::kRenamed) return Ok{};
  forget();
  return unlink(first_.merged, place_of(change.base_path));
}

Status SessionMerger::add_special(const TreeChange& change) {
  if (!is_special(change.after)) return Ok{};
  if (change.kind == TreeChangeKind::kRenamed && is_special(WARREN_TRY(find_base_node(change.base_path))))
    return move_special(change);
  std::string goal = goal_of(change.path);
  if (WARREN_TRY(find(goal)) || !WARREN_TRY(make_parents(goal))) {
    say_left_out(goal);
    return Ok{};
  }
  ++report_.taken;
  forget();
  return copy_node(second_.merged, change.path, *change.after, first_.merged, goal);
}

Status SessionMerger::move_special(const TreeChange& change) {
  std::string at = place_of(change.base_path);
  std::string goal = goal_of(change.path);
  if (at == goal || stays_.contains(change.base_path)) return Ok{};
  if (WARREN_TRY(may_move({.base_path = change.base_path, .at = at, .goal = goal, .is_dir = false}))) {
    ++report_.taken;
    return move_file(change.base_path, at, goal);
  }
  return find_shelved(at) ? return_home(change.base_path) : Status(Ok{});
}

}  // namespace warren
