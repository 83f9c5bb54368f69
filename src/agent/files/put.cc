#include <cerrno>
#include <memory>
#include <optional>
#include <random>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/copies/draft_name.h"
#include "agent/files/file_verbs.h"
#include "agent/files/transfer.h"
#include "base/limits.h"
#include "base/path.h"
#include "fs/expiry.h"
#include "fs/file.h"
#include "fs/path_ops.h"
#include "fs/path_walk.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

// The size of one Unit: large enough to share the cost of a commit, small enough not to keep other writers waiting.
constexpr std::uint64_t kUnitFiles = 256;
constexpr std::uint64_t kUnitBytes = std::uint64_t{16} << 20;

Timestamp timestamp_of(const timespec& time) { return {time.tv_sec, static_cast<std::int32_t>(time.tv_nsec)}; }

std::string join_relative(std::string_view outer, std::string_view name) {
  return outer.empty() ? std::string(name) : fmt::format("{}/{}", outer, name);
}

// "dir/", "dir/." and ".." have no usable last name until they are resolved.
Result<std::string> host_name_of(const std::string& path) {
  std::string whole = WARREN_TRY(canonical_host_path(path));
  return std::string(base_name(whole));
}

// Visits a directory's entries, and those of all directories below it.
using HostVisitor = std::function<Status(int dir, std::string_view relative, const HostEntry&)>;
Status walk_host(int root, const HostVisitor& visit) {
  std::vector<std::string> pending{""};
  while (!pending.empty()) {
    std::string here = std::move(pending.back());
    pending.pop_back();
    Fd dir = WARREN_TRY(open_host_dir_below(root, here).within(quote(here)));
    std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()).within(quote(here)));
    for (const HostEntry& entry : entries) {
      std::string relative = join_relative(here, entry.name);
      WARREN_TRY(visit(dir.get(), relative, entry).within(quote(relative)));
      if (S_ISDIR(entry.attributes.st_mode)) pending.push_back(std::move(relative));
    }
  }
  return Ok{};
}

// A file that is filled from a stream under a temporary name and replaces its target when it is complete: until then
// the target keeps its old content. The destructor removes a draft that was not published.
class Draft {
 public:
  static Result<std::unique_ptr<Draft>> make(FileSystem& fs, std::string_view path, Follow follow,
                                             std::uint32_t mode_if_new) {
    Place place = WARREN_TRY(find_place(fs, path, {.follow = follow}));
    if (place.node && place.node->is_directory()) {
      return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote(path)));
    }
    NewNode node{.mode = mode_if_new};
    if (place.node && place.node->is_file()) node = {.mode = place.node->mode, .owner = place.node->owner};
    std::random_device random;
    std::string name = fmt::format("{}{:08x}{:08x}", kDraftPrefix, random(), random());
    Attributes made = WARREN_TRY(fs.create(place.parent, name, node));
    return std::unique_ptr<Draft>(new Draft(fs, std::move(place), std::move(name), made.inode));
  }
  ~Draft() {
    if (!published_) fs_.unlink(place_.parent, name_).ignore("a leftover draft does no harm");
    fs_.release(inode_);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  Status append(std::string_view data) {
    WARREN_TRY(fs_.append(inode_, as_bytes(data)));
    return Ok{};
  }

  Status expire_at(std::int64_t at_ms) {
    std::string text = format_expiry(at_ms);
    return fs_.set_xattr(inode_, kExpiryXattr, as_bytes(text), XattrMode::kAny);
  }

  Status publish() {
    WARREN_TRY(fs_.rename(place_.parent, name_, place_.parent, place_.name, RenameMode::kReplace));
    published_ = true;
    return Ok{};
  }

 private:
  Draft(FileSystem& fs, Place place, std::string name, Inode inode)
      : fs_(fs), place_(std::move(place)), name_(std::move(name)), inode_(inode) {}

  FileSystem& fs_;
  const Place place_;
  const std::string name_;
  const Inode inode_;
  bool published_ = false;
};

// `buffer` holds `count` bytes that have been read already, and is reused for the rest.
Result<std::uint64_t> fill_draft(Draft& draft, int fd, std::string& buffer, std::size_t count) {
  std::uint64_t total = 0;
  while (count > 0) {
    WARREN_TRY(draft.append(std::string_view(buffer).substr(0, count)));
    total += count;
    if (count < buffer.size()) break;
    count = WARREN_TRY(read_full(fd, as_mutable_bytes(buffer)));
  }
  return total;
}

class Putter {
 public:
  Putter(FileSystem& fs, const TransferProgress& progress) : fs_(fs), progress_(progress) {}

  Status put_entry(int dir, std::string_view name, const struct stat& attributes, const std::string& to) {
    WARREN_TRY(open_unit());
    if (S_ISDIR(attributes.st_mode)) return put_dir(attributes, to);
    if (S_ISREG(attributes.st_mode)) return put_file(dir, name, to);
    if (S_ISLNK(attributes.st_mode)) return put_symlink(dir, name, attributes, to);
    report_.skipped.push_back(to);
    return Ok{};
  }

  Status put_dir(const struct stat& attributes, const std::string& to) {
    WARREN_TRY(open_unit());
    WARREN_TRY(make_dirs(fs_, to));
    directories_.emplace_back(to, attributes);
    ++report_.directories;
    return close_full_unit(0);
  }

  Status put_file(int dir, std::string_view name, const std::string& to) {
    Fd host = WARREN_TRY(open_host_file_below(dir, name));
    return put_open_file(host.get(), to);
  }

  Status put_open_file(int host, const std::string& to) {
    struct stat attributes {};
    if (::fstat(host, &attributes) != 0) return system_error(errno, "stat the file");
    buffer_.resize(limits::kCopyBytes);
    bool is_large = static_cast<std::uint64_t>(attributes.st_size) > kUnitBytes;
    std::uint32_t mode = attributes.st_mode & 07777U;
    std::uint64_t bytes = WARREN_TRY(is_large ? put_large(host, to, mode) : put_small(host, to, mode));
    WARREN_TRY(open_unit());
    WARREN_TRY(set_host_attributes(to, attributes));
    report_.bytes += bytes;
    ++report_.files;
    return close_full_unit(bytes);
  }

  // Sets the directories' modes and times, now that they are complete, and commits the rest.
  Result<TransferReport> finish() {
    WARREN_TRY(open_unit());
    for (auto it = directories_.rbegin(); it != directories_.rend(); ++it) {
      WARREN_TRY(set_host_attributes(it->first, it->second));
    }
    WARREN_TRY(unit_->commit());
    unit_.reset();
    if (progress_) progress_(report_);
    return std::move(report_);
  }

 private:
  Status put_symlink(int dir, std::string_view name, const struct stat& attributes, const std::string& to) {
    std::string target = WARREN_TRY(read_host_link_below(dir, name));
    WARREN_TRY(remove(fs_, to, {.force = Force::kYes}));
    WARREN_TRY(make_symlink(fs_, target, to));
    WARREN_TRY(set_times(fs_, to, SetTime::to(timestamp_of(attributes.st_atim)),
                         SetTime::to(timestamp_of(attributes.st_mtim)), Follow::kNo));
    ++report_.symlinks;
    return close_full_unit(0);
  }

  // Within the open Unit, so that the file is stored completely or not at all.
  Result<std::uint64_t> put_small(int host, const std::string& to, std::uint32_t mode) {
    WARREN_TRY(open_unit());
    WARREN_TRY(drop_link(to));
    auto file = WARREN_TRY(File::open(
        fs_, to,
        {.access = FileAccess::kWrite, .create = Create::kIfMissing, .truncate = Truncate::kYes, .mode = mode}));
    std::uint64_t offset = 0;
    for (std::size_t count = buffer_.size(); count == buffer_.size();) {
      count = WARREN_TRY(read_full(host, as_mutable_bytes(buffer_)));
      WARREN_TRY(file->write_at(offset, as_bytes(std::string_view(buffer_).substr(0, count))));
      offset += count;
    }
    WARREN_TRY(file->close());
    return offset;
  }

  // Too much for one Unit.
  Result<std::uint64_t> put_large(int host, const std::string& to, std::uint32_t mode) {
    if (unit_) WARREN_TRY(commit_unit());
    auto draft = WARREN_TRY(Draft::make(fs_, to, Follow::kNo, mode));
    std::size_t count = WARREN_TRY(read_full(host, as_mutable_bytes(buffer_)));
    std::uint64_t bytes = WARREN_TRY(fill_draft(*draft, host, buffer_, count));
    WARREN_TRY(draft->publish());
    return bytes;
  }

  // A file replaces a link of the same name; the link's target is not changed.
  Status drop_link(const std::string& to) {
    Result<Attributes> there = lstat(fs_, to);
    if (!there.ok()) return Ok{};
    return there->is_symlink() ? unlink(fs_, to) : Status(Ok{});
  }

  Status set_host_attributes(const std::string& to, const struct stat& attributes) {
    AttributeChanges changes;
    changes.mode = attributes.st_mode & 07777U;
    changes.atime = SetTime::to(timestamp_of(attributes.st_atim));
    changes.mtime = SetTime::to(timestamp_of(attributes.st_mtim));
    WARREN_TRY(set_attributes(fs_, to, changes, Follow::kNo));
    return Ok{};
  }

  Status open_unit() {
    if (!unit_) unit_ = WARREN_TRY(fs_.begin(UnitAccess::kWrite));
    return Ok{};
  }

  Status close_full_unit(std::uint64_t bytes) {
    unit_bytes_ += bytes;
    ++unit_steps_;
    if (unit_bytes_ < kUnitBytes && unit_steps_ < kUnitFiles) return Ok{};
    return commit_unit();
  }

  Status commit_unit() {
    unit_bytes_ = 0;
    unit_steps_ = 0;
    Status done = unit_->commit();
    unit_.reset();
    if (progress_) progress_(report_);
    return done;
  }

  FileSystem& fs_;
  const TransferProgress& progress_;
  TransferReport report_;
  std::vector<std::pair<std::string, struct stat>> directories_;
  std::string buffer_;
  std::unique_ptr<Unit> unit_;
  std::uint64_t unit_bytes_ = 0;
  std::uint64_t unit_steps_ = 0;
};

Result<struct stat> get_host_file(const std::string& path) {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(path));
  if (!there) return Error(Code::kNotFound, fmt::format("{} does not exist on the host", quote(path)));
  return *there;
}

Status put_children(Putter& putter, const std::string& host_path, const std::string& top) {
  Fd root = WARREN_TRY(open_host_dir(host_path));
  return walk_host(root.get(), [&](int dir, std::string_view relative, const HostEntry& entry) {
    return putter.put_entry(dir, entry.name, entry.attributes,
                            top == "/" ? fmt::format("/{}", relative) : fmt::format("{}/{}", top, relative));
  });
}

}  // namespace

Result<TransferTotals> measure_host_tree(const std::string& host_path) {
  struct stat start = WARREN_TRY(get_host_file(host_path));
  TransferTotals totals;
  auto count = [&](const struct stat& attributes) {
    if (!S_ISREG(attributes.st_mode)) return;
    ++totals.files;
    totals.bytes += static_cast<std::uint64_t>(attributes.st_size);
  };
  count(start);
  if (!S_ISDIR(start.st_mode)) return totals;
  Fd root = WARREN_TRY(open_host_dir(host_path));
  WARREN_TRY(walk_host(root.get(), [&](int, std::string_view, const HostEntry& entry) -> Status {
    count(entry.attributes);
    return Ok{};
  }));
  return totals;
}

Result<TransferReport> put_tree(FileSystem& fs, const std::string& host_path, std::string_view path,
                                const TransferProgress& progress) {
  struct stat start = WARREN_TRY(get_host_file(host_path));
  std::string name = WARREN_TRY(host_name_of(host_path));
  std::string target = name.empty() ? std::string(path) : WARREN_TRY(destination_of(fs, name, path));
  std::string top = WARREN_TRY(normalise_path(target));
  Putter putter(fs, progress);
  if (S_ISDIR(start.st_mode)) {
    WARREN_TRY(putter.put_dir(start, top));
    WARREN_TRY(put_children(putter, host_path, top).within(fmt::format("put {}", quote(host_path))));
  } else if (S_ISREG(start.st_mode)) {
    Fd host(::open(host_path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!host.is_open()) return system_error(errno, fmt::format("open {}", quote(host_path)));
    if (top != "/") WARREN_TRY(make_dirs(fs, split_parent(top).parent));
    WARREN_TRY(putter.put_open_file(host.get(), top).within(fmt::format("put {}", quote(host_path))));
  } else {
    return Error(Code::kInvalid, fmt::format("{} is neither a file nor a directory", quote(host_path)),
                 "to read from a pipe, use `-` and redirect standard input");
  }
  return putter.finish();
}

Result<std::uint64_t> append_from_fd(FileSystem& fs, std::string_view path, int fd) {
  std::string buffer(limits::kCopyBytes, '\0');
  std::uint64_t total = 0;
  for (std::size_t count = buffer.size(); count == buffer.size();) {
    count = WARREN_TRY(read_full(fd, as_mutable_bytes(buffer)));
    WARREN_TRY(append_file(fs, path, as_bytes(std::string_view(buffer).substr(0, count))));
    total += count;
  }
  return total;
}

Result<std::uint64_t> replace_from_fd(FileSystem& fs, std::string_view path, int fd,
                                      std::optional<std::int64_t> expires_at_ms) {
  std::string buffer(limits::kCopyBytes, '\0');
  std::size_t count = WARREN_TRY(read_full(fd, as_mutable_bytes(buffer)));
  if (count < buffer.size()) {
    WARREN_TRY(
        write_file(fs, path, as_bytes(std::string_view(buffer).substr(0, count)), {.expires_at_ms = expires_at_ms}));
    return count;
  }
  std::string whole = WARREN_TRY(normalise_path(path));
  if (whole != "/") WARREN_TRY(make_dirs(fs, split_parent(whole).parent));
  auto draft = WARREN_TRY(Draft::make(fs, path, Follow::kYes, 0644).within(fmt::format("write {}", quote(path))));
  std::uint64_t total = WARREN_TRY(fill_draft(*draft, fd, buffer, count).within(fmt::format("write {}", quote(path))));
  if (expires_at_ms) WARREN_TRY(draft->expire_at(*expires_at_ms).within(fmt::format("write {}", quote(path))));
  WARREN_TRY(draft->publish());
  return total;
}

}  // namespace warren
