#include "fs/path_ops.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/format_size.h"
#include "base/path.h"
#include "fs/copy_content.h"
#include "fs/expiry.h"
#include "fs/list_dir.h"

namespace warren {
namespace {

Error no_path(std::string_view path) { return Error(Code::kNotFound, fmt::format("no {}", quote_path(path))); }

Result<Attributes> find(FileSystem& fs, std::string_view path, Follow follow) {
  Place place = WARREN_TRY(find_place(fs, path, {.follow = follow}));
  if (!place.node) return no_path(path);
  return *place.node;
}

// Resolves the path and calls `use` with the node found, in one Unit. Errors of `use` get the verb and the path.
template <class Use>
auto with_node(FileSystem& fs, UnitAccess access, std::string_view verb, std::string_view path, Follow follow,
               const Use& use) -> decltype(use(Attributes{})) {
  auto unit = WARREN_TRY(fs.begin(access));
  Attributes node = WARREN_TRY(find(fs, path, follow));
  auto result = use(node).within(doing(verb, path));
  if (result.ok() && access == UnitAccess::kWrite) WARREN_TRY(unit->commit().within(doing(verb, path)));
  return result;
}

// Calls `make` with the place of a name that does not exist yet, in one Unit.
template <class Make>
Result<Attributes> with_new_name(FileSystem& fs, std::string_view verb, std::string_view path, const Make& make) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  Result<Place> found = find_name(fs, path);
  if (!found.ok()) {
    // The root, and anything else that '.' and '..' lead to, exists.
    Code code = found.error().code();
    if (code == Code::kBusy || code == Code::kInvalid) {
      WARREN_TRY(find(fs, path, Follow::kNo));
      return Error(Code::kExists, fmt::format("{} exists", quote_path(path)));
    }
    return std::move(found).take_error();
  }
  if (found->node) return Error(Code::kExists, fmt::format("{} exists", quote_path(path)));
  Attributes made = WARREN_TRY(make(*found).within(doing(verb, path)));
  WARREN_TRY(unit->commit().within(doing(verb, path)));
  return made;
}

Status refuse_trailing_slash(const Place& place, std::string_view path) {
  if (!place.needs_directory) return Ok{};
  return Error(Code::kNotFound, fmt::format("no directory {}", quote_path(path)));
}

struct FoundFile {
  Attributes file;
  bool is_new = false;
};

// The file at the path, created with missing parents if necessary.
Result<FoundFile> find_or_make_file(FileSystem& fs, std::string_view path, const WriteFileOptions& options) {
  NewNode dir{.mode = options.dir_mode, .owner = options.owner};
  Place place = WARREN_TRY(find_place(fs, path, {.follow = Follow::kYes, .missing_dirs = dir}));
  if (place.node && place.node->is_directory()) {
    return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote_path(path)));
  }
  if (place.node) return FoundFile{.file = *place.node, .is_new = false};
  if (place.needs_directory) {
    return Error(Code::kIsDirectory, fmt::format("{} names a directory", quote_path(path)));
  }
  NewNode file{.mode = S_IFREG | (options.mode & 07777), .owner = options.owner};
  Attributes made = WARREN_TRY(fs.make_node(place.parent, place.name, file).within(doing("create", path)));
  return FoundFile{.file = made, .is_new = true};
}

// After its content was replaced. Cutting it to nothing has dropped an old time, but an empty file was not cut.
Status set_expiry(FileSystem& fs, const FoundFile& found, const std::optional<std::int64_t>& expires_at_ms) {
  if (expires_at_ms) {
    std::string text = format_expiry(*expires_at_ms);
    return fs.set_xattr(found.file.inode, kExpiryXattr, as_bytes(text), XattrMode::kAny);
  }
  if (!found.is_new && found.file.size == 0) fs.remove_xattr(found.file.inode, kExpiryXattr).ignore("it had none");
  return Ok{};
}

Status resize(FileSystem& fs, Inode node, std::uint64_t size) {
  WARREN_TRY(fs.set_attributes(node, {.size = size}));
  return Ok{};
}

// The empty file to copy to. An existing one keeps its inode.
Result<Attributes> empty_copy(FileSystem& fs, const Attributes& source, std::string_view to,
                              const CopyFileOptions& options) {
  Place place = WARREN_TRY(find_place(fs, to));
  if (place.node && place.node->inode == source.inode) {
    return Error(Code::kInvalid, fmt::format("{} is the same file", quote_path(to)));
  }
  if (place.node) {
    WARREN_TRY(resize(fs, place.node->inode, 0).within(doing("write", to)));
    return fs.set_attributes(place.node->inode, {.mode = source.mode & 07777});
  }
  if (place.needs_directory) {
    return Error(Code::kIsDirectory, fmt::format("{} names a directory", quote_path(to)));
  }
  return fs.make_node(place.parent, place.name, {.mode = source.mode, .owner = options.owner})
      .within(doing("create", to));
}

constexpr int kAppendAttempts = 10;  // each that fails is one that somebody else made

// Sets `is_making` once it is known that the file has to be made.
Status append_once(FileSystem& fs, std::string_view path, Bytes data, const WriteFileOptions& options,
                   bool& is_making) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  FoundFile found = WARREN_TRY(find_or_make_file(fs, path, options));
  is_making = found.is_new;
  WARREN_TRY(fs.append(found.file.inode, data).within(doing("append to", path)));
  return unit->commit().within(doing("append to", path));
}

}  // namespace

Result<Attributes> resolve(FileSystem& fs, std::string_view path, Follow follow) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kRead));
  return find(fs, path, follow);
}

Result<Attributes> stat(FileSystem& fs, std::string_view path) { return resolve(fs, path, Follow::kYes); }

Result<Attributes> lstat(FileSystem& fs, std::string_view path) { return resolve(fs, path, Follow::kNo); }

Status access(FileSystem& fs, std::string_view path) {
  WARREN_TRY(resolve(fs, path, Follow::kYes));
  return Ok{};
}

Result<bool> exists(FileSystem& fs, std::string_view path) {
  Status status = access(fs, path);
  if (status.ok()) return true;
  Code code = status.error().code();
  if (code == Code::kNotFound || code == Code::kNotDirectory) return false;
  return std::move(status).take_error();
}

Result<std::string> read_file(FileSystem& fs, std::string_view path, const ReadFileOptions& options) {
  auto read_all = [&](const Attributes& node) -> Result<std::string> {
    // Only a regular file has a meaningful size; read reports what is wrong with anything else.
    std::uint64_t size = node.is_file() ? node.size : 0;
    if (size > options.size_bytes_max) {
      return Error(Code::kTooLarge, fmt::format("it has {}, more than the limit of {}", format_size(size),
                                                format_size(options.size_bytes_max)));
    }
    std::string content(size, '\0');
    std::size_t length = WARREN_TRY(fs.read(node.inode, 0, as_mutable_bytes(content)));
    content.resize(length);
    return content;
  };
  return with_node(fs, UnitAccess::kRead, "read", path, Follow::kYes, read_all);
}

Result<std::size_t> read_at(FileSystem& fs, std::string_view path, std::uint64_t offset, MutableBytes out) {
  return with_node(fs, UnitAccess::kRead, "read", path, Follow::kYes,
                   [&](const Attributes& node) { return fs.read(node.inode, offset, out); });
}

Status write_file(FileSystem& fs, std::string_view path, Bytes data, const WriteFileOptions& options) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  FoundFile found = WARREN_TRY(find_or_make_file(fs, path, options));
  const Attributes& file = found.file;
  if (!file.is_file() || file.size > 0) WARREN_TRY(resize(fs, file.inode, 0).within(doing("write", path)));
  WARREN_TRY(fs.write(file.inode, 0, data).within(doing("write", path)));
  WARREN_TRY(set_expiry(fs, found, options.expires_at_ms).within(doing("write", path)));
  return unit->commit().within(doing("write", path));
}

// Where a filesystem has no transactions, somebody else may make the file, or its directory, between our looking and
// our making it. Then nothing of ours was stored, and there is a file to append to.
Status append_file(FileSystem& fs, std::string_view path, Bytes data, const WriteFileOptions& options) {
  for (int attempt = 1;; ++attempt) {
    bool is_making = false;
    Status done = append_once(fs, path, data, options, is_making);
    if (done.ok() || attempt == kAppendAttempts) return done;
    Code code = done.error().code();
    if (code != Code::kExists && !(code == Code::kConflict && is_making)) return done;
  }
}

Status write_at(FileSystem& fs, std::string_view path, std::uint64_t offset, Bytes data) {
  return with_node(fs, UnitAccess::kWrite, "write", path, Follow::kYes,
                   [&](const Attributes& node) { return fs.write(node.inode, offset, data); });
}

Status truncate(FileSystem& fs, std::string_view path, std::uint64_t size) {
  return with_node(fs, UnitAccess::kWrite, "truncate", path, Follow::kYes,
                   [&](const Attributes& node) { return resize(fs, node.inode, size); });
}

Status copy_file(FileSystem& fs, std::string_view from, std::string_view to, const CopyFileOptions& options) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  Attributes source = WARREN_TRY(find(fs, from, Follow::kYes));
  if (source.is_directory()) return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote_path(from)));
  if (!source.is_file()) return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote_path(from)));
  auto what = [&] { return fmt::format("copy {} to {}", quote_path(from), quote_path(to)); };
  Attributes target = WARREN_TRY(empty_copy(fs, source, to, options).within(what));
  WARREN_TRY(copy_content(fs, source, target.inode).within(what));
  return unit->commit().within(what);
}

Result<std::vector<std::string>> read_dir(FileSystem& fs, std::string_view path) {
  return with_node(fs, UnitAccess::kRead, "read directory", path, Follow::kYes,
                   [&](const Attributes& node) { return list_names(fs, node.inode); });
}

Result<std::vector<NamedAttributes>> read_dir_plus(FileSystem& fs, std::string_view path) {
  auto entries =
      WARREN_TRY(with_node(fs, UnitAccess::kRead, "read directory", path, Follow::kYes,
                           [&](const Attributes& node) { return list_dir(fs, node.inode, DirDetail::kAttributes); }));
  std::vector<NamedAttributes> named;
  named.reserve(entries.size());
  for (DirEntry& entry : entries) named.push_back({.name = std::move(entry.name), .attributes = *entry.attributes});
  return named;
}

Result<Attributes> make_dir(FileSystem& fs, std::string_view path, const MakeDirOptions& options) {
  return with_new_name(fs, "make directory", path, [&](const Place& place) {
    return fs.make_dir(place.parent, place.name, {.mode = options.mode, .owner = options.owner});
  });
}

Result<Attributes> make_dirs(FileSystem& fs, std::string_view path, const MakeDirOptions& options) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  NewNode dir{.mode = options.mode, .owner = options.owner};
  std::string_view bare = path;
  while (bare.size() > 1 && bare.ends_with('/')) bare.remove_suffix(1);
  Place place = WARREN_TRY(find_place(fs, bare, {.follow = Follow::kNo, .missing_dirs = dir}));
  if (place.node && place.node->is_symlink()) {
    Place target = WARREN_TRY(find_place(fs, bare));
    if (target.node) place = std::move(target);
  }
  if (place.node && !place.node->is_directory()) {
    return Error(Code::kExists, fmt::format("{} exists and is not a directory", quote_path(path)));
  }
  Attributes made;
  if (place.node) {
    made = *place.node;
  } else {
    Result<Attributes> done = fs.make_dir(place.parent, place.name, dir);
    if (!done.ok() && done.error().code() == Code::kExists) {  // somebody else was faster
      Result<Attributes> there = fs.lookup(place.parent, place.name);
      if (there.ok() && there->is_directory()) done = std::move(there);
    }
    made = WARREN_TRY(std::move(done).within(doing("make directory", path)));
  }
  WARREN_TRY(unit->commit().within(doing("make directory", path)));
  return made;
}

Status remove_dir(FileSystem& fs, std::string_view path) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  Place place = WARREN_TRY(find_name(fs, path));
  if (!place.node) return no_path(path);
  WARREN_TRY(fs.remove_dir(place.parent, place.name).within(doing("remove directory", path)));
  return unit->commit().within(doing("remove directory", path));
}

Status unlink(FileSystem& fs, std::string_view path) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  Place place = WARREN_TRY(find_name(fs, path));
  if (!place.node) return no_path(path);
  WARREN_TRY(fs.unlink(place.parent, place.name).within(doing("unlink", path)));
  return unit->commit().within(doing("unlink", path));
}

Status rename(FileSystem& fs, std::string_view from, std::string_view to, RenameMode mode) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  auto what = [&] { return fmt::format("rename {} to {}", quote_path(from), quote_path(to)); };
  Place source = WARREN_TRY(find_name(fs, from));
  if (!source.node) return no_path(from);
  Place target = WARREN_TRY(find_name(fs, to));
  if (target.needs_directory && !source.node->is_directory()) {
    return Error(Code::kNotDirectory, fmt::format("{}: {} is not a directory", what(), quote_path(from)));
  }
  WARREN_TRY(fs.rename(source.parent, source.name, target.parent, target.name, mode).within(what));
  return unit->commit().within(what);
}

Result<Attributes> link(FileSystem& fs, std::string_view from, std::string_view to) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  Attributes source = WARREN_TRY(find(fs, from, Follow::kNo));
  auto link_there = [&](const Place& place) -> Result<Attributes> {
    WARREN_TRY(refuse_trailing_slash(place, to));
    return fs.link(source.inode, place.parent, place.name);
  };
  Attributes linked = WARREN_TRY(with_new_name(fs, "link", to, link_there));
  WARREN_TRY(unit->commit().within(doing("link", to)));
  return linked;
}

Result<Attributes> make_symlink(FileSystem& fs, std::string_view target, std::string_view path, Owner owner) {
  return with_new_name(fs, "make symbolic link", path, [&](const Place& place) -> Result<Attributes> {
    WARREN_TRY(refuse_trailing_slash(place, path));
    return fs.make_symlink(place.parent, place.name, target, owner);
  });
}

Result<Attributes> make_node(FileSystem& fs, std::string_view path, const NewNode& node) {
  return with_new_name(fs, "make", path, [&](const Place& place) -> Result<Attributes> {
    WARREN_TRY(refuse_trailing_slash(place, path));
    return fs.make_node(place.parent, place.name, node);
  });
}

Result<std::string> read_link(FileSystem& fs, std::string_view path) {
  return with_node(fs, UnitAccess::kRead, "read link", path, Follow::kNo,
                   [&](const Attributes& node) { return fs.read_link(node.inode); });
}

Result<Attributes> set_attributes(FileSystem& fs, std::string_view path, const AttributeChanges& changes,
                                  Follow follow) {
  return with_node(fs, UnitAccess::kWrite, "set attributes of", path, follow,
                   [&](const Attributes& node) { return fs.set_attributes(node.inode, changes); });
}

Status set_mode(FileSystem& fs, std::string_view path, std::uint32_t mode) {
  WARREN_TRY(set_attributes(fs, path, {.mode = mode}));
  return Ok{};
}

Status set_owner(FileSystem& fs, std::string_view path, Owner owner, Follow follow) {
  WARREN_TRY(set_attributes(fs, path, {.uid = owner.uid, .gid = owner.gid}, follow));
  return Ok{};
}

Status set_times(FileSystem& fs, std::string_view path, SetTime atime, SetTime mtime, Follow follow) {
  WARREN_TRY(set_attributes(fs, path, {.atime = atime, .mtime = mtime}, follow));
  return Ok{};
}

Result<std::string> get_xattr(FileSystem& fs, std::string_view path, std::string_view name, Follow follow) {
  return with_node(fs, UnitAccess::kRead, "get attribute of", path, follow,
                   [&](const Attributes& node) { return fs.get_xattr(node.inode, name); });
}

Result<std::vector<std::string>> list_xattrs(FileSystem& fs, std::string_view path, Follow follow) {
  return with_node(fs, UnitAccess::kRead, "list attributes of", path, follow,
                   [&](const Attributes& node) { return fs.list_xattrs(node.inode); });
}

Status set_xattr(FileSystem& fs, std::string_view path, std::string_view name, Bytes value, XattrMode mode,
                 Follow follow) {
  return with_node(fs, UnitAccess::kWrite, "set attribute of", path, follow,
                   [&](const Attributes& node) { return fs.set_xattr(node.inode, name, value, mode); });
}

Status remove_xattr(FileSystem& fs, std::string_view path, std::string_view name, Follow follow) {
  return with_node(fs, UnitAccess::kWrite, "remove attribute of", path, follow,
                   [&](const Attributes& node) { return fs.remove_xattr(node.inode, name); });
}

}  // namespace warren
