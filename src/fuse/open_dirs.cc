#include "fuse/open_dirs.h"

#include <utility>

namespace warren {

std::uint64_t OpenDirs::add(std::shared_ptr<OpenDir> opened) {
  std::lock_guard guard(mutex_);
  open_.emplace(next_, std::move(opened));
  return next_++;
}

std::shared_ptr<OpenDir> OpenDirs::find(std::uint64_t handle) {
  std::lock_guard guard(mutex_);
  auto found = open_.find(handle);
  return found != open_.end() ? found->second : nullptr;
}

std::shared_ptr<OpenDir> OpenDirs::take(std::uint64_t handle) {
  std::lock_guard guard(mutex_);
  auto taken = open_.extract(handle);
  return taken ? std::move(taken.mapped()) : nullptr;
}

void OpenDirs::changed_here(Inode dir) {
  std::lock_guard guard(mutex_);
  for (auto& [handle, opened] : open_) {
    if (opened->dir == dir) opened->is_old = true;
  }
}

void OpenDirs::changed_elsewhere(Inode dir) {
  std::lock_guard guard(mutex_);
  for (auto& [handle, opened] : open_) {
    if (opened->dir == dir) opened->is_old = opened->has_changed_elsewhere = true;
  }
}

void OpenDirs::all_changed_elsewhere() {
  std::lock_guard guard(mutex_);
  for (auto& [handle, opened] : open_) opened->is_old = opened->has_changed_elsewhere = true;
}

}  // namespace warren
