#include "agent/checkpoints/put_back.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "fs/walked_dirs.h"

namespace warren {
namespace {

// One put_back: the trees, and where files with several names were put first.
class PuttingBack {
 public:
  PuttingBack(FileSystem& from, FileSystem& to, const PrepareFile& prepare)
      : from_(from), to_(to), prepare_(prepare), walked_(from) {}

  Status put(const std::string& path, int depth = 0);
  Status make_parents(std::string_view path);

 private:
  static Result<std::optional<Attributes>> find(FileSystem& fs, std::string_view path);
  Status put_dir(const std::string& path, const std::optional<Attributes>& there, const Attributes& source, int depth);
  Result<bool> put_linked(const std::string& path, const Attributes& source);
  Status put_file(const std::string& path, const std::optional<Attributes>& there, const Attributes& source);
  Status copy_content(Inode from, Inode to, std::uint64_t size);
  Status put_link(const std::string& path, const std::optional<Attributes>& there, const Attributes& source);
  Status put_attributes(const std::string& path, const Attributes& source);
  Status put_xattrs(const std::string& path);

  FileSystem& from_;
  FileSystem& to_;
  const PrepareFile& prepare_;
  WalkedDirs walked_;                    // of `from`
  std::map<Inode, std::string> linked_;  // files of `from` with several names, and where they were put first
};

Result<std::optional<Attributes>> PuttingBack::find(FileSystem& fs, std::string_view path) {
  Result<Attributes> found = lstat(fs, path);
  if (found.ok()) return std::optional(*found);
  if (found.error().code() == Code::kNotFound || found.error().code() == Code::kNotDirectory) {
    return std::optional<Attributes>();
  }
  return std::move(found).take_error();
}

// From the top, so that no link is followed on the way: a path means what it says, then and now.
Status PuttingBack::make_parents(std::string_view path) {
  if (path == "/") return Ok{};
  std::string parent(directory_of(path));
  WARREN_TRY(make_parents(parent));
  std::optional<Attributes> source = WARREN_TRY(find(from_, parent));
  std::optional<Attributes> there = WARREN_TRY(find(to_, parent));
  bool is_directory_then = source && source->is_directory();
  if ((source && source->is_symlink()) || (there && there->is_symlink() && !is_directory_then)) {
    return Error(Code::kInvalid, fmt::format("{} is a symbolic link", quote(parent)), "give the path without links");
  }
  if (!is_directory_then || (there && there->is_directory())) return Ok{};
  if (there) WARREN_TRY(unlink(to_, parent));
  WARREN_TRY(make_dir(to_, parent, {.mode = source->mode & 07777U, .owner = source->owner}));
  return put_attributes(parent, *source);
}

Status PuttingBack::put(const std::string& path, int depth) {
  if (depth > limits::kTreeDepth) return Error(Code::kLimit, "directories are nested too deep");
  std::optional<Attributes> source = WARREN_TRY(find(from_, path));
  std::optional<Attributes> there = WARREN_TRY(find(to_, path));
  bool is_other_type = source && there && (source->mode & S_IFMT) != (there->mode & S_IFMT);
  if (there && (!source || is_other_type)) {
    WARREN_TRY(remove(to_, path, {.recursive = Recursive::kYes}));
    there.reset();
  }
  if (!source) return Ok{};
  if (source->is_directory()) {
    WARREN_TRY(put_dir(path, there, *source, depth));
    return put_attributes(path, *source);
  }
  if (WARREN_TRY(put_linked(path, *source))) return Ok{};
  if (source->is_file()) WARREN_TRY(put_file(path, there, *source));
  else if (source->is_symlink()) WARREN_TRY(put_link(path, there, *source));
  else {
    if (there) WARREN_TRY(unlink(to_, path));
    WARREN_TRY(make_node(to_, path, {.mode = source->mode, .owner = source->owner, .rdev = source->rdev}));
  }
  return put_attributes(path, *source);
}

Status PuttingBack::put_dir(const std::string& path, const std::optional<Attributes>& there, const Attributes& source,
                            int depth) {
  if (path != "/") WARREN_TRY(walked_.enter(source.inode, path));
  if (!there) WARREN_TRY(make_dir(to_, path, {.mode = source.mode & 07777U, .owner = source.owner}));
  std::vector<std::string> wanted = WARREN_TRY(read_dir(from_, path));
  std::vector<std::string> found = WARREN_TRY(read_dir(to_, path));
  for (const std::string& name : found) {
    if (std::binary_search(wanted.begin(), wanted.end(), name)) continue;
    WARREN_TRY(remove(to_, join_path(path, name), {.recursive = Recursive::kYes}));
  }
  for (const std::string& name : wanted) WARREN_TRY(put(join_path(path, name), depth + 1));
  return Ok{};
}

// A further name of a file that was put back under another one.
Result<bool> PuttingBack::put_linked(const std::string& path, const Attributes& source) {
  if (source.nlink < 2) return false;
  auto [first, is_first] = linked_.emplace(source.inode, path);
  if (is_first) return false;
  std::optional<Attributes> there = WARREN_TRY(find(to_, path));
  Attributes other = WARREN_TRY(lstat(to_, first->second));
  if (there && there->inode == other.inode) return true;
  if (there) WARREN_TRY(unlink(to_, path));
  WARREN_TRY(link(to_, first->second, path));
  return true;
}

Status PuttingBack::put_file(const std::string& path, const std::optional<Attributes>& there,
                             const Attributes& source) {
  // A second name of a file that is there now may not be one then: only the named path is changed.
  bool is_shared = there && there->nlink > 1;
  if (is_shared) WARREN_TRY(unlink(to_, path));
  Attributes target;
  if (there && !is_shared) target = *there;
  else target = WARREN_TRY(make_node(to_, path, {.mode = source.mode, .owner = source.owner}));
  WARREN_TRY(to_.set_attributes(target.inode, {.size = 0}));
  if (prepare_) WARREN_TRY(prepare_(path));
  WARREN_TRY(from_.open(source.inode));
  Status copied = copy_content(source.inode, target.inode, source.size);
  from_.release(source.inode);
  return copied;
}

Status PuttingBack::copy_content(Inode from, Inode to, std::uint64_t size) {
  std::string buffer;
  for (std::uint64_t offset = 0; offset < size;) {
    Result<std::uint64_t> data = from_.seek_data(from, offset);
    if (!data.ok() && data.error().code() == Code::kNoData) break;  // a hole up to the end
    if (!data.ok()) return std::move(data).take_error();
    offset = *data;
    std::uint64_t end = WARREN_TRY(from_.seek_hole(from, offset));
    while (offset < end) {
      buffer.resize(std::min<std::uint64_t>(limits::kCopyBytes, end - offset));
      std::size_t count = WARREN_TRY(from_.read(from, offset, as_mutable_bytes(buffer)));
      if (count == 0) break;
      WARREN_TRY(to_.write(to, offset, as_bytes(std::string_view(buffer).substr(0, count))));
      offset += count;
    }
  }
  WARREN_TRY(to_.set_attributes(to, {.size = size}));
  return Ok{};
}

Status PuttingBack::put_link(const std::string& path, const std::optional<Attributes>& there,
                             const Attributes& source) {
  std::string target = WARREN_TRY(read_link(from_, path));
  if (there) {
    std::string now = WARREN_TRY(read_link(to_, path));
    if (now == target) return Ok{};
    WARREN_TRY(unlink(to_, path));
  }
  WARREN_TRY(make_symlink(to_, target, path, source.owner));
  return Ok{};
}

Status PuttingBack::put_attributes(const std::string& path, const Attributes& source) {
  WARREN_TRY(put_xattrs(path));
  AttributeChanges changes{.mode = source.mode & 07777U,
                           .uid = source.owner.uid,
                           .gid = source.owner.gid,
                           .atime = SetTime::to(source.atime),
                           .mtime = SetTime::to(source.mtime)};
  if (source.is_symlink()) changes.mode.reset();
  WARREN_TRY(set_attributes(to_, path, changes, Follow::kNo));
  return Ok{};
}

Status PuttingBack::put_xattrs(const std::string& path) {
  std::vector<std::string> wanted = WARREN_TRY(list_xattrs(from_, path, Follow::kNo));
  std::vector<std::string> found = WARREN_TRY(list_xattrs(to_, path, Follow::kNo));
  for (const std::string& name : found) {
    if (!std::ranges::count(wanted, name)) WARREN_TRY(remove_xattr(to_, path, name, Follow::kNo));
  }
  for (const std::string& name : wanted) {
    std::string value = WARREN_TRY(get_xattr(from_, path, name, Follow::kNo));
    WARREN_TRY(set_xattr(to_, path, name, as_bytes(value), XattrMode::kAny, Follow::kNo));
  }
  return Ok{};
}

}  // namespace

Status put_back(FileSystem& from, FileSystem& to, const std::vector<std::string>& paths, const PrepareFile& prepare) {
  auto unit = WARREN_TRY(to.begin(UnitAccess::kWrite));
  PuttingBack work(from, to, prepare);
  for (const std::string& path : paths) {
    auto doing = [&] { return "restore " + quote(path); };
    WARREN_TRY(work.make_parents(path).within(doing));
    WARREN_TRY(work.put(path).within(doing));
  }
  return unit->commit();
}

}  // namespace warren
