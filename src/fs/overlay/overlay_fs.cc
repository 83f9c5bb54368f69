#include "fs/overlay/overlay_fs.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/overlay/overlay_change.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::size_t kPlacesKept = 262'144;

Error stale(Inode node) { return {Code::kStale, fmt::format("node {} is gone", node.value)}; }

class OverlayUnit final : public Unit {
 public:
  OverlayUnit(std::unique_lock<std::recursive_mutex> lock, std::unique_ptr<Unit> unit)
      : lock_(std::move(lock)), unit_(std::move(unit)) {}
  Status commit() override { return unit_->commit(); }

 private:
  std::unique_lock<std::recursive_mutex> lock_;  // declared before the unit, so released after it
  std::unique_ptr<Unit> unit_;
};

}  // namespace

// Translates the layers' numbers to ours for the listener.
class OverlayFs::Listener {
 public:
  Listener(OverlayFs& overlay, ChangeListener& to)
      : from_upper_(overlay, to, Layer::kUpper), from_base_(overlay, to, Layer::kBase) {}
  ChangeListener& upper() { return from_upper_; }
  ChangeListener& base() { return from_base_; }

 private:
  enum class Layer { kUpper, kBase };

  class Side final : public ChangeListener {
   public:
    Side(OverlayFs& overlay, ChangeListener& to, Layer layer) : overlay_(overlay), to_(to), layer_(layer) {}
    void entry_changed(Inode parent, std::string_view name) override {
      bool has_moved = layer_ == Layer::kBase ? overlay_.follow_moves(parent, name) : overlay_.follow_after_apply();
      std::optional<Inode> copy = layer_ == Layer::kBase ? overlay_.follow_entry(parent, name) : std::nullopt;
      if (layer_ == Layer::kBase) overlay_.keep_held();
      to_.entry_changed(number_of(parent), name);
      if (has_moved) to_.everything_changed();
      if (copy) to_.node_changed(*copy);
      report_shown_again();
    }
    void node_changed(Inode node) override {
      if (layer_ == Layer::kBase) overlay_.follow_node(node);
      bool has_followed = layer_ == Layer::kUpper && overlay_.follow_after_apply();
      to_.node_changed(number_of(node));
      if (has_followed) to_.everything_changed();
      report_shown_again();
    }
    void everything_changed() override {
      if (layer_ == Layer::kBase) {
        overlay_.follow_moves();
        overlay_.follow_all();
        overlay_.keep_held();
      } else {
        overlay_.follow_after_apply();
      }
      to_.everything_changed();
      report_shown_again();
    }

   private:
    void report_shown_again() {
      std::vector<Inode> others = overlay_.show_base_again();
      for (Inode node : others) to_.node_changed(node);
    }
    Inode number_of(Inode node) {
      if (layer_ == Layer::kBase) return overlay_.number_of_base(node);
      Result<Scope> scope = overlay_.read_scope();  // the changed node may be a copy we do not know yet
      return scope.ok() ? overlay_.number_of(node) : node;
    }
    OverlayFs& overlay_;
    ChangeListener& to_;
    Layer layer_;
  };

  Side from_upper_;
  Side from_base_;
};

Result<std::unique_ptr<OverlayFs>> OverlayFs::open(UpperLayer& upper, FileSystem& base,
                                                   std::uint64_t copy_whole_bytes) {
  std::unique_ptr<OverlayFs> overlay(new OverlayFs(upper, base, copy_whole_bytes));
  WARREN_TRY(base.get_attributes(kRootInode));
  WARREN_TRY(overlay->read_scope());
  return overlay;
}

OverlayFs::OverlayFs(UpperLayer& upper, FileSystem& base, std::uint64_t copy_whole_bytes)
    : upper_(upper), base_(base), copy_whole_bytes_(copy_whole_bytes) {}
OverlayFs::~OverlayFs() = default;

Result<std::unique_ptr<Unit>> OverlayFs::begin(UnitAccess access) {
  std::unique_lock lock(mutex_);
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(access, Batched::kNo, lock));
  WARREN_TRY(refresh());
  return std::unique_ptr<Unit>(std::make_unique<OverlayUnit>(std::move(lock), std::move(unit)));
}

Result<OverlayFs::Scope> OverlayFs::read_scope() {
  Scope scope{std::unique_lock(mutex_), nullptr};
  scope.unit = WARREN_TRY(upper_.begin(UnitAccess::kRead));
  WARREN_TRY(refresh());
  return scope;
}

Status OverlayFs::change(const std::function<Status()>& body) {
  auto whole = [&]() -> Result<bool> {
    WARREN_TRY(body());
    return true;
  };
  WARREN_TRY(change<bool>(whole));
  return Ok{};
}

Status OverlayFs::refresh() {
  if (is_loaded_ && upper_.epoch() == epoch_) return Ok{};
  return reload();
}

Status OverlayFs::reload() {
  epoch_ = upper_.epoch();
  std::uint64_t losses = upper_.losses();
  bool has_lost = losses_ != losses;
  is_loaded_ = false;
  is_applying_ = WARREN_TRY(upper_.is_applying());
  if (!is_applying_) {
    removed_meanwhile_.clear();
    removed_meanwhile_count_ = 0;
  }
  std::vector<Origin> origins = WARREN_TRY(upper_.list_origins());
  WARREN_TRY(take_moves(origins));
  std::vector<LostLink> lost = WARREN_TRY(upper_.list_lost_links());
  go_on_with_frozen(origins);
  // Copies that are in use are retained in the upper layer too.
  std::unordered_map<Inode, Copy> in_use;
  for (const auto& [number, copy] : copies_) {
    if (retained_.contains(number)) in_use[number] = copy;
  }
  // Facts derived from names are kept, and so are copies without a name that are in use, unless our own changes were
  // lost.
  std::erase_if(copies_,
                [&](const auto& one) { return one.second.is_noted && (has_lost || !nameless_.contains(one.first)); });
  std::unordered_map<Inode, Inode> known = std::move(numbers_);
  numbers_.clear();
  shown_as_.clear();
  opaque_.clear();
  applied_.clear();
  lost_names_.clear();
  root_is_copied_ = false;
  for (Origin& origin : origins) {
    if (origin.upper == kRootInode) root_is_copied_ = true;
    else if (origin.base_path.empty()) {
      opaque_.insert(origin.upper);
      if (origin.seen) applied_.emplace(origin.upper, *origin.seen);
      if (origin.seen) base_.reserve_number(origin.seen->inode, origin.seen->generation);
    } else if (origin.seen) {
      auto before = known.find(origin.upper);
      if (!origin.is_orphan) passed_over_.erase(origin.upper);
      if (passed_over_.contains(origin.upper)) continue;
      Inode number = show_as(before != known.end() ? before->second : origin.upper, origin.seen->inode);
      if (origin.is_orphan && !retained_.contains(number)) continue;
      base_.reserve_number(origin.seen->inode, origin.seen->generation);
      copies_[number] = {.upper = origin.upper,
                         .base_path = std::move(origin.base_path),
                         .seen = origin.seen,
                         .hidden_names = origin.hidden_names,
                         .ranges = {},
                         .is_noted = true};
    }
  }
  for (const auto& [number, copy] : copies_) {
    numbers_[copy.upper] = number;
    if (number == copy.upper) continue;  // retained under the same number
    auto used = in_use.find(number);
    if (!retained_.contains(number) || (used != in_use.end() && used->second.upper == copy.upper)) continue;
    upper().retain(copy.upper).ignore("it was removed again");
  }
  for (const LostLink& one : lost) {
    base_.reserve_number(one.base, one.generation);
    lose_name(one.base, one.base_path, one.at);
  }
  for (auto& [number, dir] : dirs_) {
    if (dir.base && *dir.base != number) shown_as_[*dir.base] = number;
    dir.whiteouts.reset();
    dir.subdirectories.reset();
  }
  std::erase_if(removed_, [&](const auto& one) { return !retained_.contains(one.first); });
  if (has_lost) WARREN_TRY(check_memory());
  losses_ = losses;
  is_loaded_ = true;
  return Ok{};
}

// After our own changes were lost: drops what is remembered of them, and finds names again that were removed in them.
// A directory that is no longer in its place has to be looked up again.
Status OverlayFs::check_memory() {
  dead_dirs_.clear();
  std::erase_if(
      copies_, [&](const auto& one) { return !one.second.is_noted && !upper().get_attributes(one.second.upper).ok(); });
  auto has_no_name = [&](Inode node) {
    Result<Attributes> found = upper().get_attributes(node);
    return found.ok() && found->nlink == 0;
  };
  std::erase_if(nameless_, [&](const auto& one) {
    Copy* copy = find_copy(one.first);
    return !copy || !has_no_name(copy->upper);
  });
  std::unordered_map<Inode, bool> known;
  std::vector<Inode> all;
  for (const auto& [number, dir] : dirs_) all.push_back(number);
  for (Inode number : all) WARREN_TRY(is_still_there(number, known));
  for (Inode number : all) {
    auto dir = dirs_.find(number);
    if (known.at(number) || removed_.contains(number)) continue;
    if (dir->second.base) base_.forget(*dir->second.base, 1);
    dirs_.erase(dir);
  }
  std::vector<std::pair<Inode, Removed>> removed(removed_.begin(), removed_.end());
  for (const auto& [number, how] : removed) {
    // If it has its name again, finding it there ends the removal of a node of the base.
    bool is_in_place = how.last && dirs_.contains(how.last->parent);
    std::optional<Attributes> found;
    if (is_in_place) found = WARREN_TRY(find_in(how.last->parent, how.last->name));
    if (found && found->inode == number) removed_.erase(number);
  }
  return Ok{};
}

// Whether a directory is where it was when it was last looked up or moved, and so are those above it.
Result<bool> OverlayFs::is_still_there(Inode number, std::unordered_map<Inode, bool>& known) {
  if (number == kRootInode) return known[number] = true;
  if (auto found = known.find(number); found != known.end()) return found->second;
  auto dir = dirs_.find(number);
  if (dir == dirs_.end() || removed_.contains(number)) return known[number] = false;
  known[number] = false;  // until the ones above it are checked; a circle ends here
  Inode parent = dir->second.parent;
  std::string name = dir->second.name;
  if (!WARREN_TRY(is_still_there(parent, known))) return false;
  std::optional<Attributes> found = WARREN_TRY(find_in(parent, name));
  return known[number] = found && found->inode == number;
}

// The number of a node that is in both layers. What is in use keeps the number that it had before an apply wrote it to
// the base: a program may have it open, have locked or mapped it, or be working in it.
Inode OverlayFs::show_as(Inode number, Inode base) {
  if (number == base || !retained_.contains(number)) return base;
  shown_as_[base] = number;
  return number;
}

// A program goes on with a copy in place of the base's node that it has open, or works in.
void OverlayFs::go_on_with_frozen(const std::vector<Origin>& origins) {
  std::vector<const Origin*> copies;
  for (const Origin& origin : origins) {
    bool is_new = origin.seen && is_frozen_number(origin.seen->inode) && !numbers_.contains(origin.upper);
    if (is_new) copies.push_back(&origin);
  }
  if (copies.empty()) return;
  std::unordered_map<std::string, Inode> used;
  for (const auto& [number, count] : retained_) {
    if (!is_base_number(number) || copies_.contains(number) || removed_.contains(number)) continue;
    auto dir = dirs_.find(number);
    auto places = places_.find(number);
    if (dir != dirs_.end()) used.emplace(base_path_of(number), number);
    else if (places != places_.end() && places->second.size() == 1)
      used.emplace(base_path_of(places->second[0].parent, places->second[0].name), number);
  }
  for (const Origin* copy : copies) {
    auto number = used.find(copy->base_path);
    if (number != used.end()) numbers_.emplace(copy->upper, number->second);
  }
}

Inode OverlayFs::number_of_base(Inode base) {
  std::lock_guard guard(mutex_);
  auto found = shown_as_.find(base);
  return found == shown_as_.end() ? base : found->second;
}

void OverlayFs::forget_host(Attributes& found) {
  found.host_device = 0;
  found.host_inode = 0;
  found.generation = 0;
}

Inode OverlayFs::number_of(Inode upper) const {
  auto found = numbers_.find(upper);
  return found == numbers_.end() ? upper : found->second;
}

OverlayFs::Copy* OverlayFs::find_copy(Inode number) {
  auto found = copies_.find(number);
  return found == copies_.end() ? nullptr : &found->second;
}

bool OverlayFs::is_gone(Inode number) const { return removed_.contains(number) && !retained_.contains(number); }

bool OverlayFs::is_gone_from_upper(Inode upper_node) {
  Result<Attributes> found = upper().get_attributes(upper_node);
  return !found.ok() && found.error().code() == Code::kStale;
}

void OverlayFs::lose_name(Inode number, const std::string& base_path, Timestamp at) {
  lost_names_[number].emplace(base_path, at);
}

void OverlayFs::without_lost_names(Attributes& found) const {
  auto lost = lost_names_.find(found.inode);
  if (lost == lost_names_.end()) return;
  found.nlink -= std::min(found.nlink, static_cast<std::uint32_t>(lost->second.size()));
  auto is_earlier = [](const auto& a, const auto& b) {
    return std::pair(a.second.seconds, a.second.nanoseconds) < std::pair(b.second.seconds, b.second.nanoseconds);
  };
  found.ctime = std::max_element(lost->second.begin(), lost->second.end(), is_earlier)->second;
}

Result<OverlayFs::View> OverlayFs::view(Inode node) {
  if (node == kRootInode) {
    if (root_is_copied_) return View{node, kRootInode, kRootInode};
    return View{node, std::nullopt, kRootInode};
  }
  if (!is_base_number(node)) {
    auto copy = numbers_.find(node);
    if (copy == numbers_.end() || copy->second == node) return View{node, node, std::nullopt};
    if (!retained_.contains(node)) return stale(node);
    return view(copy->second);
  }
  if (Copy* copy = find_copy(node)) return View{node, copy->upper, node};
  if (is_gone(node)) return stale(node);
  return View{node, std::nullopt, node};
}

Result<Attributes> OverlayFs::layer_attributes(const View& view) {
  return view.upper ? upper().get_attributes(*view.upper) : base_.get_attributes(*view.base);
}

Result<Attributes> OverlayFs::attributes_of(const View& view) {
  Attributes found = WARREN_TRY(layer_attributes(view));
  forget_host(found);
  found.inode = view.number;
  if (found.is_directory()) {
    found.nlink = WARREN_TRY(count_links(view.number, found));
    return found;
  }
  if (view.upper) {
    if (Copy* copy = find_copy(view.number)) found.nlink += copy->hidden_names;
    return found;
  }
  without_lost_names(found);
  if (auto gone = removed_.find(view.number); gone != removed_.end()) {
    found.nlink = 0;
    found.ctime = gone->second.at;
  }
  return found;
}

Result<Attributes> OverlayFs::get_attributes(Inode node) {
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  return attributes_of(where);
}

Result<std::string> OverlayFs::read_link(Inode node) {
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  return where.upper ? upper().read_link(*where.upper) : base_.read_link(*where.base);
}

Status OverlayFs::retain(Inode node) {
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  if (!retained_.contains(node)) {
    Status below = where.base ? base_.retain(*where.base) : Status(Ok{});
    if (where.upper) {
      below.ignore("a copy outlives its original");
      WARREN_TRY(upper().retain(*where.upper));
    } else {
      WARREN_TRY(std::move(below));
    }
  }
  ++retained_[node];
  return Ok{};
}

void OverlayFs::forget(Inode node, std::uint64_t count) {
  std::unique_lock lock(mutex_);
  auto kept = retained_.find(node);
  if (kept == retained_.end()) return;
  if (kept->second > count) {
    kept->second -= count;
    return;
  }
  retained_.erase(kept);
  dead_dirs_.erase(node);
  Copy* copy = find_copy(node);
  std::optional<Inode> above;
  bool is_copy = copy != nullptr;
  if (is_copy) above = copy->upper;
  else if (!is_base_number(node)) above = node;
  if (is_base_number(node)) base_.forget(node, 1);
  if (nameless_.erase(node) > 0 && copy) forget_copy(node);
  if (removed_.contains(node)) dirs_.erase(node);
  if (!is_base_number(node)) removed_.erase(node);
  // A caller that has the number may still use it, as long as there are not too many.
  if (places_.size() > kPlacesKept) places_.erase(node);
  lock.unlock();  // what follows may wait for another process's transaction
  if (above) upper().forget(*above, 1);
  if (!is_copy || !is_gone_from_upper(*above)) return;  // it has a name, or another process has it open
  change([&]() -> Status {
    Copy* again = find_copy(node);  // the rows may have been read again meanwhile
    if (again && again->upper == *above) forget_copy(node);
    return upper_.remove_origin(*above);
  }).ignore("rows of removed nodes are cleaned up when the agent is next opened");
}

// A copy whose last name and last user are gone.
void OverlayFs::forget_copy(Inode number) {
  Inode top = copies_.at(number).upper;
  numbers_.erase(top);
  young_.erase(top);
  copies_.erase(number);
  removed_.emplace(number, Removed{});
}

Result<Attributes> OverlayFs::open(Inode node) {
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  WARREN_TRY(check_content(where));
  WARREN_TRY(retain(node));
  return attributes_of(where);
}

Status OverlayFs::check_content(const View& where) {
  Attributes found = WARREN_TRY(layer_attributes(where));
  if (found.is_directory()) return Error(Code::kIsDirectory, "it is a directory");
  if (!found.is_file()) return Error(Code::kInvalid, "it is not a regular file");
  return Ok{};
}

Result<FileSystemStats> OverlayFs::stats(Inode) { return upper().stats(kRootInode); }
bool OverlayFs::run_idle_work() { return upper().run_idle_work(); }

Status OverlayFs::listen(ChangeListener* listener) {
  if (!listener) {
    // Both, whatever they return: afterwards nobody may use the listener.
    Status above = upper().listen(nullptr);
    Status below = base_.listen(nullptr);
    listener_.reset();
    keep_held();  // no event will come of what the host has changed last, and soon nothing is held
    WARREN_TRY(std::move(above));
    return below;
  }
  listener_ = std::make_unique<Listener>(*this, *listener);
  Status listening = base_.listen(&listener_->base());
  if (listening.ok()) listening = upper().listen(&listener_->upper());
  if (!listening.ok()) listen(nullptr).ignore("the first error is the one to report");
  return listening;
}

std::string OverlayFs::path_of(Inode dir) const {
  if (dir == kRootInode) return "/";
  std::vector<std::string_view> names;
  while (dir != kRootInode && names.size() < static_cast<std::size_t>(limits::kTreeDepth)) {
    auto found = dirs_.find(dir);
    if (found == dirs_.end()) break;
    names.push_back(found->second.name);
    dir = found->second.parent;
  }
  std::string path;
  for (auto name = names.rbegin(); name != names.rend(); ++name) path.append("/").append(*name);
  return path;
}

std::string OverlayFs::path_of(Inode dir, std::string_view name) const {
  std::string path = path_of(dir);
  if (path != "/") path += '/';
  return path.append(name);
}

// The path in the base of the directory that shows through.
std::string OverlayFs::base_path_of(Inode dir) const {
  std::vector<std::string_view> names;
  std::string path;
  while (dir != kRootInode && names.size() <= dirs_.size()) {  // a directory of a stranger's file may be inside itself
    if (auto copy = copies_.find(dir); copy != copies_.end()) {
      path = copy->second.base_path == "/" ? "" : copy->second.base_path;
      break;
    }
    auto known = dirs_.find(dir);
    if (known == dirs_.end()) break;
    names.push_back(known->second.name);
    dir = known->second.parent;
  }
  for (auto name = names.rbegin(); name != names.rend(); ++name) path.append("/").append(*name);
  return path.empty() ? "/" : path;
}

std::string OverlayFs::base_path_of(Inode dir, std::string_view name) const {
  std::string path = base_path_of(dir);
  if (path != "/") path += '/';
  return path.append(name);
}

bool OverlayFs::is_within(Inode dir, Inode ancestor) const {
  for (int depth = 0; depth < limits::kTreeDepth; ++depth) {
    if (dir == ancestor) return true;
    auto found = dirs_.find(dir);
    if (dir == kRootInode || found == dirs_.end()) return false;
    dir = found->second.parent;
  }
  return false;
}

}  // namespace warren
