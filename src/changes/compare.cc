#include "changes/compare.h"

#include "base/limits.h"
#include "fs/file.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

// Releases an open node in the destructor.
class Opened {
 public:
  Opened(FileSystem& fs, Inode node) : fs_(fs), node_(node) {}
  ~Opened() { fs_.release(node_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  FileSystem& fs_;
  Inode node_;
};

Result<bool> compare_open(FileSystem& a, Inode node_a, FileSystem& b, Inode node_b) {
  std::size_t step = 16384;  // most files differ early, and most are small
  std::string left;
  std::string right;
  for (std::uint64_t offset = 0;;) {
    left.resize(step);
    right.resize(step);
    std::size_t count_a = WARREN_TRY(a.read(node_a, offset, as_mutable_bytes(left)));
    std::size_t count_b = WARREN_TRY(b.read(node_b, offset, as_mutable_bytes(right)));
    if (count_a != count_b || left.compare(0, count_a, right, 0, count_b) != 0) return false;
    if (count_a < step) return true;
    offset += count_a;
    step = limits::kCopyBytes;
  }
}

}  // namespace

Result<bool> has_same_content(FileSystem& a, const Attributes& file_a, FileSystem& b, const Attributes& file_b) {
  if (file_a.size != file_b.size) return false;
  WARREN_TRY(a.open(file_a.inode));
  Opened keep_a(a, file_a.inode);
  WARREN_TRY(b.open(file_b.inode));
  Opened keep_b(b, file_b.inode);
  return compare_open(a, file_a.inode, b, file_b.inode);
}

Result<bool> has_same_content(FileSystem& a, const std::string& path_a, FileSystem& b, const std::string& path_b) {
  auto left = WARREN_TRY(File::open(a, path_a, {.follow = Follow::kNo}));
  auto right = WARREN_TRY(File::open(b, path_b, {.follow = Follow::kNo}));
  Attributes node_a = WARREN_TRY(left->attributes());
  Attributes node_b = WARREN_TRY(right->attributes());
  if (node_a.size != node_b.size) return false;
  return compare_open(a, left->inode(), b, right->inode());
}

bool has_same_mode(const Attributes& a, const Attributes& b) { return a.mode == b.mode && a.owner == b.owner; }

bool is_surely_older(Timestamp changed_at, Timestamp moment) {
  constexpr std::int32_t kStepNs = 10'000'000;
  constexpr std::int32_t kSecondNs = 1'000'000'000;
  changed_at.nanoseconds += kStepNs;
  if (changed_at.nanoseconds >= kSecondNs) changed_at = {changed_at.seconds + 1, changed_at.nanoseconds - kSecondNs};
  return changed_at <= moment;
}

Result<XattrMap> read_xattrs(FileSystem& fs, Inode node) {
  XattrMap all;
  std::vector<std::string> names = WARREN_TRY(fs.list_xattrs(node));
  for (std::string& name : names) {
    std::string value = WARREN_TRY(fs.get_xattr(node, name));
    all.emplace(std::move(name), std::move(value));
  }
  return all;
}

Result<XattrMap> read_xattrs(FileSystem& fs, const std::string& path) {
  XattrMap all;
  std::vector<std::string> names = WARREN_TRY(list_xattrs(fs, path, Follow::kNo));
  for (std::string& name : names) {
    std::string value = WARREN_TRY(get_xattr(fs, path, name, Follow::kNo));
    all.emplace(std::move(name), std::move(value));
  }
  return all;
}

}  // namespace warren
