#include "changes/upper/replace_origin.h"

#include "base/binary.h"
#include "base/limits.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

bool is_same_version(const Attributes& a, const Attributes& b) {
  return a.inode == b.inode && a.size == b.size && a.mtime == b.mtime;
}

}  // namespace

Status replace_origin(const AgentOverlay& overlay, const Origin& origin, const std::string& place) {
  UpperLayer& upper = overlay.upper;
  std::vector<ByteRange> in_base = WARREN_TRY(upper.list_base_ranges(origin.upper));
  WARREN_TRY(upper.remove_origin(origin.upper));  // with the merge base of before
  WARREN_TRY(upper.put_origin(origin));
  WARREN_TRY(upper.set_base_ranges(origin.upper, in_base));
  const std::optional<Attributes>& seen = origin.seen;
  if (!seen || !seen->is_file() || seen->size > limits::kAncestorBytes) return Ok{};
  std::string content = WARREN_TRY(read_file(overlay.base, place));
  if (is_binary(content)) return Ok{};
  Attributes now = WARREN_TRY(lstat(overlay.base, place));
  // An edit since then is not what the node is compared with.
  return is_same_version(now, *seen) ? upper.keep_ancestor(origin.upper, as_bytes(content)) : Status(Ok{});
}

}  // namespace warren
