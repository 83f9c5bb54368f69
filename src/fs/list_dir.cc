#include "fs/list_dir.h"

#include <algorithm>
#include <iterator>

#include "base/limits.h"

namespace warren {

namespace {

// Calls `take` with each page of the directory, all from one state.
template <class Take>
Status read_pages(FileSystem& fs, Inode dir, DirDetail detail, const Take& take) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kRead));
  auto stream = WARREN_TRY(fs.open_dir(dir));
  std::uint64_t cookie = 0;
  for (;;) {
    std::vector<DirEntry> page = WARREN_TRY(stream->read(cookie, limits::kDirPage, detail));
    if (page.empty()) return Ok{};
    cookie = page.back().cookie;
    take(page);
  }
}

}  // namespace

Result<std::vector<DirEntry>> list_dir(FileSystem& fs, Inode dir, DirDetail detail) {
  std::vector<DirEntry> entries;
  WARREN_TRY(read_pages(fs, dir, detail, [&](std::vector<DirEntry>& page) {
    std::move(page.begin(), page.end(), std::back_inserter(entries));
  }));
  // Our own filesystems list in this order already; checking costs less than sorting.
  if (!std::ranges::is_sorted(entries, {}, &DirEntry::name)) std::ranges::sort(entries, {}, &DirEntry::name);
  return entries;
}

Result<std::vector<std::string>> list_names(FileSystem& fs, Inode dir) {
  std::vector<std::string> names;
  WARREN_TRY(read_pages(fs, dir, DirDetail::kNames, [&](std::vector<DirEntry>& page) {
    for (DirEntry& entry : page) names.push_back(std::move(entry.name));
  }));
  if (!std::ranges::is_sorted(names)) std::ranges::sort(names);
  return names;
}

}  // namespace warren
