// The part of OverlayFs that follows the base while programs use the agent.
#include <algorithm>

#include "base/below.h"
#include "base/path.h"
#include "base/side_change.h"
#include "fs/overlay/overlay_change.h"
#include "fs/overlay/recorded.h"

namespace warren {

namespace {

// Times of files move in steps of several milliseconds on older kernels: a file that was written this short a time ago
// can be written again and look the same.
constexpr std::int64_t kTimeStepNanoseconds = 50'000'000;

constexpr std::size_t kRemovedMeanwhile = 262'144;  // names that are remembered during one apply

bool is_settled(const Attributes& file, Timestamp read_at) {
  std::int64_t seconds = read_at.seconds - file.ctime.seconds;
  if (seconds < 0 || seconds > 1) return seconds > 1;
  return seconds * 1'000'000'000 + read_at.nanoseconds - file.ctime.nanoseconds > kTimeStepNanoseconds;
}

}  // namespace

// Whether the agent has not changed a copy, and the base has another version of its file by now. Also true if that
// cannot be excluded, since the version of the copy was read when it was young.
bool OverlayFs::is_behind(const Copy& copy, const Attributes& own, const Attributes& now) const {
  bool is_same = is_as_seen(now, *copy.seen) && now.ctime == copy.seen->ctime && !young_.contains(copy.upper);
  return !is_same && is_as_recorded(own, *copy.seen);
}

std::optional<Attributes> OverlayFs::find_in_base_now(std::string_view base_path) {
  Result<std::optional<Attributes>> found = find_in_tree(base_, base_path);
  return found.ok() ? *std::move(found) : std::nullopt;
}

bool OverlayFs::is_frozen(const Copy& copy) {
  Result<std::optional<Cover>> cover = upper_.find_cover(copy.base_path);
  return cover.ok() && *cover && (*cover)->seen;
}

// The base's file was changed or replaced. A copy that an apply has left for those who use it, and that the agent has
// not changed since, follows it: also for a program that has it open, as if the host had written to the open file.
Status OverlayFs::take_over(Copy& copy, Inode number) {
  Attributes own = WARREN_TRY(upper().get_attributes(copy.upper));
  std::optional<Attributes> now = find_in_base_now(copy.base_path);
  if (own.nlink != 1 || !now || !now->is_file()) return Ok{};
  if (!is_behind(copy, own, *now) || is_frozen(copy)) return Ok{};
  // Other names in the base that lead to the copy lead to the file that it is a copy of.
  bool has_one_name = copy.hidden_names == 0 && now->nlink == 1;
  if (!has_one_name && now->inode != copy.seen->inode) return Ok{};
  WARREN_TRY(upper_.reserve(std::min<std::uint64_t>(now->size, copy_whole_bytes_)));
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  for (std::uint64_t size : {std::uint64_t{0}, now->size}) {
    WARREN_TRY(
        upper().set_attributes(copy.upper, {.mode = {}, .uid = {}, .gid = {}, .size = size, .atime = {}, .mtime = {}}));
  }
  Timestamp read_at = WARREN_TRY(upper().get_attributes(copy.upper))
  .ctime;
  std::vector<ByteRange> in_base;
  if (now->size > 0) in_base.push_back({0, now->size});
  WARREN_TRY(upper_.remove_origin(copy.upper));  // with the merge base of before
  WARREN_TRY(upper_.put_origin(
      {.upper = copy.upper, .base_path = copy.base_path, .seen = *now, .hidden_names = copy.hidden_names}));
  WARREN_TRY(upper_.set_base_ranges(copy.upper, in_base));
  std::vector<std::string> names = WARREN_TRY(upper().list_xattrs(copy.upper));
  for (const std::string& name : names) WARREN_TRY(upper().remove_xattr(copy.upper, name));
  WARREN_TRY(copy_xattrs(now->inode, copy.upper, *now));
  WARREN_TRY(unit->commit());
  base_.reserve_number(now->inode, now->generation);
  if (now->inode != copy.seen->inode) shown_as_.erase(copy.seen->inode);
  if (now->inode != number) shown_as_[now->inode] = number;
  if (is_settled(*now, read_at)) young_.erase(copy.upper);
  else young_.insert(copy.upper);
  copy.seen = *now;
  copy.ranges = std::move(in_base);
  if (now->size > copy_whole_bytes_) return Ok{};
  WARREN_TRY(keep_ancestor(now->inode, copy));
  return fetch(copy, 0, now->size);
}

void OverlayFs::take_over_now(Inode number) {
  SideChange not_by_the_agent;
  change([&]() -> Status {
    Copy* copy = find_copy(number);
    bool may_follow = copy && copy->is_noted && copy->seen && copy->seen->is_file();
    return may_follow ? take_over(*copy, number) : Status(Ok{});
  }).ignore("it shows what the base had, and a change of both is a conflict");
}

// An apply or an undo that is under way puts its own versions there, and an undo may make the copy one of another file:
// it follows when that has ended.
void OverlayFs::follow_base(Inode number) {
  if (!waits_for_apply()) take_over_now(number);
}

bool OverlayFs::waits_for_apply() {
  Result<Scope> scope = read_scope();
  if (!scope.ok()) return false;
  if (is_applying_) has_waiting_ = true;
  return is_applying_;
}

bool OverlayFs::follow_after_apply() {
  {
    Result<Scope> scope = read_scope();
    if (!scope.ok() || !has_waiting_ || is_applying_) return false;
    has_waiting_ = false;
  }
  follow_moves();
  follow_all();
  keep_held();
  return true;
}

// Whether take_over() has something to do: looks without writing.
std::optional<Inode> OverlayFs::find_to_follow(Inode node) {
  Result<Scope> scope = read_scope();
  if (!scope.ok()) return std::nullopt;
  Result<View> where = view(node);
  Copy* copy = where.ok() ? find_copy(where->number) : nullptr;
  if (!copy || !copy->is_noted || !copy->seen || !copy->seen->is_file()) return std::nullopt;
  Result<Attributes> own = upper().get_attributes(copy->upper);
  std::optional<Attributes> now = find_in_base_now(copy->base_path);
  if (!own.ok() || !now) return std::nullopt;
  return is_behind(*copy, *own, *now) && !is_frozen(*copy) ? std::optional(where->number) : std::nullopt;
}

// One lock for each of them, so that nobody waits for all.
void OverlayFs::follow_all() {
  std::vector<Inode> numbers;
  {
    Result<Scope> scope = read_scope();
    if (!scope.ok()) return;
    for (const auto& [number, copy] : copies_) {
      if (copy.is_noted && copy.seen && copy.seen->is_file()) numbers.push_back(number);
    }
  }
  for (Inode number : numbers) {
    if (find_to_follow(number)) follow_base(number);
    else give_way_by_number(number);
  }
}

// The host has removed a file of which an apply has left a copy, or has put something else than a file in its place.
// The copy loses its name, so that the base shows. A program that has it open goes on with a file without a name, as on
// any filesystem.
Status OverlayFs::give_way(Inode parent, std::string_view name) {
  WARREN_TRY(enter_to_change(parent));
  std::optional<Attributes> own = WARREN_TRY(find_in_upper(parent, name));
  if (is_applying_) has_waiting_ = true;  // an undo takes up again what it removes
  if (!own || own->nlink != 1 || is_applying_) return Ok{};
  Inode number = number_of(own->inode);
  Copy* copy = find_copy(number);
  bool is_kept = copy && is_base_number(number) && copy->is_noted && copy->seen && copy->hidden_names == 0 &&
                 copy->base_path == base_path_of(parent, name) && is_as_recorded(*own, *copy->seen);
  if (!is_kept || is_frozen(*copy)) return Ok{};
  std::optional<Attributes> below = WARREN_TRY(find_in_base(dirs_.at(parent), name));
  bool follows = below && (is_as_seen(*below, *copy->seen) || (below->is_file() && own->is_file()));
  if (follows) return Ok{};
  Attributes entry = *own;
  entry.inode = number;
  Inode top = WARREN_TRY(upper_dir(parent));
  Attributes before = WARREN_TRY(upper().get_attributes(top));
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  WARREN_TRY(remove_own(top, name, entry, own));
  WARREN_TRY(upper_.restore(top, before));
  WARREN_TRY(unit->commit());
  young_.erase(own->inode);
  record_removal(parent, name, entry, own, std::nullopt, before.mtime);
  return Ok{};
}

// For a copy whose directory is known, at the place that the base has it.
void OverlayFs::give_way_by_number(Inode number) {
  std::optional<Inode> dir;
  std::string name;
  {
    Result<Scope> scope = read_scope();
    Copy* copy = scope.ok() ? find_copy(number) : nullptr;
    if (!copy || copy->base_path == "/") return;
    name = split_parent(copy->base_path).name;
    std::optional<Attributes> above = find_in_base_now(split_parent(copy->base_path).parent);
    if (above) dir = number_of_base(above->inode);
    if (!dir || !dirs_.contains(*dir)) return;
  }
  SideChange not_by_the_agent;
  change([&] { return give_way(*dir, name); }).ignore("it goes when nobody uses the agent any more");
}

std::optional<Inode> OverlayFs::follow_entry(Inode base_dir, std::string_view name) {
  std::optional<Inode> number;
  {
    Result<Scope> scope = read_scope();
    if (!scope.ok()) return number;
    Result<std::optional<Attributes>> top = find_in_upper(number_of_base(base_dir), name);
    if (top.ok() && *top && !(*top)->is_directory()) number = number_of((*top)->inode);
    if (number && !find_copy(*number)) number.reset();
  }
  if (!number) return number;
  follow_base(*number);
  SideChange not_by_the_agent;
  change([&] {
    return give_way(number_of_base(base_dir), name);
  }).ignore("it goes when nobody uses the agent any more");
  return number;
}

// The base's node shows again under a name that the agent had removed or replaced: somebody has discarded that, or has
// restored a checkpoint. It has its number. A program that has the removed file open goes on with the base's node.
void OverlayFs::give_number_back(Inode number) {
  auto copy = copies_.find(number);
  if (copy == copies_.end()) return;
  Inode top = copy->second.upper;
  copies_.erase(copy);
  numbers_.erase(top);
  young_.erase(top);
  nameless_.erase(number);
  passed_over_.insert(top);
  given_back_.push_back({number, top, number});
}

// The number of a node of the base that shows again. A copy of it that is shown with another number since an apply may
// have lost its name: whoever has that open goes on with a removed file, and the name leads to the base's node.
Inode OverlayFs::number_to_show(Inode base) {
  Inode number = number_of_base(base);
  if (number == base) return base;
  Result<View> where = view(number);
  Result<Attributes> shown = where.ok() ? attributes_of(*where) : Result<Attributes>(where.error());
  bool is_gone = shown.ok() ? shown->nlink == 0 : shown.error().code() == Code::kStale;
  if (!is_gone) return number;
  shown_as_.erase(base);
  if (Copy* copy = find_copy(number)) {
    passed_over_.insert(copy->upper);
    nameless_.insert_or_assign(number, std::nullopt);
  }
  return base;
}

std::vector<Inode> OverlayFs::show_base_again() {
  std::vector<View> shown;
  std::vector<Inode> numbers;
  {
    std::lock_guard guard(mutex_);
    if (nameless_.empty() && given_back_.empty()) return numbers;
    Result<Scope> scope = read_scope();
    if (!scope.ok()) return numbers;
    std::unordered_map<Inode, std::optional<Place>> nameless = nameless_;
    for (const auto& [number, last] : nameless) {
      bool is_known = last && dirs_.contains(last->parent);
      if (is_known) find_in(last->parent, last->name).ignore("the next lookup reports it");
    }
    shown = std::exchange(given_back_, {});
  }
  for (const View& one : shown) {
    upper().forget(*one.upper, 1);  // without the lock: it may wait for another process
    numbers.push_back(one.number);
  }
  return numbers;
}

// While an apply is under way, the base may get any name that the upper layer had when it began. One that the agent
// removes meanwhile is hidden, until the apply ends and leaves a whiteout for it.
void OverlayFs::hide_while_applying(Inode parent, std::string_view name) {
  if (!is_applying_ || removed_meanwhile_count_ >= kRemovedMeanwhile) return;
  bool is_new = removed_meanwhile_[path_of(parent)].emplace(name).second;
  if (is_new) ++removed_meanwhile_count_;
  Dir& dir = dirs_.at(parent);
  if (dir.whiteouts) dir.whiteouts->emplace(name);
}

bool OverlayFs::is_removed_meanwhile(Inode parent, std::string_view name) const {
  if (removed_meanwhile_.empty()) return false;
  auto dir = removed_meanwhile_.find(path_of(parent));
  return dir != removed_meanwhile_.end() && dir->second.contains(name);
}

// Something else has the name now.
void OverlayFs::end_whiteout(Inode parent, std::string_view name) {
  Dir& dir = dirs_.at(parent);
  if (dir.whiteouts) dir.whiteouts->erase(std::string(name));
  if (removed_meanwhile_.empty()) return;
  auto hidden = removed_meanwhile_.find(path_of(parent));
  if (hidden == removed_meanwhile_.end()) return;
  removed_meanwhile_count_ -= hidden->second.erase(std::string(name));
}

void OverlayFs::move_hidden_names(const std::string& from, const std::string& to) {
  std::map<std::string, Names, std::less<>> moved;
  for (auto dir = removed_meanwhile_.begin(); dir != removed_meanwhile_.end();) {
    bool is_below = is_at_or_below(dir->first, from);
    if (is_below) moved.emplace(to + dir->first.substr(from.size()), std::move(dir->second));
    dir = is_below ? removed_meanwhile_.erase(dir) : std::next(dir);
  }
  removed_meanwhile_.merge(moved);
}

void OverlayFs::follow_node(Inode base_node) {
  Inode number = number_of_base(base_node);
  {
    std::lock_guard guard(mutex_);
    if (dirs_.contains(number) || !find_copy(number)) return;
  }
  follow_base(number);
}

}  // namespace warren
