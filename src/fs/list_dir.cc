#include "fs/list_dir.h"

#include <algorithm>
#include <iterator>

#include "base/limits.h"

namespace warren {

Result<std::vector<DirEntry>> list_dir(FileSystem& fs, Inode dir, DirDetail detail) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kRead));
  auto stream = WARREN_TRY(fs.open_dir(dir));
  std::vector<DirEntry> entries;
  for (;;) {
    std::uint64_t cookie = entries.empty() ? 0 : entries.back().cookie;
    std::vector<DirEntry> page = WARREN_TRY(stream->read(cookie, limits::kDirPage, detail));
    if (page.empty()) break;
    std::move(page.begin(), page.end(), std::back_inserter(entries));
  }
  std::ranges::sort(entries, {}, &DirEntry::name);
  return entries;
}

}  // namespace warren
