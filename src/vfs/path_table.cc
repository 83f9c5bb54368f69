#include "vfs/path_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"

namespace warren {
namespace {

Error refuse_unknown(Inode node) {
  return Error(Code::kStale, fmt::format("the path of node {} is not known", node.value));
}

}  // namespace

PathTable::PathTable(std::size_t size_max, std::size_t spots_max)
    : size_max_(size_max), spots_max_(spots_max), sweep_at_(size_max) {
  Entry root;
  root.is_directory = true;
  root.retained = 1;
  entries_.emplace(kRootInode, std::move(root));
}

void PathTable::learn(Inode node, Inode parent, std::string_view name, bool is_directory, bool may_have_others) {
  if (node == kRootInode) return;
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known == entries_.end()) {
    if (entries_.size() >= sweep_at_) sweep();
    known = entries_.emplace(node, Entry()).first;
  }
  Entry& entry = known->second;
  entry.is_recent = true;
  EntryName spot{.parent = parent, .name = std::string(name)};
  bool is_known = std::find(entry.spots.begin(), entry.spots.end(), spot) != entry.spots.end();
  if (is_known && (entry.spots.size() == 1 || may_have_others)) return;
  bool is_new = entry.spots.empty();
  entry.is_directory = is_directory;
  if (is_directory || !may_have_others || entry.spots.size() >= spots_max_) remove_spots(entry);
  add_spot(entry, std::move(spot));
  entry.decided_at = 0;
  if (is_directory && !is_new) ++epoch_;  // another door moved it
}

void PathTable::add_spot(Entry& entry, EntryName spot) {
  auto parent = entries_.find(spot.parent);
  if (parent != entries_.end()) ++parent->second.children;
  entry.spots.push_back(std::move(spot));
}

void PathTable::remove_spots(Entry& entry) {
  for (const EntryName& spot : entry.spots) {
    auto parent = entries_.find(spot.parent);
    if (parent != entries_.end()) --parent->second.children;
  }
  entry.spots.clear();
}

void PathTable::moved(Inode node, Inode parent, std::string_view name, Inode new_parent, std::string_view new_name) {
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known == entries_.end()) return;
  Entry& entry = known->second;
  std::vector<EntryName> spots = entry.spots;
  std::erase(spots, EntryName{.parent = parent, .name = std::string(name)});
  if (spots.size() >= spots_max_) spots.clear();
  spots.push_back({.parent = new_parent, .name = std::string(new_name)});
  remove_spots(entry);
  for (EntryName& spot : spots) add_spot(entry, std::move(spot));
  entry.decided_at = 0;
  if (entry.is_directory) ++epoch_;
}

// A node without a name keeps its last place: it may still be open, and its rights do not change by that.
void PathTable::removed(Inode node, Inode parent, std::string_view name) {
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known == entries_.end() || known->second.spots.size() < 2) return;
  Entry& entry = known->second;
  std::vector<EntryName> spots = entry.spots;
  std::erase(spots, EntryName{.parent = parent, .name = std::string(name)});
  remove_spots(entry);
  for (EntryName& spot : spots) add_spot(entry, std::move(spot));
  entry.decided_at = 0;
}

void PathTable::keep_only(Inode node, const std::vector<EntryName>& places) {
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known == entries_.end() || known->second.spots.size() == places.size()) return;
  Entry& entry = known->second;
  std::vector<EntryName> kept;
  for (const EntryName& spot : entry.spots) {
    if (std::find(places.begin(), places.end(), spot) != places.end()) kept.push_back(spot);
  }
  if (kept.empty()) return;
  remove_spots(entry);
  for (EntryName& spot : kept) add_spot(entry, std::move(spot));
  entry.decided_at = 0;
}

void PathTable::retain(Inode node) {
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known != entries_.end()) ++known->second.retained;
}

void PathTable::forget(Inode node, std::uint64_t count) {
  if (node == kRootInode) return;
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known != entries_.end()) known->second.retained -= std::min(known->second.retained, count);
}

// From the node up; a loop cannot be, since directories have one place and a move into itself is refused below.
std::string PathTable::path_of(const EntryName& spot) const {
  std::vector<const std::string*> names{&spot.name};
  Inode at = spot.parent;
  while (at != kRootInode && names.size() < limits::kTreeDepth) {
    auto known = entries_.find(at);
    if (known == entries_.end() || known->second.spots.empty()) return {};
    names.push_back(&known->second.spots.front().name);
    at = known->second.spots.front().parent;
  }
  std::string path;
  for (auto name = names.rbegin(); name != names.rend(); ++name) (path += '/') += **name;
  return path;
}

Result<std::vector<std::string>> PathTable::paths_of(Inode node) {
  if (node == kRootInode) return std::vector<std::string>{"/"};
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known == entries_.end() || known->second.spots.empty()) return refuse_unknown(node);
  known->second.is_recent = true;
  std::vector<std::string> paths;
  for (const EntryName& spot : known->second.spots) {
    paths.push_back(path_of(spot));
    if (paths.back().empty()) return refuse_unknown(node);
  }
  return paths;
}

Result<std::string> PathTable::path_in(Inode dir, std::string_view name) {
  std::vector<std::string> paths = WARREN_TRY(paths_of(dir));
  return join_path(paths.front(), name);
}

std::size_t PathTable::count_places(Inode node) const {
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  return known == entries_.end() ? 0 : known->second.spots.size();
}

std::optional<EntryName> PathTable::find_place(Inode node) const {
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known == entries_.end() || known->second.spots.empty()) return std::nullopt;
  return known->second.spots.front();
}

std::optional<Rights> PathTable::find_rights(Inode node, std::uint64_t generation) {
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known == entries_.end() || known->second.decided_at != generation || known->second.epoch != epoch_) return {};
  known->second.is_recent = true;
  return known->second.rights;
}

Result<Rights> PathTable::rights_of(Inode node, std::uint64_t generation, const Decide& decide) {
  std::uint64_t epoch = 0;
  {
    std::lock_guard lock(mutex_);
    epoch = epoch_;
  }
  std::vector<std::string> paths = WARREN_TRY(paths_of(node));
  Rights rights = kAllRights;
  for (const std::string& path : paths) rights = rights & decide(path);
  std::lock_guard lock(mutex_);
  auto known = entries_.find(node);
  if (known != entries_.end() && epoch == epoch_ && known->second.spots.size() == paths.size()) {
    known->second.rights = rights;
    known->second.decided_at = generation;
    known->second.epoch = epoch;
  }
  return rights;
}

std::size_t PathTable::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

// Drops what was not used since the last sweep. A directory goes only after everything known in it.
void PathTable::sweep() {
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry& entry = at->second;
    if (entry.is_recent || entry.retained > 0 || entry.children > 0) {
      entry.is_recent = false;
      ++at;
      continue;
    }
    remove_spots(entry);
    at = entries_.erase(at);
  }
  sweep_at_ = std::max(size_max_, entries_.size() * 2);
}

}  // namespace warren
