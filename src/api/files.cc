#include <warren/v1/files.h>

#include <utility>

#include <sys/stat.h>

#include "api/attributes.h"
#include "api/state.h"
#include "base/bytes.h"
#include "fs/expiry.h"
#include "fs/file.h"
#include "fs/path_ops.h"

namespace warren::v1 {
namespace {

Timestamp to_public(warren::Timestamp at) { return {.seconds = at.seconds, .nanoseconds = at.nanoseconds}; }

warren::SetTime to_internal(Timestamp at) {
  return warren::SetTime::to({.seconds = at.seconds, .nanoseconds = at.nanoseconds});
}

FileSystem& fs_of(AgentState* state) { return state->shown ? *state->shown : state->agent->fs(); }

}  // namespace

Attributes to_public(const warren::Attributes& from) {
  return {.inode = from.inode.value,
          .mode = from.mode,
          .nlink = from.nlink,
          .uid = from.owner.uid,
          .gid = from.owner.gid,
          .size = from.size,
          .atime = to_public(from.atime),
          .mtime = to_public(from.mtime),
          .ctime = to_public(from.ctime),
          .rdev = from.rdev};
}

namespace {

// Both enums have the same enumerators in the same order.
template <class To, class From>
constexpr To same(From value) {
  return static_cast<To>(value);
}
static_assert(same<FileAccess>(warren::FileAccess::kReadWrite) == FileAccess::kReadWrite);
static_assert(same<Create>(warren::Create::kMustCreate) == Create::kMustCreate);
static_assert(same<Truncate>(warren::Truncate::kYes) == Truncate::kYes);
static_assert(same<Append>(warren::Append::kYes) == Append::kYes);
static_assert(same<Recursive>(warren::Recursive::kYes) == Recursive::kYes);
static_assert(same<Force>(warren::Force::kYes) == Force::kYes);
static_assert(same<RenameMode>(warren::RenameMode::kNoReplace) == RenameMode::kNoReplace);
static_assert(same<RenameMode>(warren::RenameMode::kExchange) == RenameMode::kExchange);

}  // namespace

warren::RemoveOptions to_internal(const RemoveOptions& options) {
  return {.recursive = same<warren::Recursive>(options.recursive), .force = same<warren::Force>(options.force)};
}

bool Attributes::is_file() const { return S_ISREG(mode); }
bool Attributes::is_directory() const { return S_ISDIR(mode); }
bool Attributes::is_symlink() const { return S_ISLNK(mode); }

struct File::State {
  std::unique_ptr<warren::File> file;
};

File::File(std::unique_ptr<State> state) : state_(std::move(state)) {}

File::~File() = default;

Result<std::size_t> File::read_at(std::uint64_t offset, std::span<char> out) {
  return state_->file->read_at(offset, std::as_writable_bytes(out));
}

Status File::write_at(std::uint64_t offset, std::string_view data) {
  return state_->file->write_at(offset, as_bytes(data));
}

Result<std::uint64_t> File::append(std::string_view data) { return state_->file->append(as_bytes(data)); }

Status File::truncate(std::uint64_t size) { return state_->file->truncate(size); }

Status File::sync() { return state_->file->sync(); }

Result<Attributes> File::attributes() {
  warren::Attributes attributes = WARREN_TRY(state_->file->attributes());
  return to_public(attributes);
}

Status File::close() { return state_->file->close(); }

Result<Attributes> Files::stat(std::string_view path) {
  warren::Attributes attributes = WARREN_TRY(warren::stat(fs_of(state_), path));
  return to_public(attributes);
}

Result<Attributes> Files::lstat(std::string_view path) {
  warren::Attributes attributes = WARREN_TRY(warren::lstat(fs_of(state_), path));
  return to_public(attributes);
}

Result<bool> Files::exists(std::string_view path) { return warren::exists(fs_of(state_), path); }

Result<SpaceStats> Files::stats() {
  FileSystemStats stats = WARREN_TRY(fs_of(state_).stats(kRootInode));
  return SpaceStats{.used_bytes = stats.used_bytes,
                    .capacity_bytes = stats.capacity_bytes,
                    .used_inodes = stats.used_inodes,
                    .capacity_inodes = stats.capacity_inodes};
}

Result<std::string> Files::read_file(std::string_view path) { return warren::read_file(fs_of(state_), path); }

Status Files::write_file(std::string_view path, std::string_view data) {
  return warren::write_file(fs_of(state_), path, as_bytes(data));
}

Status Files::write_file(std::string_view path, std::string_view data, std::chrono::milliseconds time_to_live) {
  std::int64_t expires_at_ms = WARREN_TRY(expiry_after(state_->clock, time_to_live));
  return warren::write_file(fs_of(state_), path, as_bytes(data), {.expires_at_ms = expires_at_ms});
}

Status Files::append_file(std::string_view path, std::string_view data) {
  return warren::append_file(fs_of(state_), path, as_bytes(data));
}

Status Files::truncate(std::string_view path, std::uint64_t size) {
  return warren::truncate(fs_of(state_), path, size);
}

Status Files::copy_file(std::string_view from, std::string_view to) {
  return warren::copy_file(fs_of(state_), from, to);
}

Result<std::unique_ptr<File>> Files::open(std::string_view path, const OpenOptions& options) {
  warren::OpenOptions internal{.access = same<warren::FileAccess>(options.access),
                               .create = same<warren::Create>(options.create),
                               .truncate = same<warren::Truncate>(options.truncate),
                               .append = same<warren::Append>(options.append),
                               .mode = options.mode};
  auto file = WARREN_TRY(warren::File::open(fs_of(state_), path, internal));
  auto state = std::make_unique<File::State>(File::State{std::move(file)});
  return std::unique_ptr<File>(new File(std::move(state)));
}

Result<std::vector<std::string>> Files::read_dir(std::string_view path) {
  return warren::read_dir(fs_of(state_), path);
}

Result<std::vector<NamedAttributes>> Files::read_dir_plus(std::string_view path) {
  std::vector<warren::NamedAttributes> found = WARREN_TRY(warren::read_dir_plus(fs_of(state_), path));
  std::vector<NamedAttributes> entries;
  entries.reserve(found.size());
  for (warren::NamedAttributes& entry : found) {
    entries.push_back({.name = std::move(entry.name), .attributes = to_public(entry.attributes)});
  }
  return entries;
}

Status Files::make_dir(std::string_view path, std::uint32_t mode) {
  WARREN_TRY(warren::make_dir(fs_of(state_), path, {.mode = mode}));
  return Ok{};
}

Status Files::make_dirs(std::string_view path, std::uint32_t mode) {
  WARREN_TRY(warren::make_dirs(fs_of(state_), path, {.mode = mode}));
  return Ok{};
}

Status Files::remove_dir(std::string_view path) { return warren::remove_dir(fs_of(state_), path); }

Status Files::unlink(std::string_view path) { return warren::unlink(fs_of(state_), path); }

Status Files::remove(std::string_view path, const RemoveOptions& options) {
  return warren::remove(fs_of(state_), path, to_internal(options));
}

Status Files::rename(std::string_view from, std::string_view to, RenameMode mode) {
  return warren::rename(fs_of(state_), from, to, same<warren::RenameMode>(mode));
}

Status Files::link(std::string_view from, std::string_view to) {
  WARREN_TRY(warren::link(fs_of(state_), from, to));
  return Ok{};
}

Status Files::make_symlink(std::string_view target, std::string_view path) {
  WARREN_TRY(warren::make_symlink(fs_of(state_), target, path));
  return Ok{};
}

Result<std::string> Files::read_link(std::string_view path) { return warren::read_link(fs_of(state_), path); }

Status Files::set_mode(std::string_view path, std::uint32_t mode) {
  return warren::set_mode(fs_of(state_), path, mode);
}

Status Files::set_times(std::string_view path, Timestamp atime, Timestamp mtime) {
  return warren::set_times(fs_of(state_), path, to_internal(atime), to_internal(mtime));
}

Result<std::string> Files::get_xattr(std::string_view path, std::string_view name) {
  return warren::get_xattr(fs_of(state_), path, name);
}

Result<std::vector<std::string>> Files::list_xattrs(std::string_view path) {
  return warren::list_xattrs(fs_of(state_), path);
}

Status Files::set_xattr(std::string_view path, std::string_view name, std::string_view value) {
  return warren::set_xattr(fs_of(state_), path, name, as_bytes(value));
}

Status Files::remove_xattr(std::string_view path, std::string_view name) {
  return warren::remove_xattr(fs_of(state_), path, name);
}

}  // namespace warren::v1
