#include "fs/mounts/mount_points.h"

#include <vector>

#include <fmt/format.h>

#include "base/limits.h"
#include "fs/mounts/mount_fs.h"
#include "fs/path_walk.h"

namespace warren {

// A directory that leads to a mount has an unknown number of links, shown as 1, and what leads on is its first entry.
Result<bool> leads_to_mount(FileSystem& fs, const Attributes& node) {
  Attributes at = node;
  for (int depth = 0; depth < limits::kTreeDepth; ++depth) {
    if (!at.is_directory()) return false;
    if (is_mount_point(at.inode)) return true;
    if (at.nlink != 1) return false;
    std::unique_ptr<DirStream> stream = WARREN_TRY(fs.open_dir(at.inode));
    std::vector<DirEntry> first = WARREN_TRY(stream->read(0, 1, DirDetail::kAttributes));
    if (first.empty() || !first.front().attributes) return false;
    at = *first.front().attributes;
  }
  return false;
}

Error refuse_mount(std::string_view path) {
  return Error(Code::kBusy,
               fmt::format("{} is a mount point or leads to one, which stays; nothing was changed", quote_path(path)),
               "name what is in it instead, one by one");
}

Status check_no_mount(FileSystem& fs, std::string_view path) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kRead));
  Result<Place> place = find_name(fs, path);
  if (!place.ok() && place.error().code() == Code::kNotFound) return Ok{};
  Place found = WARREN_TRY(std::move(place));
  if (!found.node) return Ok{};
  if (WARREN_TRY(leads_to_mount(fs, *found.node))) return refuse_mount(path);
  return Ok{};
}

}  // namespace warren
