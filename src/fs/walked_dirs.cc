#include "fs/walked_dirs.h"

#include <vector>

#include <fmt/format.h>

#include "fs/path_walk.h"

namespace warren {

Error has_two_names(std::string_view path) {
  return {Code::kCorrupt, fmt::format("directory {} has another name, too, and may be inside itself", quote_path(path)),
          "check the agent with `warren fsck`"};
}

Status check_one_name(FileSystem& fs, Inode dir, std::string_view path) {
  if (dir == kRootInode) return has_two_names(path);
  Result<std::vector<EntryName>> names = fs.list_names_of(dir);
  if (!names.ok() && names.error().code() == Code::kUnsupported) return Ok{};
  if (!names.ok()) return std::move(names).take_error();
  return names->size() > 1 ? Status(has_two_names(path)) : Status(Ok{});
}

}  // namespace warren
