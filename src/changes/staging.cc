#include "changes/staging.h"

#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/host_files.h"

namespace warren {
namespace {

// A file in the staging directory of the base's root: the other tops, each followed by NUL. It is on disk before
// anything is in them, so that they can be found after a crash.
constexpr std::string_view kTops = "tops";
constexpr std::size_t kTopsBytesMax = std::size_t{1} << 20;

// The prefix of this agent's staging directories: other agents may have the same base.
Result<std::string> tag_of(Store& store) {
  std::optional<struct stat> info = WARREN_TRY(find_host_file(store.path()));
  if (!info) return Error(Code::kUnsupported, "cannot apply changes of an agent without a file");
  return fmt::format("{}{:x}-{:x}-", kStagingPrefix, info->st_dev, info->st_ino);
}

Result<std::vector<std::string>> list_leftovers(HostTree& base, Store& store) {
  std::string tag = WARREN_TRY(tag_of(store));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(base.top()));
  std::vector<std::string> names;
  for (HostEntry& entry : entries) {
    if (entry.name.starts_with(tag)) names.push_back(std::move(entry.name));
  }
  return names;
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

Result<Staging> Staging::make(HostTree& base, Store& store) {
  std::string tag = WARREN_TRY(tag_of(store));
  for (int tries = 0;; ++tries) {
    std::string name = fmt::format(
        "{}{:x}", tag, static_cast<std::uint64_t>(store.clock().now_us()) + static_cast<std::uint64_t>(tries));
    Status made = base.make_dir("/" + name, 0700);
    if (made.ok()) return make_named(base, std::move(name));
    if (made.error().code() != Code::kExists || tries == 100)
      return std::move(made).take_error().within("stage the changes in the base");
  }
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
  return base_->make_dir(join_path(top, name_), 0700).within("stage the changes in the base");
}

// Removes the one in the base's root last, because it lists the others.
Status Staging::remove(HostTree& base, const std::string& name, const std::vector<std::string>& tops) {
  for (const std::string& top : tops) WARREN_TRY(base.remove_tree(join_path(top, name)));
  return base.remove_tree("/" + name);
}

Result<bool> Staging::has_leftovers(HostTree& base, Store& store) {
  std::vector<std::string> names = WARREN_TRY(list_leftovers(base, store));
  return !names.empty();
}

Status Staging::remove_leftovers(HostTree& base, Store& store) {
  std::vector<std::string> names = WARREN_TRY(list_leftovers(base, store));
  for (const std::string& name : names) {
    std::vector<std::string> tops = WARREN_TRY(read_tops(base, name));
    WARREN_TRY(remove(base, name, tops));
  }
  return Ok{};
}

}  // namespace warren
