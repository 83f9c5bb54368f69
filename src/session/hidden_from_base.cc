#include "session/hidden_from_base.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/path.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

using NodeId = std::pair<dev_t, ino_t>;
using NodeIds = std::set<NodeId>;

std::optional<NodeId> find_node_id(const std::string& path) {
  Result<std::optional<struct stat>> there = find_host_link(path);
  if (!there.ok() || !*there) return std::nullopt;
  return NodeId((*there)->st_dev, (*there)->st_ino);
}

// Of the directory and those above it.
NodeIds ids_to(const std::string& dir) {
  NodeIds ids;
  for (std::string at = dir; at != "/"; at = std::string(split_parent(at).parent)) {
    if (std::optional<NodeId> node = find_node_id(at)) ids.insert(*node);
  }
  return ids;
}

// Hidden paths are left out of the base itself. Covering them with a mount is not enough: the kernel drops that mount
// when it is notified that a name above it has changed, and a command can cause that. If a place inside a hidden
// directory is shown, only the other entries are hidden.
// Another name of what the run works on, by a mount, is only covered: by identity, its entries are those of the base or
// the home.
Status collect_hidden(const Plan& plan, const NodeIds& served, const std::string& path,
                      std::vector<std::string>& hidden) {
  bool is_around = is_within(plan.base, path) || (plan.home && is_within(plan.home->path, path));
  std::optional<NodeId> node = find_node_id(path);
  if (!is_around && node && served.contains(*node)) return Ok{};
  if (!has_places_inside(plan, path)) {
    hidden.push_back(path);
    return Ok{};
  }
  Fd dir = WARREN_TRY(open_host_dir(path));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  for (const HostEntry& entry : entries) {
    std::string child = join_path(path, entry.name);
    bool is_place = std::any_of(plan.places.begin(), plan.places.end(),
                                [&](const Plan::Place& place) { return place.path == child; });
    if (!is_place) WARREN_TRY(collect_hidden(plan, served, child, hidden));
  }
  return Ok{};
}

}  // namespace

bool has_places_inside(const Plan& plan, const std::string& path) {
  return std::any_of(plan.places.begin(), plan.places.end(),
                     [&](const Plan::Place& place) { return place.path != path && is_within(place.path, path); });
}

Result<std::vector<std::string>> hidden_from_base(const Plan& plan) {
  std::vector<std::string> hidden;
  NodeIds served = ids_to(plan.base);
  if (plan.home) served.merge(ids_to(plan.home->path));
  for (const std::string& path : plan.paths_of(Plan::Kind::kHidden)) {
    WARREN_TRY(collect_hidden(plan, served, path, hidden));
  }
  return hidden;
}

}  // namespace warren
