#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/files/transfer.h"
#include "base/limits.h"
#include "base/path.h"
#include "fs/file.h"
#include "fs/path_ops.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::uint32_t kKeptModeBits = 0777U;

std::pair<timespec, timespec> host_times(const Attributes& node) {
  return {{node.atime.seconds, node.atime.nanoseconds}, {node.mtime.seconds, node.mtime.nanoseconds}};
}

// Writes single nodes into directories of the host, and collects the report.
class Getter {
 public:
  Getter(FileSystem& fs, const GetOptions& options) : fs_(fs), options_(options) {}

  Status get_file(int dir, const std::string& name, const WalkEntry& entry) {
    std::string draft = next_draft();
    Fd out(::openat(dir, draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!out.is_open()) return system_error(errno, fmt::format("create {}", quote(name)));
    Status done = fill(out.get(), entry);
    if (done.ok()) done = move_into_place(dir, draft, name);
    if (!done.ok()) {
      ::unlinkat(dir, draft.c_str(), 0);
      return done;
    }
    ++report_.files;
    report_progress();
    return Ok{};
  }

  Status get_symlink(int dir, const std::string& name, const WalkEntry& entry) {
    std::string target = WARREN_TRY(read_link(fs_, entry.path));
    std::string draft = next_draft();
    if (::symlinkat(target.c_str(), dir, draft.c_str()) != 0) {
      return system_error(errno, fmt::format("make link {}", quote(name)));
    }
    auto [atime, mtime] = host_times(entry.attributes);
    timespec times[2] = {atime, mtime};
    ::utimensat(dir, draft.c_str(), times, AT_SYMLINK_NOFOLLOW);
    Status done = move_into_place(dir, draft, name);
    if (!done.ok()) {
      ::unlinkat(dir, draft.c_str(), 0);
      return done;
    }
    ++report_.symlinks;
    return Ok{};
  }

  // A new directory is accessible only to us until finish() sets its mode. An existing one keeps its mode.
  Result<Fd> get_dir(int dir, const std::string& name) {
    bool is_new = ::mkdirat(dir, name.c_str(), 0700) == 0;
    if (!is_new && errno != EEXIST) return system_error(errno, fmt::format("make directory {}", quote(name)));
    Fd made = WARREN_TRY(open_host_dir_below(dir, name));
    made_new_ = is_new;
    ++report_.directories;
    return made;
  }
  bool made_new() const { return made_new_; }

  void skip(const std::string& path) { report_.skipped.push_back(path); }
  TransferReport take_report() { return std::move(report_); }

 private:
  Status fill(int out, const WalkEntry& entry) {
    WARREN_TRY(read_to(fs_, entry.path, [&](Bytes data) -> Status {
      WARREN_TRY(write_all(out, data));
      report_.bytes += data.size();
      report_progress();
      return Ok{};
    }));
    auto [atime, mtime] = host_times(entry.attributes);
    timespec times[2] = {atime, mtime};
    if (::fchmod(out, entry.attributes.mode & kKeptModeBits) != 0) return system_error(errno, "set the mode");
    if (::futimens(out, times) != 0) return system_error(errno, "set the times");
    return Ok{};
  }

  Status move_into_place(int dir, const std::string& draft, const std::string& name) {
    bool may_replace = options_.overwrite == OverwriteHost::kYes;
    unsigned flags = may_replace ? 0U : static_cast<unsigned>(RENAME_NOREPLACE);
    if (::renameat2(dir, draft.c_str(), dir, name.c_str(), flags) == 0) return Ok{};
    Error error = system_error(errno, fmt::format("write {}", quote(name)));
    if (error.code() == Code::kExists) return std::move(error).with_hint("use --force to overwrite existing files");
    return error;
  }

  std::string next_draft() { return fmt::format(".warren-get-{}-{}", ::getpid(), ++drafts_); }
  void report_progress() {
    if (options_.progress) options_.progress(report_);
  }

  FileSystem& fs_;
  const GetOptions& options_;
  TransferReport report_;
  std::uint64_t drafts_ = 0;
  bool made_new_ = false;
};

// The destination of a tree: `name` in the directory `parent`, or `parent` itself for the root.
struct HostTarget {
  Fd parent;
  std::string name;  // empty: parent itself
};

Result<HostTarget> host_target(std::string_view start, const std::string& host_path) {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(host_path));
  bool is_dir = there && S_ISDIR(there->st_mode);
  if (is_dir || start == "/") {
    if (!is_dir) WARREN_TRY(make_host_dirs(host_path, 0755));
    Fd parent = WARREN_TRY(open_host_dir(host_path));
    std::string name = start == "/" ? "" : std::string(split_parent(start).name);
    if (!name.empty()) WARREN_TRY(check_name(name));
    return HostTarget{std::move(parent), name};
  }
  std::string trimmed = host_path;
  while (trimmed.size() > 1 && trimmed.ends_with('/')) trimmed.pop_back();
  Fd parent = WARREN_TRY(open_host_dir(std::string(directory_of(trimmed))));
  return HostTarget{std::move(parent), std::string(base_name(trimmed))};
}

// Writes the entries of a tree below `top`, one directory open at a time.
class TreeGetter {
 public:
  TreeGetter(Getter& getter, int top, std::string_view start) : getter_(getter), top_(top), start_(start) {}

  Status get(const WalkEntry& entry) {
    std::string_view inside = std::string_view(entry.path).substr(start_ == "/" ? 1 : start_.size() + 1);
    std::size_t slash = inside.rfind('/');
    std::string name(inside.substr(slash + 1));
    WARREN_TRY(check_name(name));
    WARREN_TRY(enter(slash == inside.npos ? std::string_view() : inside.substr(0, slash)));
    if (entry.attributes.is_file()) return getter_.get_file(here_.get(), name, entry);
    if (entry.attributes.is_symlink()) return getter_.get_symlink(here_.get(), name, entry);
    if (!entry.attributes.is_directory()) {
      getter_.skip(entry.path);
      return Ok{};
    }
    WARREN_TRY(getter_.get_dir(here_.get(), name));
    if (getter_.made_new()) made_.emplace_back(inside, entry.attributes);
    return Ok{};
  }

  // Sets modes and times of new directories, deepest first: a mode may lock us out of a directory.
  Status finish() {
    here_ = Fd();
    for (auto it = made_.rbegin(); it != made_.rend(); ++it) {
      Fd dir = WARREN_TRY(open_host_dir_below(top_, it->first));
      WARREN_TRY(set_dir_attributes(dir.get(), it->second));
    }
    return Ok{};
  }

  static Status set_dir_attributes(int dir, const Attributes& node) {
    auto [atime, mtime] = host_times(node);
    timespec times[2] = {atime, mtime};
    if (::futimens(dir, times) != 0) return system_error(errno, "set a directory's times");
    if (::fchmod(dir, node.mode & kKeptModeBits) != 0) return system_error(errno, "set a directory's mode");
    return Ok{};
  }

 private:
  Status enter(std::string_view relative) {
    if (here_.is_open() && relative == here_path_) return Ok{};
    here_ = WARREN_TRY(open_host_dir_below(top_, relative));
    here_path_ = relative;
    return Ok{};
  }

  Getter& getter_;
  int top_;
  std::string start_;
  Fd here_;
  std::string here_path_;
  std::vector<std::pair<std::string, Attributes>> made_;
};

Status get_directory(Getter& getter, FileSystem& fs, const std::string& start, const HostTarget& target) {
  Fd top;
  bool is_new = false;
  if (target.name.empty()) {
    top = WARREN_TRY(open_host_dir_below(target.parent.get(), ""));
  } else {
    top = WARREN_TRY(getter.get_dir(target.parent.get(), target.name));
    is_new = getter.made_new();
  }
  Attributes start_node;
  TreeGetter tree(getter, top.get(), start);
  WARREN_TRY(walk(fs, start, [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (entry.path == start) {
      start_node = entry.attributes;
    } else {
      WARREN_TRY(tree.get(entry).within(quote(entry.path)));
    }
    return WalkNext::kContinue;
  }));
  WARREN_TRY(tree.finish());
  if (is_new) return TreeGetter::set_dir_attributes(top.get(), start_node);
  return Ok{};
}

}  // namespace

Result<TransferTotals> measure_agent_tree(FileSystem& fs, std::string_view path) {
  TransferTotals totals;
  WARREN_TRY(walk(fs, path, [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (entry.attributes.is_file()) {
      ++totals.files;
      totals.bytes += entry.attributes.size;
    }
    return WalkNext::kContinue;
  }));
  return totals;
}

Result<TransferReport> get_tree(FileSystem& fs, std::string_view path, const std::string& host_path,
                                const GetOptions& options) {
  Attributes node = WARREN_TRY(stat(fs, path));
  std::string start = WARREN_TRY(normalise_path(path));
  HostTarget target = WARREN_TRY(host_target(start, host_path));
  Getter getter(fs, options);
  std::string what = fmt::format("get {}", quote(path));
  if (node.is_directory()) {
    WARREN_TRY(get_directory(getter, fs, start, target).within(what));
  } else if (node.is_file()) {
    WARREN_TRY(getter.get_file(target.parent.get(), target.name, {start, node}).within(what));
  } else {
    return Error(Code::kInvalid, fmt::format("{} is neither a file nor a directory", quote(path)));
  }
  return getter.take_report();
}

Status read_to(FileSystem& fs, std::string_view path, const std::function<Status(Bytes)>& sink) {
  auto file = WARREN_TRY(File::open(fs, path));
  std::string buffer(limits::kCopyBytes, '\0');
  for (std::uint64_t offset = 0;;) {
    std::size_t count = WARREN_TRY(file->read_at(offset, as_mutable_bytes(buffer)));
    if (count == 0) break;
    WARREN_TRY(sink(as_bytes(std::string_view(buffer).substr(0, count))));
    offset += count;
  }
  return file->close();
}

}  // namespace warren
