#include "fs/copy_content.h"

#include <algorithm>

#include "base/limits.h"

namespace warren {

Status copy_content(FileSystem& fs, const Attributes& from, Inode to) {
  std::uint64_t at = 0;
  while (at < from.size) {
    Result<std::uint64_t> data = fs.seek_data(from.inode, at);
    if (!data.ok() && data.error().code() == Code::kNoData) break;
    at = WARREN_TRY(std::move(data));
    std::uint64_t hole = WARREN_TRY(fs.seek_hole(from.inode, at));
    while (at < hole) {
      std::uint64_t step = std::min<std::uint64_t>(limits::kCopyBytes, hole - at);
      std::uint64_t copied = WARREN_TRY(fs.copy_range(from.inode, at, to, at, step));
      if (copied == 0) return Error(Code::kConflict, "the file shrank while it was copied");
      at += copied;
    }
  }
  WARREN_TRY(fs.set_attributes(to, {.size = from.size}));
  return Ok{};
}

}  // namespace warren
