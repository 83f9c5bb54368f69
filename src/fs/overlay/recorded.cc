#include "fs/overlay/recorded.h"

#include <algorithm>
#include <string>
#include <vector>

namespace warren {
namespace {

Result<bool> has_seen_content(UpperLayer& upper, const Attributes& node) {
  if (node.size == 0) return true;
  std::vector<ByteRange> in_base = WARREN_TRY(upper.list_base_ranges(node.inode));
  if (!in_base.empty()) return in_base.size() == 1 && in_base[0] == ByteRange{0, node.size};
  std::optional<std::string> original = WARREN_TRY(upper.find_ancestor(node.inode));
  if (!original || original->size() != node.size) return false;
  std::string content(original->size(), '\0');
  content.resize(WARREN_TRY(upper.fs().read(node.inode, 0, as_mutable_bytes(content))));
  return content == *original;
}

Result<bool> has_same_xattrs(FileSystem& a, Inode node_a, FileSystem& b, Inode node_b) {
  std::vector<std::string> names = WARREN_TRY(a.list_xattrs(node_a));
  std::vector<std::string> others = WARREN_TRY(b.list_xattrs(node_b));
  std::sort(names.begin(), names.end());
  std::sort(others.begin(), others.end());
  if (names != others) return false;
  for (const std::string& name : names) {
    std::string value = WARREN_TRY(a.get_xattr(node_a, name));
    if (WARREN_TRY(b.get_xattr(node_b, name)) != value) return false;
  }
  return true;
}

}  // namespace

Result<bool> equals_seen(UpperLayer& upper, FileSystem& base, const CopiedFile& file) {
  const Attributes& node = file.node;
  const Attributes& seen = file.seen;
  bool may_be = node.is_file() && seen.is_file() && node.size == seen.size && node.mode == seen.mode &&
                node.owner == seen.owner && file.now.is_file();
  if (!may_be || !WARREN_TRY(has_seen_content(upper, node))) return false;
  return has_same_xattrs(upper.fs(), node.inode, base, file.now.inode);
}

}  // namespace warren
