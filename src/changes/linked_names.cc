#include "changes/linked_names.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/review/remarks.h"
#include "os/fd.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kDirsKept = 4096;
constexpr int kLinksFollowed = 40;

struct NamedLink {
  std::string from;  // paths of the base
  std::string to;    // canonical
};

struct LinksOfDir {
  timespec changed{};
  ino_t inode = 0;
  std::vector<NamedLink> links;
};

std::string below(const std::string& dir, const std::string& name) {
  return dir == "/" ? "/" + name : dir + "/" + name;
}

bool is_same_time(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

// Where a path leads, without links, also if nothing is there yet: what an agent adds there runs by the link's name.
// nullopt beyond the number of links that the kernel follows.
std::optional<std::string> find_target(const std::string& path) {
  std::filesystem::path at = "/";
  std::filesystem::path rest = std::filesystem::path(path).relative_path();
  for (int links = 0; !rest.empty();) {
    std::filesystem::path name = *rest.begin();
    std::filesystem::path after;
    for (auto part = std::next(rest.begin()); part != rest.end(); ++part) after /= *part;
    rest = std::move(after);
    if (name == "..") at = at.parent_path();
    if (name.empty() || name == "." || name == "..") continue;
    std::error_code is_no_link;
    std::filesystem::path target = std::filesystem::read_symlink(at / name, is_no_link);
    if (is_no_link) {
      at /= name;
      continue;
    }
    if (++links > kLinksFollowed) return std::nullopt;
    if (target.is_absolute()) at = "/";
    rest = target.relative_path() / rest;
  }
  return at.string();
}

// The links in a directory of the base whose names count, and the folders there that hold such files.
std::vector<NamedLink> find_links(const std::string& base, const std::string& dir, std::vector<std::string>& folders) {
  std::vector<NamedLink> links;
  Result<Fd> opened = open_host_dir(base + dir);
  if (!opened.ok()) return links;
  Result<std::vector<HostEntry>> entries = list_host_dir(opened->get());
  if (!entries.ok()) return links;
  for (const HostEntry& entry : *entries) {
    std::string from = below(dir, entry.name);
    bool is_folder = holds_what_runs(from);
    if (!is_folder && !runs_by_itself(from)) continue;
    if (S_ISDIR(entry.attributes.st_mode) && is_folder) folders.push_back(from);
    if (!S_ISLNK(entry.attributes.st_mode)) continue;
    std::optional<std::string> to = find_target(base + from);
    bool is_inside = to && to->starts_with(base == "/" ? base : base + "/");
    if (is_inside) links.push_back({.from = std::move(from), .to = base == "/" ? *to : to->substr(base.size())});
  }
  return links;
}

// Not kept: such folders are small, and a link in one changes no time of the directory above.
void add_links_of_folders(const std::string& base, const std::vector<std::string>& folders,
                          std::vector<NamedLink>& links) {
  for (const std::string& folder : folders) {
    std::vector<std::string> inner;
    for (NamedLink& link : find_links(base, folder, inner)) links.push_back(std::move(link));
  }
}

std::vector<NamedLink> links_of(const std::string& base, const std::string& dir, const struct stat& now) {
  struct Kept {
    LinksOfDir found;
    std::vector<std::string> folders;
  };
  static std::mutex mutex;
  static std::map<std::string, Kept> kept;
  std::lock_guard lock(mutex);
  std::string key = base + '\0' + dir;
  auto known = kept.find(key);
  bool is_current = known != kept.end() && known->second.found.inode == now.st_ino &&
                    is_same_time(known->second.found.changed, now.st_mtim);
  if (!is_current) {
    if (kept.size() >= kDirsKept) kept.clear();
    Kept fresh{.found = {.changed = now.st_mtim, .inode = now.st_ino, .links = {}}, .folders = {}};
    fresh.found.links = find_links(base, dir, fresh.folders);
    known = kept.insert_or_assign(key, std::move(fresh)).first;
  }
  std::vector<NamedLink> links = known->second.found.links;
  add_links_of_folders(base, known->second.folders, links);
  return links;
}

std::optional<std::string> why_through(const NamedLink& link, std::string_view path) {
  bool leads_to_it = path == link.to || (path.starts_with(link.to) && path[link.to.size()] == '/');
  if (!leads_to_it) return std::nullopt;
  std::string other = link.from + std::string(path.substr(link.to.size()));
  std::optional<std::string_view> why = runs_by_itself(other);
  if (!why) return std::nullopt;
  return fmt::format("{}, by its other name {}", *why, quote(other));
}

std::optional<std::string> why_in(const std::vector<NamedLink>& links, std::string_view path) {
  for (const NamedLink& link : links) {
    if (std::optional<std::string> why = why_through(link, path)) return why;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> runs_through_link(const std::string& base, std::string_view path) {
  std::optional<std::string> nearest;
  Fd at(::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::string_view dir = directory_of(path);
  for (std::size_t end = 0;;) {  // name by name: the whole path of each would take as long as it is deep
    struct stat now {};
    if (!at.is_open() || ::fstat(at.get(), &now) != 0) break;
    std::string above(end == 0 ? "/" : dir.substr(0, end));
    if (std::optional<std::string> why = why_in(links_of(base, above, now), path)) nearest = std::move(why);
    if (end == dir.size() || dir == "/") break;
    std::size_t begin = end + 1;
    end = std::min(dir.find('/', begin), dir.size());
    at = Fd(::openat(at.get(), std::string(dir.substr(begin, end - begin)).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  return nearest;
}

}  // namespace warren
