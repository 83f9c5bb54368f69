#include "changes/review/review.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/review/parts.h"
#include "fs/path_ops.h"

namespace warren {

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

Review::Review(const std::vector<TreeChange>& all, const ChangeFilter& filter,
               const std::vector<ApplyConflict>& conflicts)
    : all_(all), decisions_(all.size()) {
  std::unordered_map<std::string_view, std::string> why;
  for (const ApplyConflict& conflict : conflicts) why.emplace(conflict.path, conflict.why);
  Node top;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TreeChange& change = all[i];
    bool is_renamed = change.kind == TreeChangeKind::kRenamed;
    if (filter && !filter(change.path) && !(is_renamed && filter(change.base_path))) continue;
    decisions_[i].is_listed = true;
    auto conflict = why.find(change.path);
    if (conflict != why.end()) conflicts_.emplace(change.path, conflict->second);
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

const TreeChange* Review::change_of(std::size_t row) const {
  return rows_[row].change ? &all_[*rows_[row].change] : nullptr;
}

const std::string* Review::conflict_of(std::size_t change) const {
  auto found = conflicts_.find(all_[change].path);
  return found == conflicts_.end() ? nullptr : &found->second;
}

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
    Taken state = decisions_[change].state();
    has_taken = has_taken || state != Taken::kNo;
    has_left = has_left || state != Taken::kYes;
  });
  return !has_taken ? Taken::kNo : has_left ? Taken::kPart : Taken::kYes;
}

bool Review::toggle(std::size_t row) {
  bool is_single = rows_[row].below == 0;
  bool wants = false;
  bool has_any = false;
  each_below(row, [&](std::size_t change) {
    if (!is_single && !can_take_together(change)) return;
    has_any = true;
    wants = wants || decisions_[change].state() != Taken::kYes;
  });
  each_below(row, [&](std::size_t change) {
    if (can_take_together(change)) decisions_[change].set(wants);
    else if (is_single) toggle_conflict(change);
  });
  return has_any;
}

void Review::toggle_conflict(std::size_t change) {
  Decision& decision = decisions_[change];
  if (decision.state() == Taken::kNo) decision.take_again();
  else decision.leave();
}

void Review::take_all() {
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    if (decisions_[i].is_listed && can_take_together(i)) decisions_[i].set(true);
  }
}

void Review::leave_all() {
  for (Decision& one : decisions_) one.leave();
}

void Review::toggle_merged(std::size_t change) {
  Decision& decision = decisions_[change];
  decision.is_merged = !(decision.is_taken && decision.is_merged);
  decision.is_taken = true;
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
  bool stays_taken = decision.parts.empty() && decision.is_taken;
  decision.parts = parts;
  decision.choices.assign(parts.size(), PartChoice::kLeft);
  decision.last.clear();
  decision.set(stays_taken);
}

bool Review::has_part_in_conflict(std::size_t change) const {
  return std::ranges::any_of(decisions_[change].parts, &FilePart::is_in_conflict);
}

PartChoice Review::choice_of(std::size_t change, std::size_t part) const {
  const std::vector<PartChoice>& choices = decisions_[change].choices;
  return part < choices.size() ? choices[part] : PartChoice::kLeft;
}

void Review::toggle_part(std::size_t change, std::size_t part) {
  std::vector<PartChoice>& choices = decisions_[change].choices;
  if (part >= choices.size()) return;
  choices[part] = choices[part] == PartChoice::kTaken ? PartChoice::kLeft : PartChoice::kTaken;
}

bool Review::toggle_markers(std::size_t change, std::size_t part) {
  Decision& decision = decisions_[change];
  if (part >= decision.parts.size() || !decision.parts[part].is_in_conflict) return false;
  PartChoice& choice = decision.choices[part];
  choice = choice == PartChoice::kMarked ? PartChoice::kLeft : PartChoice::kMarked;
  return true;
}

void Review::take_parts_with(std::size_t change, PartChoice in_conflict) {
  Decision& decision = decisions_[change];
  for (std::size_t i = 0; i < decision.parts.size(); ++i)
    decision.choices[i] = decision.parts[i].is_in_conflict ? in_conflict : PartChoice::kTaken;
}

Review::Counts Review::count() const {
  Counts counts;
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    if (!decisions_[i].is_listed) continue;
    ++counts.all;
    Taken state = decisions_[i].state();
    if (state == Taken::kYes) ++counts.taken;
    if (state == Taken::kPart) ++counts.partly;
    if (state != Taken::kNo && conflict_of(i) != nullptr && !is_merged(i)) ++counts.conflicts;
    if (has_markers(i)) ++counts.marked;
  }
  return counts;
}

Status check_as_listed(const AgentOverlay& overlay, const TreeChange& change) {
  if (!change.after) return Ok{};
  Error changed(Code::kConflict, fmt::format("{} was changed since you looked at it", quote(change.path)),
                "nothing was written; review it again");
  Result<Attributes> found = lstat(overlay.merged, change.path);
  if (!found.ok() && found.error().code() == Code::kNotFound) return changed;
  Attributes now = WARREN_TRY(std::move(found));
  const Attributes& seen = *change.after;
  bool is_same = now.mode == seen.mode && now.owner == seen.owner;
  if (!seen.is_directory()) {  // which changes with what is in it, and that is listed by itself
    is_same = is_same && now.size == seen.size && now.mtime == seen.mtime && now.ctime == seen.ctime;
  }
  return is_same ? Status(Ok{}) : changed;
}

Status Review::choose(const AgentOverlay& overlay, Selection& chosen, ApplyOptions& options) const {
  for (std::size_t i = 0; i < decisions_.size(); ++i) {
    const Decision& decision = decisions_[i];
    Taken state = decision.state();
    if (state == Taken::kNo) continue;
    Error changed(Code::kConflict, fmt::format("{} was changed since you looked at it", quote(all_[i].path)),
                  "nothing was written; review it again");
    if (!decision.parts.empty() && (state == Taken::kPart || conflict_of(i) != nullptr)) {
      LoadedParts loaded = WARREN_TRY(load_parts(overlay, all_[i]));
      if (!loaded.parts || loaded.parts->list != decision.parts) return changed;
      take_parts(all_[i], *loaded.parts, decision.choices, options);
    } else if (decision.is_merged) {
      std::optional<std::string> merged = WARREN_TRY(merge_change(overlay, all_[i]));
      if (!merged) return changed;
      options.contents.insert_or_assign(all_[i].path, MergedContent{.text = *std::move(merged), .has_unseen = true});
    }
    chosen.take(i);
  }
  return Ok{};
}

}  // namespace warren
