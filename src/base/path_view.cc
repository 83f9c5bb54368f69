#include "base/path_view.h"

#include <algorithm>

namespace warren {
namespace {

// Removes the first name from the path and returns it.
std::string_view take_name(std::string_view& path) {
  std::size_t slash = std::min(path.find('/'), path.size());
  std::string_view name = path.substr(0, slash);
  path.remove_prefix(std::min(slash + 1, path.size()));
  return name;
}

}  // namespace

// A new directory on the way treats other names as the one above it does.
PathView::Rule& PathView::make(std::string_view path) {
  Rule* at = &root_;
  while (!path.empty()) {
    std::string_view name = take_name(path);
    auto found = at->names.find(name);
    if (found == at->names.end()) {
      Rule fresh;
      fresh.others = at->others;
      found = at->names.emplace(std::string(name), std::move(fresh)).first;
    }
    at = &found->second;
    if (!at->is_shown && !path.empty()) {
      at->is_shown = true;
      at->others = Others::kHidden;
    }
  }
  return *at;
}

void PathView::show(std::string_view path) {
  Rule& rule = make(path);
  rule.is_shown = true;
  rule.others = Others::kShown;
}

void PathView::show_empty(std::string_view path) {
  Rule& rule = make(path);
  rule.is_shown = true;
  rule.others = Others::kHidden;
  rule.names.clear();
}

void PathView::hide(std::string_view path) {
  if (shows(path)) make(path).is_shown = false;  // otherwise the directories on the way would become visible
}

void PathView::refuse(std::string_view path) {
  Rule& rule = make(path);
  rule.is_shown = false;
  rule.is_refused = true;
}

bool PathView::refuses(const Rule& dir, std::string_view name) {
  auto found = dir.names.find(name);
  return found != dir.names.end() && found->second.is_refused;
}

void PathView::freeze(const ListNames& names) { freeze_below(root_, "", names); }

void PathView::freeze_below(Rule& rule, const std::string& path, const ListNames& names) {
  bool hides_some =
      std::any_of(rule.names.begin(), rule.names.end(), [](const auto& one) { return !one.second.is_shown; });
  if (rule.is_shown && rule.others == Others::kShown && hides_some) rule.known = names(path);
  for (auto& [name, below] : rule.names) freeze_below(below, path.empty() ? name : path + "/" + name, names);
}

const PathView::Rule* PathView::find(const Rule& dir, std::string_view name) const {
  auto found = dir.names.find(name);
  if (found != dir.names.end()) return found->second.is_shown ? &found->second : nullptr;
  if (dir.others == Others::kHidden || (dir.known && !dir.known->contains(name))) return nullptr;
  return hides_ && hides_(name) ? nullptr : &everything_;
}

bool PathView::shows(std::string_view path) const {
  const Rule* at = &root_;
  while (!path.empty() && at != nullptr) at = find(*at, take_name(path));
  return at != nullptr;
}

bool PathView::shows_all(std::string_view path) const {
  const Rule* at = &root_;
  while (!path.empty() && at != nullptr) at = find(*at, take_name(path));
  return at != nullptr && at->others == Others::kShown && at->names.empty() && !at->known;
}

}  // namespace warren
