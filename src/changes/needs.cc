#include "changes/needs.h"

#include <algorithm>

namespace warren {

Needs::Needs(const std::vector<TreeChange>& all) : needed_(all.size()), needed_by_(all.size()) {
  Selection selection(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    needed_[i] = selection.list_needed(i);
    for (std::size_t needed : needed_[i]) needed_by_[needed].push_back(i);
  }
}

std::vector<Needs::Dependent> Needs::dependents_of(const std::vector<std::size_t>& left) const {
  std::vector<bool> is_known(needed_.size(), false);
  std::vector<Dependent> pending;
  for (std::size_t change : left) {
    is_known[change] = true;
    pending.push_back({.change = change, .because = change});
  }
  std::vector<Dependent> found;
  while (!pending.empty()) {
    Dependent next = pending.back();
    pending.pop_back();
    for (std::size_t dependent : needed_by_[next.change]) {
      if (is_known[dependent]) continue;
      is_known[dependent] = true;
      found.push_back({.change = dependent, .because = next.because});
      pending.push_back(found.back());
    }
  }
  std::ranges::sort(found, {}, &Dependent::change);
  return found;
}

std::vector<Needs::Dependent> leave_with_excluded(const std::vector<TreeChange>& all, const ChangeFilter& wanted,
                                                  Selection& chosen) {
  std::vector<std::size_t> excluded;
  for (std::size_t i = 0; wanted && i < all.size(); ++i) {
    bool is_renamed = all[i].kind == TreeChangeKind::kRenamed;
    if (!wanted(all[i].path) || (is_renamed && !wanted(all[i].base_path))) excluded.push_back(i);
  }
  if (excluded.empty()) return {};
  std::vector<Needs::Dependent> left = Needs(all).dependents_of(excluded);
  for (std::size_t i : excluded) left.push_back({.change = i, .because = i});
  std::ranges::sort(left, {}, &Needs::Dependent::change);
  std::erase_if(left, [&](const Needs::Dependent& one) { return !chosen.has(one.change); });
  for (const Needs::Dependent& one : left) chosen.leave(one.change);
  return left;
}

}  // namespace warren
