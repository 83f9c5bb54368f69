#include "drives/source_watch.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/below.h"
#include "base/path.h"
#include "drives/ingest_parts.h"
#include "os/files/host_files.h"

namespace warren {

Result<SourceWatch> SourceWatch::open() {
  DirWatch watch = WARREN_TRY(DirWatch::open());
  MountWatch mounts = WARREN_TRY(MountWatch::open());
  return SourceWatch(std::move(watch), std::move(mounts));
}

Status SourceWatch::add(int dir, const std::string& host_path) {
  FolderIdentity identity = WARREN_TRY(identify_folder(dir));
  std::optional<int> id = watch_.add(dir);
  if (!id) {
    return Error(Code::kLimit, fmt::format("{} cannot be watched: the system has no more watches", quote(host_path)),
                 "raise fs.inotify.max_user_watches (sysctl), or add fewer folders");
  }
  dirs_[*id] = {host_path, identity};
  return Ok{};
}

void SourceWatch::forget_replaced(const std::string& host_path) {
  std::erase_if(dirs_, [&](const auto& watched) {
    const auto& [id, dir] = watched;
    if (!is_at_or_below(dir.host_path, host_path)) return false;
    Result<Fd> opened = open_host_dir(dir.host_path);
    Result<FolderIdentity> now = opened.ok() ? identify_folder(opened->get()) : Result<FolderIdentity>(opened.error());
    if (now.ok() && *now == dir.identity) return false;
    watch_.remove(id);
    return true;
  });
}

// Without those that are below another.
std::set<std::string> SourceWatch::topmost(const std::set<std::string>& paths) {
  std::set<std::string> kept;
  for (const std::string& path : paths) {
    bool is_inside = false;
    for (std::string at(directory_of(path)); at.size() > 1 && !is_inside; at = std::string(directory_of(at))) {
      is_inside = paths.contains(at);
    }
    if (!is_inside) kept.insert(path);
  }
  return kept;
}

SourceWatch::Changes SourceWatch::take() {
  Changes changes;
  for (const DirWatch::Event& event : watch_.take()) {
    if (event.is_lost) changes.is_everything = true;
    auto found = dirs_.find(event.id);
    if (found == dirs_.end()) continue;
    const std::string& dir = found->second.host_path;
    // Patterns decide about the whole directory.
    bool is_about_dir = event.name.empty() || std::ranges::find(kIgnoreFiles, event.name) != kIgnoreFiles.end();
    if (event.is_over || is_about_dir) changes.paths.insert(dir);
    else changes.paths.insert(fmt::format("{}/{}", dir, event.name));
    if (event.is_over) dirs_.erase(found);
  }
  Result<std::set<std::string>> mounted = mounts_.take();
  if (mounted.ok()) changes.paths.merge(*mounted);
  else changes.is_everything = true;
  changes.paths = topmost(changes.paths);
  return changes;
}

}  // namespace warren
