#include "agent/keys/pattern_places.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoint_blobs.h"
#include "agent/checkpoints/mounted_state.h"
#include "base/path.h"
#include "store/ciphers/cipher_patterns.h"
#include "text/glob.h"

namespace warren {
namespace {

struct PlaceWithoutFiles {
  std::string_view path;
  std::string_view what;
};

constexpr std::array<PlaceWithoutFiles, 3> kPlacesWithoutFiles{{
    {kWorkingMemoryPath, "working memory"},
    {kCheckpointsPath, "the list of checkpoints, in which encrypted files stay encrypted"},
    {"/audit/events.jsonl", "the audit trail"},
}};

std::vector<std::string_view> components_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < path.size();) {
    std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool is_literal(std::string_view component) { return component.find_first_of("*?[") == component.npos; }

// Whether everything that the pattern matches is at the place or below it.
bool is_inside(std::string_view pattern, std::string_view place) {
  std::vector<std::string_view> parts = components_of(pattern);
  std::vector<std::string_view> names = components_of(place);
  if (parts.size() < names.size()) return false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!is_literal(parts[i]) || !glob_match(parts[i], names[i])) return false;
  }
  return true;
}

// Whether the pattern matches the place, a directory above it, or names below it. One that begins with '**' is about
// names anywhere: then only whether it matches the place itself.
bool reaches(std::string_view pattern, std::string_view place) {
  std::vector<std::string_view> parts = components_of(pattern);
  std::vector<std::string_view> names = components_of(place);
  for (std::size_t i = 0; i < names.size() && i < parts.size(); ++i) {
    if (parts[i].find("**") != parts[i].npos) return covers_path(Glob(pattern), place);
    if (!glob_match(parts[i], names[i])) return false;
  }
  return true;
}

}  // namespace

Status check_matches_files(std::string_view pattern) {
  for (const PlaceWithoutFiles& place : kPlacesWithoutFiles) {
    if (!is_inside(pattern, place.path)) continue;
    return Error(Code::kInvalid,
                 fmt::format("{} matches no file of the agent: {} is {}", quote(pattern), place.path, place.what),
                 "without a pattern, `warren encrypt ID` encrypts the whole agent: with its working memory, its "
                 "checkpoints and its audit trail");
  }
  return Ok{};
}

std::vector<std::string> list_places_left_out(std::string_view pattern, const std::vector<std::string>& mounts) {
  std::vector<std::string> found;
  for (const PlaceWithoutFiles& place : kPlacesWithoutFiles) {
    if (reaches(pattern, place.path)) found.emplace_back(place.path);
  }
  for (const std::string& mount : mounts) {
    if (reaches(pattern, mount) && std::ranges::find(found, mount) == found.end()) found.push_back(mount);
  }
  return found;
}

}  // namespace warren
