#include "changes/apply/copy_node.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "changes/compare.h"
#include "fs/encrypted.h"
#include "fs/file.h"
#include "fs/path_ops.h"

namespace warren {

Status check_stays_encrypted(FileSystem& from, const std::string& from_path, FileSystem& to,
                             const std::string& to_path) {
  Attributes source = WARREN_TRY(lstat(from, from_path));
  if (!source.is_file() || !WARREN_TRY(is_encrypted(from, source.inode))) return Ok{};
  Attributes copy = WARREN_TRY(lstat(to, to_path));
  if (WARREN_TRY(is_encrypted(to, copy.inode))) return Ok{};
  return Error(Code::kDenied,
               fmt::format("{} is encrypted, and its copy {} would not be", quote(from_path), quote(to_path)),
               "`warren encrypt ID PATTERN` with the first one makes files of that path encrypted there, too");
}

namespace {

bool is_all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

Status copy_bytes(File& from, File& to) {
  std::string buffer(limits::kCopyBytes, '\0');
  std::uint64_t at = 0;
  for (;;) {
    std::size_t got = WARREN_TRY(from.read_at(at, as_mutable_bytes(buffer)));
    if (got == 0) break;
    std::string_view part = std::string_view(buffer).substr(0, got);
    if (!is_all_zero(part)) WARREN_TRY(to.write_at(at, as_bytes(part)));
    at += got;
  }
  WARREN_TRY(to.truncate(at));
  return to.close();
}

Status make_like(FileSystem& from, const std::string& from_path, const Attributes& node, FileSystem& to,
                 const std::string& to_path) {
  std::uint32_t bits = node.mode & 07777;
  if (node.is_directory()) {
    WARREN_TRY(make_dir(to, to_path, {.mode = bits, .owner = node.owner}));
  } else if (node.is_symlink()) {
    std::string target = WARREN_TRY(read_link(from, from_path));
    WARREN_TRY(make_symlink(to, target, to_path, node.owner));
  } else if (node.is_file()) {
    auto source = WARREN_TRY(File::open(from, from_path, {.follow = Follow::kNo}));
    OpenOptions how{.access = FileAccess::kWrite, .create = Create::kMustCreate, .follow = Follow::kNo};
    how.mode = bits;
    how.owner = node.owner;
    auto made = WARREN_TRY(File::open(to, to_path, how));
    WARREN_TRY(check_stays_encrypted(from, from_path, to, to_path));
    WARREN_TRY(copy_bytes(*source, *made));
  } else {
    WARREN_TRY(make_node(to, to_path, {.mode = node.mode, .owner = node.owner, .rdev = node.rdev}));
  }
  return Ok{};
}

}  // namespace

Status copy_file_content(FileSystem& from, const std::string& from_path, FileSystem& to, const std::string& to_path) {
  auto source = WARREN_TRY(File::open(from, from_path, {.follow = Follow::kNo}));
  OpenOptions how{.access = FileAccess::kWrite, .truncate = Truncate::kYes, .follow = Follow::kNo};
  auto target = WARREN_TRY(File::open(to, to_path, how));
  WARREN_TRY(copy_bytes(*source, *target));
  return check_stays_encrypted(from, from_path, to, to_path);
}

Status copy_node(FileSystem& from, const std::string& from_path, const Attributes& node, FileSystem& to,
                 const std::string& to_path) {
  WARREN_TRY(make_like(from, from_path, node, to, to_path));
  XattrMap attributes = WARREN_TRY(read_xattrs(from, from_path));
  for (const auto& [name, value] : attributes)
    WARREN_TRY(set_xattr(to, to_path, name, as_bytes(value), XattrMode::kAny, Follow::kNo));
  AttributeChanges changes{.mtime = SetTime::to(node.mtime)};
  if (!node.is_symlink()) changes.mode = node.mode & 07777;  // writing may have dropped set-user-id bits
  WARREN_TRY(set_attributes(to, to_path, changes, Follow::kNo));
  return Ok{};
}

}  // namespace warren
