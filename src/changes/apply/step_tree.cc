#include "changes/apply/step_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"

namespace warren {
namespace {

// With more steps than this, one sync of the whole filesystem is cheaper.
constexpr std::size_t kSyncedOneByOne = 64;

bool is_in_place(const Step& step) { return step.kind == StepKind::kSetMetadata || step.kind == StepKind::kOverwrite; }

}  // namespace

// A file that is overwritten in place has its mode and times from the step, not from the slot.
Result<std::uint64_t> fingerprint_step(HostTree& base, StepKind kind, const std::string& at,
                                       const std::unordered_set<std::string>& skipped) {
  if (kind != StepKind::kOverwrite) return base.fingerprint_tree(at, skipped);
  Fd file = WARREN_TRY(base.open_despite_mode(at, O_RDONLY));
  return digest_host_content(file.get());
}

Status sync_all(HostTree& base, const Intent& intent) {
  for (const std::string& top : tops_of(intent)) WARREN_TRY(base.sync_all(top));
  return Ok{};
}

std::vector<std::string> tops_of(const Intent& intent) {
  std::vector<std::string> tops{"/"};
  tops.insert(tops.end(), intent.tops.begin(), intent.tops.end());
  return tops;
}

std::string slot_path(const Intent& intent, std::uint64_t slot) {
  std::uint64_t top = slot / kSlotsPerTop;
  std::string_view dir = top == 0 ? std::string_view("/") : intent.tops.at(top - 1);
  return fmt::format("{}/{}", join_path(dir, intent.staging), slot % kSlotsPerTop);
}

bool is_node(const HostNode& node, const struct stat& info) {
  return node.inode == info.st_ino && node.device == info.st_dev;
}

StepTree::StepTree(HostTree& base, const Intent& intent) : base_(base), intent_(intent) {
  for (const Step& step : intent.steps) {
    if (step.kind == StepKind::kPutIn) {
      put_in_.emplace(step.slot, &step);
      put_in_at_.emplace(step.path, &step);
    }
    if (step.kind == StepKind::kTakeOut) taken_.emplace(step.slot, step.path);
    if (is_in_place(step)) in_place_[step.old_node.inode].push_back(&step);
  }
  for (const auto& [number, step] : put_in_) {
    if (taken_.contains(number)) renamed_.emplace(step->path, number);
  }
}

const Step* StepTree::find_put_in(std::uint64_t slot) const {
  auto found = put_in_.find(slot);
  return found == put_in_.end() ? nullptr : found->second;
}

const Step* StepTree::find_put_in_above(std::string_view path) const {
  while (path != "/") {
    path = split_parent(path).parent;
    auto found = put_in_at_.find(path);
    if (found != put_in_at_.end()) return found->second;
  }
  return nullptr;
}

const std::string* StepTree::find_taken(std::uint64_t slot) const {
  auto found = taken_.find(slot);
  return found == taken_.end() ? nullptr : &found->second;
}

std::vector<std::string> StepTree::places_of(const std::string& path) const {
  std::vector<std::string> places{path};
  for (std::string_view at = path; at != "/"; at = split_parent(at).parent) {
    auto renamed = renamed_.find(std::string(at));
    if (renamed == renamed_.end()) continue;
    std::string rest = path.substr(at.size());
    places.push_back(slot(renamed->second) + rest);
    places.push_back(taken_.at(renamed->second) + rest);
    break;
  }
  return places;
}

bool StepTree::is_as_planned(const Step& step, const struct stat& info) const {
  bool is_ours = is_node(step.old_node, info) && in_place_.contains(step.old_node.inode);
  return is_ours || step.old_node.is_same(info);
}

bool StepTree::is_known(const Step& step, const struct stat& info) const {
  if (S_ISDIR(info.st_mode) || step.old_node.is_same(info)) return true;
  HostNode now = HostNode::of(info);
  auto steps = in_place_.find(step.old_node.inode);
  if (steps == in_place_.end()) return false;
  for (const Step* one : steps->second) {
    bool is_its_size =
        now.size == step.old_node.size || (one->kind == StepKind::kOverwrite && now.size == one->new_node.size);
    if (is_its_size && (now.mtime == one->after.mtime || now.mtime == one->before.mtime)) return true;
  }
  return false;
}

Result<InPlaceFiles> StepTree::open_in_place(const Step& step, const std::string& at) {
  InPlaceFiles files;
  std::optional<struct stat> there = WARREN_TRY(base_.find(at));
  if (!there || !is_node(step.old_node, *there)) return files;
  files.fresh = WARREN_TRY(base_.open_despite_mode(slot(step.slot), O_RDONLY));
  files.old = WARREN_TRY(base_.open_file(slot(step.backup), O_RDONLY));
  Fd target = WARREN_TRY(base_.open_despite_mode(at, O_RDWR));
  if (::fstat(target.get(), &files.info) != 0) return system_error(errno, "stat a file");
  if (is_node(step.old_node, files.info)) files.target = std::move(target);
  return files;
}

Result<bool> StepTree::is_our_content(const InPlaceFiles& files) {
  if (WARREN_TRY(is_copy_of(files.target.get(), files.fresh.get()))) return true;
  return is_copy_of(files.target.get(), files.old.get());
}

Status StepTree::write_in_place(const std::string& at, const InPlaceFiles& files, int source,
                                const HostMetadata& metadata) {
  WARREN_TRY(copy_host_content(source, files.target.get()).within(quote(at)));
  WARREN_TRY(base_.set_metadata(at, metadata));
  if (::fsync(files.target.get()) != 0) return system_error(errno, fmt::format("sync {}", quote(at)));
  return Ok{};
}

Status StepTree::swap_back(const std::string& from, const std::string& path) {
  Status done = base_.exchange(from, path);
  if (done.ok() || done.error().code() != Code::kNotFound) return done;
  return base_.rename(from, path, HostReplace::kNo);
}

void StepTree::touch(std::string_view path) { touched_.emplace(split_parent(path).parent); }

Status StepTree::sync() {
  if (intent_.steps.size() > kSyncedOneByOne) return sync_all(base_, intent_);
  for (const std::string& path : changed_) {
    bool is_synced = WARREN_TRY(sync_node(path));
    if (!is_synced) return sync_all(base_, intent_);
  }
  for (const std::string& dir : touched_) {
    Status done = base_.sync_dir(dir);
    Code code = done.ok() ? Code::kNotFound : done.error().code();
    if (code == Code::kDenied) return sync_all(base_, intent_);  // its mode does not let us open it
    // A directory that was moved to a slot is synced with the staging directory.
    bool is_gone = code == Code::kNotFound || code == Code::kNotDirectory || code == Code::kLoop;
    if (!is_gone) return done;
  }
  for (const std::string& top : tops_of(intent_)) WARREN_TRY(base_.sync_dir(join_path(top, intent_.staging)));
  return Ok{};
}

// Syncing its directory does not sync a node's own mode, owner and attributes. Returns false for a node that cannot be
// opened for that: its mode forbids it, or it is a link or a device.
Result<bool> StepTree::sync_node(const std::string& path) {
  std::optional<struct stat> info = WARREN_TRY(base_.find(path));
  if (!info) return true;
  if (S_ISDIR(info->st_mode)) {
    Status done = base_.sync_dir(path);
    if (!done.ok() && done.error().code() == Code::kDenied) return false;
    WARREN_TRY(std::move(done));
    return true;
  }
  if (!S_ISREG(info->st_mode)) return false;
  Result<Fd> node = base_.open_file(path, O_RDONLY);
  if (!node.ok()) return false;
  if (::fsync(node->get()) != 0) return system_error(errno, fmt::format("sync {}", quote(path)));
  return true;
}

}  // namespace warren
