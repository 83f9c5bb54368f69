#include "changes/apply/staging.h"

#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/path.h"
#include "changes/apply/step_tree.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

// A file in the staging directory of the base's root: the other tops, each followed by NUL. It is on disk before
// anything is in them, so that they can be found after a crash.
constexpr std::string_view kTops = "tops";
constexpr std::size_t kTopsBytesMax = std::size_t{1} << 20;

// A file in every staging directory, with the name of the record: only a directory that has it is ever removed.
constexpr std::string_view kMark = "warren-mark";

Status write_mark(HostTree& base, const std::string& dir, const std::string& name) {
  Fd mark = WARREN_TRY(base.create_file(join_path(dir, kMark)));
  WARREN_TRY(write_all(mark.get(), as_bytes(name)));
  if (::fsync(mark.get()) != 0) return system_error(errno, "mark the staging directory");
  return Ok{};
}

Result<bool> has_mark(HostTree& base, const std::string& dir, const std::string& name) {
  std::string path = join_path(dir, kMark);
  std::optional<struct stat> there = WARREN_TRY(base.find(path));
  if (!there || !S_ISREG(there->st_mode)) return false;
  Fd mark = WARREN_TRY(base.open_file(path, O_RDONLY));
  std::string text(name.size() + 1, '\0');
  text.resize(WARREN_TRY(read_full(mark.get(), as_mutable_bytes(text))));
  if (text == name) return true;
  // Killed while it was written: then nothing else is in the directory yet.
  Fd fd = WARREN_TRY(open_host_dir_below(base.top(), std::string_view(dir).substr(1)));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(fd.get()));
  return entries.size() == 1 && name.starts_with(text);
}

// The mark goes last, so that a removal that was interrupted can be continued.
Status remove_marked(HostTree& base, const std::string& dir, const std::string& name) {
  std::optional<struct stat> there = WARREN_TRY(base.find(dir));
  if (!there) return Ok{};
  bool is_ours = S_ISDIR(there->st_mode) && WARREN_TRY(has_mark(base, dir, name));
  if (!is_ours) {
    bool is_gone = S_ISDIR(there->st_mode) && base.remove_dir(dir).ok();  // killed before it was marked: it is empty
    if (is_gone) return Ok{};
    return Error(Code::kConflict,
                 fmt::format("{} in the base does not carry our mark, so it was not removed", quote(dir)),
                 "look at its content and remove it yourself");
  }
  Fd fd = WARREN_TRY(open_host_dir_below(base.top(), std::string_view(dir).substr(1)));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(fd.get()));
  for (const HostEntry& entry : entries) {
    if (entry.name != kMark) WARREN_TRY(base.remove_tree(join_path(dir, entry.name)));
  }
  WARREN_TRY(base.remove_file(join_path(dir, kMark)));
  return base.remove_dir(dir);
}

std::string tops_path(const std::string& name) { return fmt::format("/{}/{}", name, kTops); }

Result<std::vector<std::string>> read_tops(HostTree& base, const std::string& name) {
  std::vector<std::string> tops;
  if (!WARREN_TRY(base.find(tops_path(name)))) return tops;
  Fd file = WARREN_TRY(base.open_file(tops_path(name), O_RDONLY));
  std::string text(kTopsBytesMax, '\0');
  text.resize(WARREN_TRY(read_full(file.get(), as_mutable_bytes(text))));
  for (std::size_t end = text.find('\0'); end != text.npos; end = text.find('\0')) {
    if (text.starts_with('/')) tops.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  return tops;
}

Result<bool> is_top_of_mount(HostTree& base, const std::string& top) {
  if (top == "/") return true;
  if (!WARREN_TRY(base.find(top))) return false;
  std::uint64_t own = WARREN_TRY(base.get_mount(top));
  std::uint64_t around = WARREN_TRY(base.get_mount(split_parent(top).parent));
  return own != around;
}

}  // namespace

Result<Staging> Staging::make_named(HostTree& base, std::string name) {
  Staging staging(base, std::move(name));
  std::uint64_t own = WARREN_TRY(base.get_mount("/"));
  staging.top_of_mount_.emplace(own, "/");
  return staging;
}

Result<Staging> Staging::dry_run(HostTree& base) {
  WARREN_TRY(base.check_writable("/").within("stage the changes in the base"));
  return make_named(base, "");
}

Result<Staging> Staging::make(HostTree& base, const ApplyRecord& record) {
  std::string dir = "/" + record.staging;
  WARREN_TRY(base.make_dir(dir, 0700).within("stage the changes in the base"));
  WARREN_TRY(write_mark(base, dir, record.staging).within("stage the changes in the base"));
  return make_named(base, record.staging);
}

Result<std::string> Staging::top_of(std::string_view dir) {
  std::uint64_t mount = WARREN_TRY(base_->get_mount(dir));
  auto known = top_of_mount_.find(mount);
  if (known != top_of_mount_.end()) return known->second;
  std::string top(dir);
  while (top != "/") {
    std::string above(split_parent(top).parent);
    std::uint64_t around = WARREN_TRY(base_->get_mount(above));
    if (around != mount) break;
    top = std::move(above);
  }
  top_of_mount_.emplace(mount, top);
  return top;
}

Result<std::uint64_t> Staging::new_slot(std::string_view dir) {
  std::string top = WARREN_TRY(top_of(dir));
  std::uint64_t slot = next_slot_++;
  if (top == "/") return slot;
  auto known = std::find(tops_.begin(), tops_.end(), top);
  std::uint64_t index = static_cast<std::uint64_t>(known - tops_.begin()) + 1;
  if (known == tops_.end()) WARREN_TRY(add_top(top));
  return index * kSlotsPerTop + slot;
}

Status Staging::add_top(const std::string& top) {
  if (is_dry_run()) {
    tops_.push_back(top);
    return base_->check_writable(top).within("stage the changes in the base");
  }
  std::string path = tops_path(name_);
  Fd file = WARREN_TRY(tops_.empty() ? base_->create_file(path) : base_->open_file(path, O_RDWR));
  if (::lseek(file.get(), 0, SEEK_END) < 0) return system_error(errno, "record a staging directory");
  WARREN_TRY(write_all(file.get(), as_bytes(top + std::string(1, '\0'))));
  if (::fsync(file.get()) != 0) return system_error(errno, "record a staging directory");
  WARREN_TRY(base_->sync_dir("/" + name_));
  WARREN_TRY(base_->sync_dir("/"));
  tops_.push_back(top);
  std::string dir = join_path(top, name_);
  WARREN_TRY(base_->make_dir(dir, 0700).within("stage the changes in the base"));
  return write_mark(*base_, dir, name_).within("stage the changes in the base");
}

Status Staging::check_mounted(HostTree& base, const ApplyRecord& record) {
  std::vector<std::string> tops = tops_of(*record.intent);
  for (const std::string& top : tops) {
    if (WARREN_TRY(base.find(join_path(top, record.staging)))) continue;
    // When all steps are done, it may have been removed already.
    bool is_removed = record.state == ApplyState::kPerformed && WARREN_TRY(is_top_of_mount(base, top));
    if (is_removed) continue;
    return Error(Code::kUnavailable,
                 fmt::format("an interrupted {} had written to the filesystem at {} in the base, which is not mounted "
                             "now",
                             record.kind == RecordKind::kUndo ? "undo" : "apply", quote(top)),
                 fmt::format("mount it again; if it is lost, create an empty directory {} there, and the rest is "
                             "restored as far as possible",
                             quote(record.staging)));
  }
  return Ok{};
}

// Removes the one in the base's root last, because it lists the others.
Status Staging::remove(HostTree& base, const ApplyRecord& record) {
  std::vector<std::string> tops = WARREN_TRY(read_tops(base, record.staging));
  for (const std::string& top : tops) WARREN_TRY(remove_marked(base, join_path(top, record.staging), record.staging));
  return remove_marked(base, "/" + record.staging, record.staging);
}

}  // namespace warren
