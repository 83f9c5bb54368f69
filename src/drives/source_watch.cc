#include "drives/source_watch.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/below.h"
#include "base/path.h"
#include "drives/ingest_parts.h"

namespace warren {

Result<SourceWatch> SourceWatch::open() {
  DirWatch watch = WARREN_TRY(DirWatch::open());
  return SourceWatch(std::move(watch));
}

Status SourceWatch::add(int dir, const std::string& host_path) {
  std::optional<int> id = watch_.add(dir);
  if (!id) {
    return Error(Code::kLimit, fmt::format("{} cannot be watched: the system has no more watches", quote(host_path)),
                 "raise fs.inotify.max_user_watches (sysctl), or add fewer folders");
  }
  dirs_[*id] = host_path;
  return Ok{};
}

void SourceWatch::forget(const std::string& host_path) {
  std::erase_if(dirs_, [&](const auto& dir) {
    bool is_meant = is_at_or_below(dir.second, host_path);
    if (is_meant) watch_.remove(dir.first);
    return is_meant;
  });
}

SourceWatch::Changes SourceWatch::take() {
  Changes changes;
  for (const DirWatch::Event& event : watch_.take()) {
    if (event.is_lost) changes.is_everything = true;
    auto dir = dirs_.find(event.id);
    if (dir == dirs_.end()) continue;
    // Patterns decide about the whole directory.
    bool is_about_dir = event.name.empty() || std::ranges::find(kIgnoreFiles, event.name) != kIgnoreFiles.end();
    if (event.is_over || is_about_dir) changes.paths.insert(dir->second);
    else changes.paths.insert(fmt::format("{}/{}", dir->second, event.name));
    if (event.is_over) dirs_.erase(dir);
  }
  std::set<std::string> kept;
  for (const std::string& path : changes.paths) {
    bool is_inside = false;
    for (std::string at(directory_of(path)); at.size() > 1 && !is_inside; at = std::string(directory_of(at))) {
      is_inside = changes.paths.contains(at);
    }
    if (!is_inside) kept.insert(path);
  }
  changes.paths = std::move(kept);
  return changes;
}

}  // namespace warren
