#include "fs/file.h"

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

Result<Attributes> create_file(FileSystem& fs, std::string_view path, const Place& place, const OpenOptions& options) {
  if (place.needs_directory) {
    return Error(Code::kIsDirectory, fmt::format("{} names a directory", quote_path(path)));
  }
  NewNode node{.mode = options.mode, .owner = options.owner};
  return fs.create(place.parent, place.name, node).within(doing("create", path));
}

Result<Attributes> open_node(FileSystem& fs, std::string_view path, const Attributes& node,
                             const OpenOptions& options) {
  if (options.create == Create::kMustCreate) {
    return Error(Code::kExists, fmt::format("{} exists", quote_path(path)));
  }
  if (node.is_symlink()) return Error(Code::kLoop, fmt::format("{} is a symbolic link", quote_path(path)));
  if (node.is_directory()) return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote_path(path)));
  return fs.open(node.inode).within(doing("open", path));
}

// The file, retained. The caller releases it.
Result<Attributes> find_or_create(FileSystem& fs, std::string_view path, const OpenOptions& options) {
  Follow follow = options.create == Create::kMustCreate ? Follow::kNo : options.follow;
  Place place = WARREN_TRY(find_place(fs, path, {.follow = follow}));
  if (place.node) return open_node(fs, path, *place.node, options);
  if (options.create == Create::kNo) return Error(Code::kNotFound, fmt::format("no {}", quote_path(path)));
  return create_file(fs, path, place, options);
}

}  // namespace

File::File(FileSystem& fs, Inode inode, std::string_view path, const OpenOptions& options)
    : fs_(fs), inode_(inode), path_(path), access_(options.access), append_(options.append) {}

File::~File() { close().ignore("whoever wants to know closes it"); }

Result<std::unique_ptr<File>> File::open(FileSystem& fs, std::string_view path, const OpenOptions& options) {
  bool may_change = options.create != Create::kNo || options.truncate == Truncate::kYes;
  if (options.truncate == Truncate::kYes && options.access == FileAccess::kRead) {
    return Error(Code::kInvalid, fmt::format("{} cannot be truncated without write access", quote_path(path)));
  }
  // The file is declared first, so that an uncommitted unit is rolled back before the release.
  std::unique_ptr<File> file;
  auto unit = WARREN_TRY(fs.begin(may_change ? UnitAccess::kWrite : UnitAccess::kRead));
  Attributes found = WARREN_TRY(find_or_create(fs, path, options));
  file.reset(new File(fs, found.inode, path, options));
  if (options.truncate == Truncate::kYes && found.size > 0) WARREN_TRY(file->truncate(0));
  WARREN_TRY(unit->commit().within(doing("open", path)));
  return file;
}

Status File::check_open(std::string_view what) const {
  if (is_open_) return Ok{};
  return Error(Code::kBadHandle, fmt::format("{} {}: it is closed", what, quote_path(path_)));
}

Status File::check_readable() const {
  WARREN_TRY(check_open("read"));
  if (access_ != FileAccess::kWrite) return Ok{};
  return Error(Code::kBadHandle, fmt::format("read {}: it is open for writing only", quote_path(path_)));
}

Status File::check_writable(std::string_view what) const {
  WARREN_TRY(check_open(what));
  if (access_ != FileAccess::kRead) return Ok{};
  return Error(Code::kBadHandle, fmt::format("{} {}: it is open for reading only", what, quote_path(path_)));
}

Result<std::size_t> File::read_at(std::uint64_t offset, MutableBytes out) {
  WARREN_TRY(check_readable());
  return fs_.read(inode_, offset, out).within(doing("read", path_));
}

Status File::write_at(std::uint64_t offset, Bytes data) {
  if (append_ == Append::kYes) {
    WARREN_TRY(append(data));
    return Ok{};
  }
  WARREN_TRY(check_writable("write"));
  return fs_.write(inode_, offset, data).within(doing("write", path_));
}

Result<std::uint64_t> File::append(Bytes data) {
  WARREN_TRY(check_writable("append to"));
  return fs_.append(inode_, data).within(doing("append to", path_));
}

Status File::truncate(std::uint64_t size) {
  WARREN_TRY(check_writable("truncate"));
  WARREN_TRY(fs_.set_attributes(inode_, {.size = size}).within(doing("truncate", path_)));
  return Ok{};
}

Status File::sync() {
  WARREN_TRY(check_open("sync"));
  return fs_.sync(inode_).within(doing("sync", path_));
}

Result<Attributes> File::attributes() {
  WARREN_TRY(check_open("stat"));
  return fs_.get_attributes(inode_).within(doing("stat", path_));
}

Status File::close() {
  if (!is_open_) return Ok{};
  is_open_ = false;
  Status stored = access_ == FileAccess::kRead ? Status(Ok{}) : fs_.flush(inode_).within(doing("close", path_));
  fs_.release(inode_);
  return stored;
}

}  // namespace warren
