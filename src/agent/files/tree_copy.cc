#include "agent/files/tree_copy.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/copy_content.h"
#include "fs/mounts/mount_fs.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

bool is_missing(const Error& error) { return error.code() == Code::kNotFound || error.code() == Code::kStale; }

// Between mounts a filesystem copies nothing, so the content goes through memory. The new content is there as a whole
// or not at all.
Status copy_across(FileSystem& fs, std::string_view from, std::string_view to, const Attributes& source) {
  std::string content = WARREN_TRY(read_file(fs, from, {.size_bytes_max = kAcrossBytesMax}));
  WriteFileOptions options;
  options.mode = source.mode & 07777U;
  return write_file(fs, to, as_bytes(content), options).within([&] {
    return fmt::format("copy {} to {}", quote_path(from), quote_path(to));
  });
}

// Makes the file in the unit that looked for it, never finds it: a filesystem without transactions refuses to store a
// new file where there is one by then.
Status copy_to_new(FileSystem& fs, std::string_view from, std::string_view to, bool is_across) {
  std::string content;
  if (is_across) content = WARREN_TRY(read_file(fs, from, {.size_bytes_max = kAcrossBytesMax}));
  auto what = [&] { return fmt::format("copy {} to {}", quote_path(from), quote_path(to)); };
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  Attributes source = WARREN_TRY(stat(fs, from));
  Place place = WARREN_TRY(find_name(fs, to));
  if (place.node) return Error(Code::kExists, fmt::format("{} exists already", quote_path(to)));
  NewNode node{.mode = S_IFREG | (source.mode & 07777U)};
  Attributes made = WARREN_TRY(fs.make_node(place.parent, place.name, node).within(what));
  Status filled = is_across ? fs.write(made.inode, 0, as_bytes(content)) : copy_content(fs, source, made.inode);
  WARREN_TRY(std::move(filled).within(what));
  return unit->commit().within(what);
}

// The error for what was not there, and could not be made.
Error not_made(FileSystem& fs, std::string_view to, Error why) {
  bool may_be_there = why.code() == Code::kExists || why.code() == Code::kConflict;
  if (!may_be_there || !lstat(fs, to).ok()) return why;
  return Error(Code::kExists, fmt::format("{} was made by somebody else meanwhile", quote_path(to)));
}

bool is_as_it_was(const Attributes& before, const Attributes& now) {
  if (before.inode != now.inode) return false;
  if (before.is_directory()) return now.is_directory();
  return before.size == now.size && before.mtime == now.mtime && before.ctime == now.ctime;
}

Result<bool> has_same_content(FileSystem& fs, const Attributes& one, const Attributes& other) {
  if (one.size != other.size) return false;
  std::string left(limits::kCopyBytes, '\0');
  std::string right(limits::kCopyBytes, '\0');
  for (std::uint64_t offset = 0; offset < one.size;) {
    std::size_t length = WARREN_TRY(fs.read(one.inode, offset, as_mutable_bytes(left)));
    std::size_t other_length = WARREN_TRY(fs.read(other.inode, offset, as_mutable_bytes(right)));
    bool is_same = length > 0 && length == other_length;
    if (!is_same || left.compare(0, length, right, 0, length) != 0) return false;
    offset += length;
  }
  return true;
}

// Times do not tell it: some backends have them in whole seconds.
Result<bool> is_still_same(FileSystem& fs, const CopiedPath& copied, const Attributes& copy) {
  Attributes original = WARREN_TRY(lstat(fs, copied.from));
  if (original.is_file() && copy.is_file()) return has_same_content(fs, original, copy);
  if (!original.is_symlink() || !copy.is_symlink()) {
    return (original.mode & S_IFMT) == (copy.mode & S_IFMT) && original.rdev == copy.rdev;
  }
  std::string target = WARREN_TRY(read_link(fs, copied.from));
  std::string copied_target = WARREN_TRY(read_link(fs, copied.to));
  return target == copied_target;
}

// Whether a copy has not been written to since. Numbers of nodes may change, and extended attributes change the ctime.
bool is_as_made(const Attributes& made, const Attributes& now) {
  bool is_same_kind = (made.mode & S_IFMT) == (now.mode & S_IFMT);
  return is_same_kind && (made.is_directory() || (made.size == now.size && made.mtime == now.mtime));
}

// False: it stays. The content is compared before the unit, which must not wait for a backend's content.
Result<bool> remove_copy(FileSystem& fs, const CopiedPath& copied) {
  Result<Attributes> there = lstat(fs, copied.to);
  if (!there.ok() && is_missing(there.error())) return true;
  Attributes before = WARREN_TRY(std::move(there));
  if (!is_as_made(copied.made, before)) return false;
  Result<bool> is_same = before.is_directory() ? Result<bool>(true) : is_still_same(fs, copied, before);
  if (!is_same.ok() && is_missing(is_same.error())) return false;  // the last one
  if (!WARREN_TRY(std::move(is_same))) return false;
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  Place place = WARREN_TRY(find_name(fs, copied.to));
  if (!place.node) return true;
  if (!is_as_it_was(before, *place.node)) return false;
  WARREN_TRY(before.is_directory() ? fs.remove_dir(place.parent, place.name) : fs.unlink(place.parent, place.name));
  WARREN_TRY(unit->commit());
  return true;
}

// The first few names, and how many more there are.
class StayingNames {
 public:
  void add(std::string_view path) {
    constexpr std::size_t kNamed = 5;
    if (++count_ <= kNamed) names_ += fmt::format("{}{}", names_.empty() ? "" : ", ", quote_path(path));
    else more_ = fmt::format(" and {} more", count_ - kNamed);
  }
  bool is_empty() const { return count_ == 0; }
  std::string text() const { return names_ + more_; }

 private:
  std::size_t count_ = 0;
  std::string names_;
  std::string more_;
};

}  // namespace

Status copy_one_file(FileSystem& fs, std::string_view from, std::string_view to, CopyTarget target) {
  Attributes source = WARREN_TRY(stat(fs, from));
  Result<Attributes> there = stat(fs, to);
  if (!there.ok() && there.error().code() == Code::kNotFound) there = stat(fs, directory_of(to));
  bool is_across = source.is_file() && there.ok() && are_in_different_mounts(source.inode, there->inode);
  if (target == CopyTarget::kMayExist) return is_across ? copy_across(fs, from, to, source) : copy_file(fs, from, to);
  Status made = copy_to_new(fs, from, to, is_across);
  return made.ok() ? std::move(made) : Status(not_made(fs, to, std::move(made).take_error()));
}

Error take_back(FileSystem& fs, const std::vector<CopiedPath>& copies, const Error& why) {
  StayingNames changed;
  StayingNames stuck;
  std::optional<Error> obstacle;
  for (auto copied = copies.rbegin(); copied != copies.rend(); ++copied) {
    bool is_hopeless = obstacle && obstacle->code() == Code::kUnavailable;  // each attempt may take a timeout
    Result<bool> removed = is_hopeless ? Result<bool>(*obstacle) : remove_copy(fs, *copied);
    if (removed.ok() && *removed) continue;
    Code code = removed.ok() ? Code::kConflict : removed.error().code();
    if (code == Code::kNotEmpty) continue;  // what is in it is named, or not ours
    if (code == Code::kConflict) {
      changed.add(copied->to);
      continue;
    }
    stuck.add(copied->to);
    if (!obstacle) obstacle = std::move(removed).take_error();
  }
  std::string text = why.message();
  std::string hint = why.hint();
  if (!stuck.is_empty()) {
    text += fmt::format("; the copy could not be removed again ({}): {}", obstacle->message(), stuck.text());
    hint = fmt::format("the original is complete; remove {} before it is tried again", quote_path(copies.front().to));
  }
  if (!changed.is_empty()) {
    text += fmt::format("; {}not the same as the original any more: {}",
                        stuck.is_empty() ? "the copy was removed again, except for what is " : "of the copy, this is ",
                        changed.text());
    hint = "compare them with the originals before one of the two is removed";
  }
  return Error(why.code(), std::move(text), std::move(hint));
}

Error stopped_copy(const Error& why, std::size_t count, std::string_view to, StoppedIn target) {
  if (count == 0) return why;
  std::string hint = "the original is complete; ";
  if (target == StoppedIn::kNew) hint += fmt::format("remove {} before it is tried again", to);
  else hint += fmt::format("it can be tried again as it is; do not remove {}: it was there before", to);
  return Error(why.code(),
               fmt::format("{}; {} {} already copied to {}, and {}", why.message(), count,
                           count == 1 ? "file or directory was" : "files and directories were", to,
                           count == 1 ? "stays there" : "stay there"),
               std::move(hint));
}

TreeCopy::TreeCopy(FileSystem& fs, TreeCopyOptions options) : fs_(fs), options_(std::move(options)) {}

std::string TreeCopy::path_in(const std::string& top, const Node& node) const {
  if (node.inside.empty()) return top;
  return top == "/" ? node.inside : top + node.inside;
}

Status TreeCopy::run(std::string_view from, std::string_view to) {
  from_ = WARREN_TRY(normalise_path(from));
  to_ = WARREN_TRY(normalise_path(to));
  Result<Attributes> there = lstat(fs_, to_);
  is_new_ = !there.ok() && there.error().code() == Code::kNotFound;
  if (!there.ok() && !is_new_) return std::move(there).take_error();
  if (there.ok() && options_.target == CopyTarget::kNew) {
    return Error(Code::kExists, fmt::format("{} exists already", quote_path(to_)));
  }
  Status copied = copy_all();
  if (copied.ok()) copied = finish_directories();
  if (copied.ok()) return copied;
  if (!is_stopped_) return remove_made(copied.error());
  // Directories that were there before are not a part of the copy. The others must not be more open than the originals.
  std::erase_if(nodes_, [](const Node& node) { return node.source.is_directory() && !node.is_new; });
  finish_directories().ignore("the reason why it was stopped is the one to report");
  StoppedIn target = is_new_ ? StoppedIn::kNew : StoppedIn::kExisting;
  return stopped_copy(copied.error(), nodes_.size(), quote_path(to_), target);
}

Status TreeCopy::check_stopped() {
  Status checked = options_.check ? options_.check() : Status(Ok{});
  is_stopped_ = !checked.ok();
  return checked;
}

Result<std::vector<std::string>> TreeCopy::list_tree() {
  std::vector<std::string> paths;
  auto visit = [&](const WalkEntry& entry) -> Result<WalkNext> {
    WARREN_TRY(check_stopped());
    paths.push_back(entry.path);
    return WalkNext::kContinue;
  };
  WARREN_TRY(walk(fs_, from_, visit, {.follow = Follow::kNo}));
  return paths;
}

Status TreeCopy::copy_all() {
  std::vector<std::string> paths = WARREN_TRY(list_tree());
  for (const std::string& path : paths) {
    WARREN_TRY(check_stopped());
    WARREN_TRY(copy(path));
  }
  return Ok{};
}

Status TreeCopy::copy(const std::string& path) {
  Result<Attributes> source = lstat(fs_, path);
  if (!source.ok() && is_missing(source.error()) && path != from_) return Ok{};  // removed since it was listed
  Attributes original = WARREN_TRY(std::move(source));
  std::string inside = path == from_ ? std::string() : path.substr(from_ == "/" ? 0 : from_.size());
  Node node{.inside = std::move(inside), .source = original, .made = {}};
  std::string to = path_in(to_, node);
  Result<Attributes> there = lstat(fs_, to);
  bool is_there = there.ok();
  if (!is_there && there.error().code() != Code::kNotFound) return std::move(there).take_error();
  if (is_there && is_new_) {
    return Error(Code::kExists, fmt::format("{} was made by somebody else meanwhile", quote_path(to)));
  }
  Attributes above = WARREN_TRY(stat(fs_, directory_of(to)));
  bool is_across = are_in_different_mounts(node.source.inode, above.inode);
  Status made = make(node, is_there, is_across);
  if (!made.ok()) return is_there ? std::move(made) : Status(not_made(fs_, to, std::move(made).take_error()));
  node.made = WARREN_TRY(lstat(fs_, to));
  node.is_new = !is_there;
  nodes_.push_back(std::move(node));
  Node& copied = nodes_.back();
  if (options_.keeps == CopyKeeps::kXattrsToo && !original.is_symlink()) WARREN_TRY(keep_xattrs(copied));
  return original.is_directory() ? Status(Ok{}) : keep_attributes(copied, is_across);
}

Status TreeCopy::make(const Node& node, bool is_there, bool is_across) {
  std::string from = path_in(from_, node);
  std::string to = path_in(to_, node);
  if (node.source.is_directory()) {
    WARREN_TRY(is_there ? make_dirs(fs_, to) : make_dir(fs_, to));
  } else if (node.source.is_symlink()) {
    std::string target = WARREN_TRY(read_link(fs_, from));
    WARREN_TRY(make_symlink(fs_, target, to).within(doing("copy", from)));
  } else if (node.source.is_file()) {
    if (!is_there) return copy_to_new(fs_, from, to, is_across);
    WARREN_TRY(is_across ? copy_across(fs_, from, to, node.source) : copy_file(fs_, from, to));
  } else {
    NewNode made{.mode = node.source.mode, .owner = node.source.owner, .rdev = node.source.rdev};
    WARREN_TRY(make_node(fs_, to, made).within(doing("copy", from)));
  }
  return Ok{};
}

// What users have set must not get lost, the time to live least of all.
Status TreeCopy::keep_xattrs(const Node& node) {
  std::string from = path_in(from_, node);
  Result<std::vector<std::string>> names = fs_.list_xattrs(node.source.inode);
  if (!names.ok() && names.error().code() == Code::kUnsupported) return Ok{};
  std::vector<std::string> all = WARREN_TRY(std::move(names).within(doing("copy", from)));
  for (const std::string& name : all) {
    std::string value = WARREN_TRY(fs_.get_xattr(node.source.inode, name).within(doing("copy", from)));
    Status kept = fs_.set_xattr(node.made.inode, name, as_bytes(value), XattrMode::kAny);
    if (kept.ok() || !name.starts_with("user.")) continue;
    return std::move(kept).within(fmt::format("keep {} of {}", quote(name), quote_path(from)));
  }
  return Ok{};
}

Status TreeCopy::keep_attributes(Node& node, bool is_across) {
  std::string to = path_in(to_, node);
  AttributeChanges times;
  times.atime = SetTime::to(node.source.atime);
  times.mtime = SetTime::to(node.source.mtime);
  AttributeChanges all = times;
  if (!node.source.is_symlink()) all.mode = node.source.mode & 07777U;
  all.uid = node.source.owner.uid;
  all.gid = node.source.owner.gid;
  Result<Attributes> kept = fs_.set_attributes(node.made.inode, all);
  if (kept.ok()) {
    node.made = *kept;
    return Ok{};
  }
  Code code = kept.error().code();
  bool is_refused = code == Code::kDenied || code == Code::kNotPermitted;
  if (is_refused && options_.keeps == CopyKeeps::kXattrsToo) return Ok{};  // a place whose files may not be changed
  if (!is_across || code != Code::kUnsupported) {
    return std::move(kept).take_error().within(fmt::format("keep the attributes of {}", quote_path(to)));
  }
  kept = fs_.set_attributes(node.made.inode, times);
  if (kept.ok()) node.made = *kept;
  bool is_done = kept.ok() || kept.error().code() == Code::kUnsupported;
  return is_done ? Status(Ok{}) : Status(std::move(kept).take_error());
}

// Last, after everything is in them: making an entry changes their times.
Status TreeCopy::finish_directories() {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (!node->source.is_directory()) continue;
    WARREN_TRY(keep_attributes(*node, are_in_different_mounts(node->source.inode, node->made.inode)));
  }
  return Ok{};
}

Error TreeCopy::remove_made(const Error& why) {
  std::vector<CopiedPath> copies;
  for (const Node& node : nodes_) {
    if (node.is_new) copies.push_back({.from = path_in(from_, node), .to = path_in(to_, node), .made = node.made});
  }
  nodes_.clear();
  return take_back(fs_, copies, why);
}

Status TreeCopy::sync() {
  Status synced = Ok{};
  for (const Node& node : nodes_) {
    if (synced.ok() && node.source.is_file()) synced = fs_.sync(node.made.inode);
  }
  if (!synced.ok()) return remove_made(synced.error());
  return synced;
}

Status TreeCopy::remove_originals() {
  for (std::size_t end = nodes_.size(); end > 0;) {
    std::size_t first = end - std::min(end, limits::kRemoveUnit);
    WARREN_TRY(remove_batch(first, end));
    end = first;
  }
  return Ok{};
}

// All lookups before the first change: a unit that has changed one mount cannot walk a path through another.
Status TreeCopy::remove_batch(std::size_t first, std::size_t end) {
  auto unit = WARREN_TRY(fs_.begin(UnitAccess::kWrite));
  std::vector<Place> places;
  for (std::size_t i = end; i > first; --i) {
    const Node& node = nodes_[i - 1];
    std::string path = path_in(from_, node);
    Result<Place> found = find_name(fs_, path);
    if (!found.ok() && is_missing(found.error())) continue;
    Place place = WARREN_TRY(std::move(found));
    if (!place.node) continue;
    if (!is_as_it_was(node.source, *place.node)) {
      return Error(Code::kConflict, fmt::format("{} was changed while it was copied", quote_path(path)));
    }
    places.push_back(std::move(place));
  }
  for (const Place& place : places) {
    bool is_directory = place.node->is_directory();
    Status removed = is_directory ? fs_.remove_dir(place.parent, place.name) : fs_.unlink(place.parent, place.name);
    if (!removed.ok() && !is_missing(removed.error())) {
      return std::move(removed).within(fmt::format("remove {}", quote(place.name)));
    }
  }
  return unit->commit();
}

}  // namespace warren
