#include "session/operator_places.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "agent/keys/key_source.h"
#include "base/path.h"
#include "os/files/host_files.h"
#include "sandbox/view/plan.h"

namespace warren {
namespace {

constexpr int kLinksFollowed = 40;  // as the kernel
constexpr int kOperatorDepth = 8;
constexpr std::size_t kOperatorEntries = 100'000;

void put_names_first(std::string_view path, std::deque<std::string>& names) {
  std::vector<std::string> found;
  while (!path.empty()) {
    std::size_t end = std::min(path.find('/'), path.size());
    if (end > 0) found.emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  names.insert(names.begin(), found.begin(), found.end());
}

class OperatorPlaces {
 public:
  // The links on the way to the path, and where it ends; nullopt if nothing is there.
  std::optional<std::string> add(const std::string& path) {
    std::deque<std::string> names;
    std::string at = "/";
    if (!path.starts_with('/')) {
      Result<std::string> here = canonical_host_path(".");
      if (!here.ok()) return std::nullopt;
      at = *std::move(here);
    }
    put_names_first(path, names);
    for (int links = 0; !names.empty();) {
      std::string name = std::move(names.front());
      names.pop_front();
      if (name == ".") continue;
      if (name == "..") {
        at = std::string(split_parent(at).parent);
        continue;
      }
      std::string next = join_path(at, name);
      Result<std::optional<struct stat>> there = find_host_link(next);
      if (!there.ok() || !*there) return std::nullopt;
      if (!S_ISLNK((*there)->st_mode)) {
        at = std::move(next);
        continue;
      }
      Result<Fd> dir = open_host_dir(at);
      if (!dir.ok() || ++links > kLinksFollowed) return std::nullopt;
      Result<std::string> target = read_host_link_below(dir->get(), name);
      if (!target.ok()) return std::nullopt;
      places_.insert(std::move(next));
      if (target->starts_with('/')) at = "/";
      put_names_first(*target, names);
    }
    places_.insert(at);
    return at;
  }

  // Everything that links in the directory lead to, and links in there.
  Status add_links_in(const std::string& path, int depth) {
    if (depth > kOperatorDepth || !walked_.insert(path).second) return Ok{};
    Result<Fd> dir = open_host_dir(path);
    if (!dir.ok()) return Ok{};  // what we cannot list, a command of ours cannot either
    std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir->get()));
    for (const HostEntry& entry : entries) {
      if (++entries_ > kOperatorEntries) {
        return Error(Code::kTooLarge, fmt::format("{} has more than {} entries, or links to such directories",
                                                  quote(root_), kOperatorEntries));
      }
      std::string whole = join_path(path, entry.name);
      if (S_ISDIR(entry.attributes.st_mode)) WARREN_TRY(add_links_in(whole, depth + 1));
      if (!S_ISLNK(entry.attributes.st_mode)) continue;
      std::optional<std::string> real = add(whole);
      if (real && !is_within(root_, *real)) WARREN_TRY(add_links_in(*real, depth + 1));
    }
    return Ok{};
  }

  Status add_directory(const std::string& path) {
    std::optional<std::string> real = add(path);
    if (!real) return Ok{};
    root_ = *real;
    WARREN_TRY(add_links_in(root_, 0));
    // A link to something above the directory itself would hide what it has nothing to do with.
    std::erase_if(places_, [&](const std::string& place) { return place != root_ && is_within(root_, place); });
    return Ok{};
  }

  std::vector<std::string> take() { return {places_.begin(), places_.end()}; }

 private:
  std::string root_;
  std::set<std::string> places_;
  std::set<std::string> walked_;
  std::size_t entries_ = 0;
};

}  // namespace

Result<std::vector<std::string>> list_operator_places(const std::vector<KeySource>& keys) {
  OperatorPlaces places;
  std::string directory = WARREN_TRY(operator_directory());
  WARREN_TRY(places.add_directory(directory));
  for (const KeySource& key : keys) {
    if (key.kind != KeySourceKind::kFile) continue;
    Result<std::optional<struct stat>> there = find_host_file(key.value);
    bool is_file = there.ok() && *there && S_ISREG((*there)->st_mode);
    if (is_file) places.add(key.value);
  }
  return places.take();
}

}  // namespace warren
