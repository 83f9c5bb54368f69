#include "agent/files/file_verbs.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include <fnmatch.h>

#include <fmt/format.h>

#include "agent/files/tree_copy.h"
#include "base/path.h"
#include "fs/expiry.h"
#include "fs/mounts/mount_points.h"

namespace warren {
namespace {

Result<std::string> last_name(std::string_view path) {
  std::string whole = WARREN_TRY(normalise_path(path));
  if (whole == "/") return Error(Code::kInvalid, "the root has no name");
  std::string name(split_parent(whole).name);
  if (name == "..") return Error(Code::kInvalid, fmt::format("{} ends in '..'", quote_path(path)));
  return name;
}

// "/a" contains "/a/b", not "/ab". Both normalised.
bool contains(std::string_view outer, std::string_view inner) {
  if (outer == "/" || outer == inner) return true;
  return inner.starts_with(outer) && inner[outer.size()] == '/';
}

Status check_not_inside(std::string_view from, std::string_view to, std::string_view done) {
  std::string outer = WARREN_TRY(normalise_path(from));
  std::string inner = WARREN_TRY(normalise_path(to));
  if (!contains(outer, inner)) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} cannot be {} into itself", quote_path(from), done),
               fmt::format("choose a target that is not below {}", quote_path(from)));
}

Result<std::uint32_t> apply_clause(std::string_view clause, std::uint32_t mode) {
  auto bad = [&] {
    return Error(Code::kInvalid, fmt::format("{} is not a mode", quote(clause)), "write a mode as 644, u+x or go-w");
  };
  std::size_t i = 0;
  std::uint32_t who = 0;
  for (; i < clause.size(); ++i) {
    if (clause[i] == 'u') who |= 04700U;
    else if (clause[i] == 'g') who |= 02070U;
    else if (clause[i] == 'o') who |= 01007U;
    else if (clause[i] == 'a') who |= 07777U;
    else break;
  }
  if (who == 0) who = 07777U;
  if (i == clause.size()) return bad();
  char action = clause[i++];
  if (action != '+' && action != '-' && action != '=') return bad();
  std::uint32_t bits = 0;
  for (; i < clause.size(); ++i) {
    bool is_executable = S_ISDIR(mode) || (mode & 0111U) != 0;
    if (clause[i] == 'r') bits |= 0444U;
    else if (clause[i] == 'w') bits |= 0222U;
    else if (clause[i] == 'x') bits |= 0111U;
    else if (clause[i] == 'X') bits |= is_executable ? 0111U : 0U;
    else if (clause[i] == 's') bits |= 06000U;
    else if (clause[i] == 't') bits |= 01000U;
    else return bad();
  }
  if (action == '+') return mode | (bits & who);
  if (action == '-') return mode & ~(bits & who);
  return (mode & ~(who & 07777U)) | (bits & who);
}

bool matches(const FindOptions& options, const WalkEntry& entry) {
  const Attributes& node = entry.attributes;
  if (options.name) {
    std::string_view name = entry.path == "/" ? std::string_view("/") : split_parent(entry.path).name;
    if (!matches_glob(*options.name, name)) return false;
  }
  if (options.type && (node.mode & S_IFMT) != *options.type) return false;
  if (options.size_min && node.size < *options.size_min) return false;
  if (options.size_max && node.size > *options.size_max) return false;
  return !options.newer || node.mtime > *options.newer;
}

int depth_between(std::string_view start, std::string_view path) {
  auto slashes = [](std::string_view text) {
    return text == "/" ? 0 : static_cast<int>(std::count(text.begin(), text.end(), '/'));
  };
  return slashes(path) - slashes(start);
}

}  // namespace

Result<std::string> destination_of(FileSystem& fs, std::string_view from, std::string_view to) {
  Result<Attributes> there = stat(fs, to);
  if (!there.ok()) {
    if (there.error().code() != Code::kNotFound) return std::move(there).take_error();
    return std::string(to);
  }
  if (!there->is_directory()) return std::string(to);
  std::string name = WARREN_TRY(last_name(from));
  std::string outer = WARREN_TRY(normalise_path(to));
  return join_path(outer, name);
}

Result<Listing> list_path(FileSystem& fs, std::string_view path) {
  Attributes node = WARREN_TRY(lstat(fs, path));
  if (node.is_symlink()) {
    Result<Attributes> target = stat(fs, path);  // a dangling link is listed as itself
    if (target.ok() && target->is_directory()) node = *target;
  }
  if (!node.is_directory()) return Listing{false, {{std::string(path), node}}};
  std::vector<NamedAttributes> entries = WARREN_TRY(read_dir_plus(fs, path));
  return Listing{true, std::move(entries)};
}

Result<std::string> copy_path(FileSystem& fs, std::string_view from, std::string_view to,
                              const CopyPathOptions& options) {
  bool is_recursive = options.recursive == Recursive::kYes;
  Attributes node = WARREN_TRY(is_recursive ? lstat(fs, from) : stat(fs, from));
  std::string target = WARREN_TRY(destination_of(fs, from, to));
  if (!node.is_directory() && !node.is_symlink()) {
    if (!node.is_file()) return Error(Code::kInvalid, fmt::format("{} is not a file", quote_path(from)));
    WARREN_TRY(copy_one_file(fs, from, target));
    return target;
  }
  if (node.is_directory() && !is_recursive) {
    return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote_path(from)), "use -r to copy directories");
  }
  std::string start = WARREN_TRY(normalise_path(from));
  std::string top = WARREN_TRY(normalise_path(target));
  if (node.is_directory()) WARREN_TRY(check_not_inside(start, top, "copied"));
  if (node.is_directory()) WARREN_TRY(make_dirs(fs, directory_of(top)));
  bool must_be_new = node.is_directory() && options.merge == MergeDirs::kNo;
  TreeCopy copy(fs, {.target = must_be_new ? CopyTarget::kNew : CopyTarget::kMayExist, .check = options.check});
  WARREN_TRY(copy.run(start, top));
  return top;
}

namespace {

// What may be replaced is a file, by a file.
Status check_replaced(FileSystem& fs, std::string_view from, std::string_view to, RenameMode mode) {
  Attributes node = WARREN_TRY(lstat(fs, from));
  Result<Attributes> there = lstat(fs, to);
  if (!there.ok() && there.error().code() == Code::kNotFound) return Ok{};
  Attributes old = WARREN_TRY(std::move(there));
  if (mode == RenameMode::kReplace && node.is_file() && old.is_file()) return Ok{};
  return Error(Code::kExists, fmt::format("{} exists already", quote_path(to)), "remove it first, or choose another");
}

}  // namespace

Status move_path(FileSystem& fs, std::string_view from, std::string_view to, RenameMode mode) {
  if (mode == RenameMode::kExchange) return rename(fs, from, to, mode);
  std::string target = WARREN_TRY(destination_of(fs, from, to));
  return rename_or_copy(fs, from, target, mode);
}

Status rename_or_copy(FileSystem& fs, std::string_view from, std::string_view to, RenameMode mode, CopyCheck check) {
  Status renamed = rename(fs, from, to, mode);
  if (!renamed.ok() && renamed.error().code() == Code::kInvalid) WARREN_TRY(check_not_inside(from, to, "moved"));
  bool is_apart = !renamed.ok() && renamed.error().code() == Code::kCrossDevice && mode != RenameMode::kExchange;
  if (!is_apart) return renamed;
  WARREN_TRY(check_no_mount(fs, from));
  WARREN_TRY(check_not_inside(from, to, "moved"));
  WARREN_TRY(check_replaced(fs, from, to, mode));
  Attributes node = WARREN_TRY(lstat(fs, from));
  bool may_replace = mode == RenameMode::kReplace && node.is_file();
  TreeCopy copy(fs, {.target = may_replace ? CopyTarget::kMayExist : CopyTarget::kNew,
                     .keeps = CopyKeeps::kXattrsToo,
                     .check = std::move(check)});
  WARREN_TRY(copy.run(from, to));
  WARREN_TRY(copy.sync());
  Status removed = copy.remove_originals();
  if (removed.ok()) return removed;
  return original_stays(removed.error(), quote_path(from), quote_path(to));
}

Error original_stays(const Error& why, std::string_view from, std::string_view to) {
  std::string hint = fmt::format("the copy is complete: keep it, and remove what is left of {}", from);
  if (why.code() == Code::kConflict || why.code() == Code::kNotEmpty) {
    hint = fmt::format("keep both until they are compared: what is left of {} has changes that the copy lacks", from);
  }
  return Error(
      why.code(),
      fmt::format("{} was copied to {}; the original could not be removed completely: {}", from, to, why.message()),
      std::move(hint));
}

Result<std::uint32_t> apply_mode(std::string_view text, std::uint32_t mode) {
  bool is_octal = !text.empty() && text.size() <= 5 &&
                  std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '7'; });
  if (is_octal) {
    std::uint32_t bits = 0;
    for (char c : text) bits = bits * 8 + static_cast<std::uint32_t>(c - '0');
    if (bits > 07777U)
      return Error(Code::kInvalid, fmt::format("{} is not a mode", quote(text)), "write a mode as 644, u+x or go-w");
    return bits;
  }
  for (std::string_view rest = text;;) {
    std::size_t comma = rest.find(',');
    mode = WARREN_TRY(apply_clause(rest.substr(0, comma), mode));
    if (comma == rest.npos) break;
    rest = rest.substr(comma + 1);
  }
  return mode & 07777U;
}

Status change_mode(FileSystem& fs, std::string_view path, std::string_view text, Recursive recursive) {
  auto change = [&](std::string_view each, const Attributes& node) -> Status {
    std::uint32_t mode = WARREN_TRY(apply_mode(text, node.mode));
    return set_mode(fs, each, mode);
  };
  if (recursive == Recursive::kNo) {
    Attributes node = WARREN_TRY(stat(fs, path));
    return change(path, node);
  }
  return walk(fs, path, [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (!entry.attributes.is_symlink()) WARREN_TRY(change(entry.path, entry.attributes));
    return WalkNext::kContinue;
  });
}

Status touch(FileSystem& fs, std::string_view path, const TouchOptions& options) {
  bool is_there = WARREN_TRY(exists(fs, path));
  if (!is_there) {
    if (options.create == Create::kNo) return Ok{};
    auto file = WARREN_TRY(File::open(fs, path, {.access = FileAccess::kWrite, .create = Create::kIfMissing}));
    WARREN_TRY(file->close());
  }
  return set_times(fs, path, options.time, options.time);
}

Status replace_if_unchanged(FileSystem& fs, std::string_view path, const std::optional<std::string>& before,
                            Bytes data) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  bool is_there = WARREN_TRY(exists(fs, path));
  WriteFileOptions options;
  if (is_there != before.has_value()) {
    return Error(Code::kConflict,
                 fmt::format("{} was {} meanwhile", quote_path(path), is_there ? "created" : "removed"));
  }
  if (before) {
    Result<std::string> now = read_file(fs, path, {.size_bytes_max = before->size()});
    bool is_same = now.ok() && *now == *before;
    bool is_other = now.ok() || now.error().code() == Code::kTooLarge || now.error().code() == Code::kIsDirectory;
    if (!is_same && !is_other) return std::move(now).take_error();
    if (!is_same) return Error(Code::kConflict, fmt::format("{} was changed meanwhile", quote_path(path)));
    Attributes node = WARREN_TRY(stat(fs, path));
    options.expires_at_ms = WARREN_TRY(find_expiry(fs, node.inode));
  }
  WARREN_TRY(write_file(fs, path, data, options));
  return unit->commit();
}

bool matches_glob(std::string_view pattern, std::string_view name) {
  return ::fnmatch(std::string(pattern).c_str(), std::string(name).c_str(), FNM_NOESCAPE) == 0;
}

Status find(FileSystem& fs, std::string_view path, const FindOptions& options, const FindVisitor& visit) {
  std::string start = WARREN_TRY(normalise_path(path));
  return walk(fs, start, [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (matches(options, entry)) WARREN_TRY(visit(entry));
    bool is_deepest = options.depth_max && depth_between(start, entry.path) >= *options.depth_max;
    return is_deepest ? WalkNext::kSkip : WalkNext::kContinue;
  });
}

Result<DiskUsage> disk_usage(FileSystem& fs, std::string_view path, const UsageVisitor& visit) {
  struct Level {
    std::string path;
    DiskUsage usage;
  };
  std::vector<Level> open;  // the directories that the walk is currently in
  DiskUsage last_closed;    // after the walk: the start's
  std::unordered_set<Inode> counted;
  auto close_deepest = [&]() -> Status {
    Level done = std::move(open.back());
    open.pop_back();
    last_closed = done.usage;
    if (!open.empty()) {
      DiskUsage& outer = open.back().usage;
      outer.bytes += done.usage.bytes;
      outer.files += done.usage.files;
      outer.directories += done.usage.directories;
    }
    return visit(done.path, done.usage);
  };
  std::string start = WARREN_TRY(normalise_path(path));
  auto enter = [&](const WalkEntry& entry) -> Result<WalkNext> {
    while (!open.empty() && !contains(open.back().path, entry.path)) WARREN_TRY(close_deepest());
    const Attributes& node = entry.attributes;
    bool is_start = open.empty();  // the start may be a file
    if (node.is_directory() || is_start) open.push_back({entry.path, {}});
    DiskUsage& usage = open.back().usage;
    if (node.is_directory()) {
      ++usage.directories;
      return WalkNext::kContinue;
    }
    ++usage.files;
    if (node.nlink < 2 || counted.insert(node.inode).second) usage.bytes += node.size;
    return WalkNext::kContinue;
  };
  WARREN_TRY(walk(fs, start, enter));
  while (!open.empty()) WARREN_TRY(close_deepest());
  return last_closed;
}

}  // namespace warren
