#include "changes/review/review.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/review/parts.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

Error changed_since(const TreeChange& change) {
  return {Code::kConflict,
          fmt::format("nothing was written: {} was changed since you looked at it", quote(change.path)),
          "review it again"};
}

bool is_as_seen_in_agent(const Attributes& now, const Attributes& seen) {
  bool is_same = now.mode == seen.mode && now.owner == seen.owner;
  if (seen.is_directory()) return is_same;  // which changes with what is in it, and that is listed by itself
  return is_same && now.size == seen.size && now.mtime == seen.mtime && now.ctime == seen.ctime;
}

// Without the ctime, which an apply that was undone has changed.
bool is_as_seen_in_base(const Attributes& now, const Attributes& seen) {
  bool is_same = now.mode == seen.mode && now.owner == seen.owner && now.host_inode == seen.host_inode;
  return is_same && (seen.is_directory() || (now.size == seen.size && now.mtime == seen.mtime));
}

// Something at the path alone would not show that a deletion was taken back: the agent can have another node there, or
// above it.
Status check_still_deleted(const AgentOverlay& overlay, const std::vector<TreeChange>& chosen) {
  if (std::ranges::find(chosen, TreeChangeKind::kDeleted, &TreeChange::kind) == chosen.end()) return Ok{};
  std::vector<TreeChange> now = WARREN_TRY(list_changes(overlay));
  std::set<std::pair<std::string_view, std::string_view>> deleted;  // path, and path in the base
  for (const TreeChange& change : now) {
    if (change.kind == TreeChangeKind::kDeleted) deleted.emplace(change.path, change.base_path);
  }
  for (const TreeChange& change : chosen) {
    bool is_deletion = change.kind == TreeChangeKind::kDeleted;
    if (is_deletion && !deleted.contains({change.path, change.base_path})) return changed_since(change);
  }
  return Ok{};
}

template <class Same>
bool are_same(const std::optional<Attributes>& now, const std::optional<Attributes>& then, Same is_same) {
  return now && then ? is_same(*now, *then) : now.has_value() == then.has_value();
}

}  // namespace

// A directory on the way to changes, or of a change itself.
struct Review::Node {
  std::map<std::string, Node, std::less<>> dirs;
  std::vector<std::pair<std::string, std::size_t>> leaves;  // name and change
  std::optional<std::size_t> change;
};

Taken Review::Decision::state() const {
  if (choices.empty()) return is_taken ? Taken::kYes : Taken::kNo;
  auto left = std::ranges::count(choices, PartChoice::kLeft);
  if (left == std::ssize(choices)) return Taken::kNo;
  return left == 0 ? Taken::kYes : Taken::kPart;
}

void Review::Decision::set(bool taken) {
  is_taken = taken;
  std::ranges::fill(choices, taken ? PartChoice::kTaken : PartChoice::kLeft);
}

void Review::Decision::leave() {
  if (state() != Taken::kNo) last = choices;
  set(false);
}

void Review::Decision::take_again() {
  set(true);
  if (!last.empty()) choices = last;
}

bool Review::Decision::has(PartChoice choice) const {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].is_in_conflict && choices[i] == choice) return true;
  }
  return false;
}

Review::Review(const std::vector<TreeChange>& all, Selection offered, const std::vector<ApplyConflict>& conflicts)
    : all_(all), decisions_(all.size()), needs_(all), implied_(all.size(), false) {
  offered.complete_for_apply();
  std::unordered_map<std::string_view, std::string> why;
  std::unordered_set<std::string_view> unforced;
  for (const ApplyConflict& conflict : conflicts) {
    why.emplace(conflict.path, conflict.why);
    if (!conflict.can_be_forced()) unforced.insert(conflict.path);
  }
  Node top;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TreeChange& change = all[i];
    if (!offered.has(i)) continue;
    decisions_[i].is_listed = true;
    auto conflict = why.find(change.path);
    if (conflict != why.end()) conflicts_.emplace(change.path, conflict->second);
    if (unforced.contains(change.path)) never_taken_.insert(change.path);
    Node* at = &top;
    std::string_view rest = change.path == "/" ? std::string_view() : std::string_view(change.path).substr(1);
    for (std::size_t slash = rest.find('/'); slash != rest.npos; slash = rest.find('/')) {
      at = &at->dirs[std::string(rest.substr(0, slash))];
      rest.remove_prefix(slash + 1);
    }
    bool is_dir = change.node().is_directory();
    Node* own = rest.empty() ? &top : is_dir ? &at->dirs[std::string(rest)] : nullptr;
    if (own != nullptr && !own->change) own->change = i;
    else at->leaves.emplace_back(rest, i);
  }
  if (top.change) rows_.push_back({.name = "/", .change = top.change});
  flatten(top, "", 0);
}

void Review::flatten(const Node& node, const std::string& name, std::size_t depth) {
  std::size_t own = rows_.size();
  bool has_row = !name.empty();
  if (has_row) rows_.push_back({.name = name, .depth = depth - 1, .change = node.change});
  for (const auto& [dir, below] : node.dirs) flatten(below, dir, depth + 1);
  for (const auto& [leaf, change] : node.leaves) rows_.push_back({.name = leaf, .depth = depth, .change = change});
  if (!has_row) return;
  rows_[own].below = rows_.size() - own - 1;
  rows_[own].is_folded = rows_[own].below > limits::kReviewOpenRows;
}

std::vector<std::size_t> Review::visible() const {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < rows_.size(); i += rows_[i].is_folded ? rows_[i].below + 1 : 1) shown.push_back(i);
  return shown;
}

void Review::fold(std::size_t row) {
  if (rows_[row].below > 0) rows_[row].is_folded = !rows_[row].is_folded;
}

void Review::unfold_to(std::size_t row) {
  for (std::size_t i = 0; i < row; ++i) {
    if (i + rows_[i].below >= row) rows_[i].is_folded = false;
  }
}

const TreeChange* Review::change_of(std::size_t row) const {
  return rows_[row].change ? &all_[*rows_[row].change] : nullptr;
}

const std::string* Review::conflict_of(std::size_t change) const {
  auto found = conflicts_.find(all_[change].path);
  return found == conflicts_.end() ? nullptr : &found->second;
}

bool Review::can_be_taken(std::size_t change) const { return !never_taken_.contains(all_[change].path); }

template <class Call>
void Review::each_below(std::size_t row, const Call& call) const {
  for (std::size_t i = row; i <= row + rows_[row].below; ++i) {
    if (rows_[i].change) call(*rows_[i].change);
  }
}

Taken Review::taken(std::size_t row) const {
  bool has_taken = false;
  bool has_left = false;
  each_below(row, [&](std::size_t change) {
    Taken state = state_of(change);
    has_taken = has_taken || state != Taken::kNo;
    has_left = has_left || state != Taken::kYes;
  });
  return !has_taken ? Taken::kNo : has_left ? Taken::kPart : Taken::kYes;
}

Taken Review::state_of(std::size_t change) const {
  Taken state = decisions_[change].state();
  return state == Taken::kNo && implied_[change] ? Taken::kYes : state;
}

void Review::find_implied() {
  implied_.assign(all_.size(), false);
  std::vector<std::size_t> pending;
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    if (decisions_[i].state() != Taken::kNo) pending.push_back(i);
  }
  while (!pending.empty()) {
    std::size_t change = pending.back();
    pending.pop_back();
    for (std::size_t needed : needs_.directly(change)) {
      bool is_known = implied_[needed] || conflict_of(needed) != nullptr || decisions_[needed].state() != Taken::kNo;
      if (is_known) continue;
      implied_[needed] = true;
      pending.push_back(needed);
    }
  }
}

// With what cannot be written without these.
void Review::leave(const std::vector<std::size_t>& changes) {
  for (std::size_t change : changes) decisions_[change].leave();
  for (const Needs::Dependent& dependent : needs_.dependents_of(changes)) decisions_[dependent.change].leave();
}

// After a decision about a change that is taken, or was.
void Review::follow(std::size_t change) {
  if (decisions_[change].state() == Taken::kNo) leave({change});
  find_implied();
}

// Decides about a change that is only implied so far as it is.
void Review::take_over(std::size_t change) {
  if (implied_[change]) decisions_[change].set(true);
  implied_[change] = false;
}

std::vector<std::size_t> Review::list_left_conflicts() const {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    if (conflict_of(i) != nullptr && decisions_[i].state() == Taken::kNo) left.push_back(i);
  }
  return left;
}

// The changes that are never taken together with others.
std::vector<bool> Review::list_alone() const {
  std::vector<bool> alone(all_.size(), false);
  for (const Needs::Dependent& dependent : needs_.dependents_of(list_left_conflicts())) alone[dependent.change] = true;
  for (std::size_t i = 0; i < all_.size(); ++i) alone[i] = alone[i] || conflict_of(i) != nullptr;
  return alone;
}

std::optional<Review::Missing> Review::find_missing() const {
  for (const Needs::Dependent& dependent : needs_.dependents_of(list_left_conflicts())) {
    if (decisions_[dependent.change].state() == Taken::kNo) continue;
    return Missing{.change = all_[dependent.change],
                   .conflict = all_[dependent.because],
                   .can_be_taken = can_be_taken(dependent.because)};
  }
  return std::nullopt;
}

bool Review::toggle(std::size_t row) {
  std::optional<std::size_t> own = rows_[row].change;
  bool can_take_own = own && can_be_taken(*own);
  if (rows_[row].below == 0 && own) {
    if (can_take_own) toggle_one(*own);
    return can_take_own;
  }
  std::vector<std::size_t> together;
  std::vector<bool> alone = list_alone();
  each_below(row, [&](std::size_t change) {
    if (!alone[change]) together.push_back(change);
  });
  bool wants = std::ranges::any_of(together, [&](std::size_t change) { return state_of(change) != Taken::kYes; });
  bool is_own_in_conflict = can_take_own && conflict_of(*own) != nullptr;
  if (!wants && is_own_in_conflict && decisions_[*own].state() == Taken::kNo) {
    toggle_one(*own);
    return true;
  }
  bool has_any = !together.empty() || is_own_in_conflict;
  if (wants) {
    for (std::size_t change : together) decisions_[change].set(true);
  } else {
    if (is_own_in_conflict) together.push_back(*own);
    leave(together);
  }
  find_implied();
  return has_any;
}

void Review::toggle_one(std::size_t change) {
  Decision& decision = decisions_[change];
  bool is_conflict = conflict_of(change) != nullptr;
  bool wants = is_conflict ? decision.state() == Taken::kNo : state_of(change) != Taken::kYes;
  if (!wants) leave({change});
  else if (is_conflict) decision.take_again();
  else decision.set(true);
  find_implied();
}

void Review::take_all() {
  std::vector<bool> alone = list_alone();
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    if (decisions_[i].is_listed && !alone[i]) decisions_[i].set(true);
  }
  find_implied();
}

void Review::leave_all() {
  for (Decision& one : decisions_) one.leave();
  find_implied();
}

void Review::toggle_merged(std::size_t change) {
  if (!can_be_taken(change)) return;
  Decision& decision = decisions_[change];
  decision.is_merged = !(decision.is_taken && decision.is_merged);
  decision.is_taken = true;
  follow(change);
}

bool Review::is_merged(std::size_t change) const {
  const Decision& decision = decisions_[change];
  if (decision.state() == Taken::kNo) return false;
  return decision.parts.empty() ? decision.is_merged : !decision.has(PartChoice::kTaken);
}

bool Review::has_markers(std::size_t change) const { return decisions_[change].has(PartChoice::kMarked); }

void Review::set_parts(std::size_t change, const std::vector<FilePart>& parts) {
  Decision& decision = decisions_[change];
  if (decision.parts == parts) return;
  bool was_taken = decision.state() != Taken::kNo;
  bool stays_taken = decision.parts.empty() && was_taken;
  decision.parts = parts;
  decision.choices.assign(parts.size(), PartChoice::kLeft);
  decision.last.clear();
  decision.set(stays_taken);
  if (was_taken) follow(change);
}

bool Review::has_part_in_conflict(std::size_t change) const {
  return std::ranges::any_of(decisions_[change].parts, &FilePart::is_in_conflict);
}

PartChoice Review::choice_of(std::size_t change, std::size_t part) const {
  const std::vector<PartChoice>& choices = decisions_[change].choices;
  if (part >= choices.size()) return PartChoice::kLeft;
  return implied_[change] ? PartChoice::kTaken : choices[part];
}

void Review::toggle_part(std::size_t change, std::size_t part) {
  std::vector<PartChoice>& choices = decisions_[change].choices;
  if (part >= choices.size() || !can_be_taken(change)) return;
  take_over(change);
  choices[part] = choices[part] == PartChoice::kTaken ? PartChoice::kLeft : PartChoice::kTaken;
  follow(change);
}

bool Review::toggle_markers(std::size_t change, std::size_t part) {
  Decision& decision = decisions_[change];
  if (part >= decision.parts.size() || !decision.parts[part].is_in_conflict || !can_be_taken(change)) return false;
  PartChoice& choice = decision.choices[part];
  choice = choice == PartChoice::kMarked ? PartChoice::kLeft : PartChoice::kMarked;
  follow(change);
  return true;
}

void Review::take_parts_with(std::size_t change, PartChoice in_conflict) {
  if (!can_be_taken(change)) return;
  Decision& decision = decisions_[change];
  for (std::size_t i = 0; i < decision.parts.size(); ++i)
    decision.choices[i] = decision.parts[i].is_in_conflict ? in_conflict : PartChoice::kTaken;
  follow(change);
}

Review::Counts Review::count() const {
  Counts counts;
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    if (!decisions_[i].is_listed) continue;
    ++counts.all;
    Taken state = state_of(i);
    if (state == Taken::kYes) ++counts.taken;
    if (state == Taken::kPart) ++counts.partly;
    if (state != Taken::kNo && conflict_of(i) != nullptr && !is_merged(i)) ++counts.conflicts;
    if (has_markers(i)) ++counts.marked;
  }
  return counts;
}

Status check_as_listed(const AgentOverlay& overlay, const std::vector<TreeChange>& chosen) {
  for (const TreeChange& change : chosen) {
    if (!change.after) continue;
    Result<Attributes> found = lstat(overlay.merged, change.path);
    if (!found.ok() && found.error().code() == Code::kNotFound) return changed_since(change);
    Attributes now = WARREN_TRY(std::move(found));
    if (!is_as_seen_in_agent(now, *change.after)) return changed_since(change);
  }
  return check_still_deleted(overlay, chosen);
}

Status Review::choose(const AgentOverlay& overlay, Selection& chosen, ApplyOptions& options) const {
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    const Decision& decision = decisions_[i];
    Taken state = decision.state();
    if (state == Taken::kNo) continue;
    if (!decision.parts.empty() && (state == Taken::kPart || conflict_of(i) != nullptr)) {
      LoadedParts loaded = WARREN_TRY(load_parts(overlay, all_[i]));
      if (!loaded.parts || loaded.parts->list != decision.parts) return changed_since(all_[i]);
      take_parts(all_[i], *loaded.parts, decision.choices, options);
    } else if (decision.is_merged) {
      std::optional<std::string> merged = WARREN_TRY(merge_change(overlay, all_[i]));
      if (!merged) return changed_since(all_[i]);
      options.contents.insert_or_assign(all_[i].path, MergedContent{.text = *std::move(merged), .has_unseen = true});
    }
    chosen.take(i);
  }
  return Ok{};
}

std::vector<Review::Earlier> Review::list_taken() const {
  std::vector<Earlier> taken;
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    if (state_of(i) == Taken::kNo) continue;
    const std::string* conflict = conflict_of(i);
    taken.push_back({.change = all_[i], .conflict = conflict != nullptr ? *conflict : "", .decision = decisions_[i]});
  }
  return taken;
}

bool Review::is_as_before(std::size_t change, const Earlier& earlier) const {
  const TreeChange& now = all_[change];
  const TreeChange& then = earlier.change;
  const std::string* conflict = conflict_of(change);
  return now.base_path == then.base_path && (conflict != nullptr ? *conflict : "") == earlier.conflict &&
         are_same(now.before, then.before, is_as_seen_in_base) && are_same(now.after, then.after, is_as_seen_in_agent);
}

std::optional<std::size_t> Review::take_as_before(const std::vector<Earlier>& earlier) {
  std::vector<std::size_t> others;
  for (const Earlier& one : earlier) {
    std::vector<std::size_t> here;
    auto [first, last] = std::ranges::equal_range(all_, one.change.path, {}, &TreeChange::path);
    for (auto it = first; it != last; ++it) here.push_back(static_cast<std::size_t>(it - all_.begin()));
    auto same = std::ranges::find_if(here, [&](std::size_t i) { return all_[i].kind == one.change.kind; });
    if (same != here.end() && is_as_before(*same, one)) {
      if (decisions_[*same].is_listed) decisions_[*same] = one.decision;
    } else if (same != here.end()) {
      others.push_back(*same);
    } else {
      others.insert(others.end(), here.begin(), here.end());
    }
  }
  leave(others);
  find_implied();
  std::unordered_set<std::size_t> changed(others.begin(), others.end());
  auto row = std::ranges::find_if(
      rows_, [&](const Row& candidate) { return candidate.change && changed.contains(*candidate.change); });
  if (row == rows_.end()) return std::nullopt;
  return static_cast<std::size_t>(row - rows_.begin());
}

}  // namespace warren
