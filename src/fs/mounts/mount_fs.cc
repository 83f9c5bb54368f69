#include "fs/mounts/mount_fs.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

constexpr int kSlotShift = 56;
constexpr std::uint64_t kSlotMask = std::uint64_t{63} << kSlotShift;
constexpr std::uint64_t kStandInSlot = 63;

std::uint64_t slot_of(Inode outer) { return (outer.value & kSlotMask) >> kSlotShift; }

Error refuse_stand_in() {
  return Error(Code::kReadOnly, "this directory only leads to a mount; it does not exist in the filesystem below");
}

Error refuse_crossing() { return Error(Code::kCrossDevice, "the two are in different mounts"); }

}  // namespace

bool are_in_different_mounts(Inode a, Inode b) { return slot_of(a) != slot_of(b); }

bool is_mount_point(Inode node) {
  std::uint64_t slot = slot_of(node);
  std::uint64_t inner = node.value & ~kSlotMask;
  bool is_stand_in = slot == kStandInSlot && inner < (std::uint64_t{1} << kSlotShift);
  return is_stand_in || (slot != 0 && inner == kRootInode.value);
}

// Notices.

// Translates the notices of one mount.
class MountFs::Listener final : public ChangeListener {
 public:
  Listener(MountFs& tree, std::size_t mount, ChangeListener& outer) : tree_(tree), mount_(mount), outer_(outer) {}

  void entry_changed(Inode parent, std::string_view name) override {
    Result<Inode> dir = tree_.outward(mount_, parent);
    if (dir.ok()) outer_.entry_changed(*dir, name);
    else outer_.everything_changed();
  }
  void node_changed(Inode node) override {
    Result<Inode> changed = tree_.outward(mount_, node);
    if (changed.ok()) outer_.node_changed(*changed);
    else outer_.everything_changed();
  }
  void everything_changed() override { outer_.everything_changed(); }

 private:
  MountFs& tree_;
  std::size_t mount_;
  ChangeListener& outer_;
};

Status MountFs::listen(ChangeListener* listener) {
  Status all = Ok{};
  for (std::size_t i = 0; i < mounts_.size(); ++i) {
    Status stopped = mounts_[i].fs->listen(nullptr);
    mounts_[i].listener.reset();
    if (!stopped.ok() && all.ok()) all = std::move(stopped);
  }
  if (listener == nullptr) return all;
  for (std::size_t i = 0; i < mounts_.size(); ++i) {
    mounts_[i].listener = std::make_unique<Listener>(*this, i, *listener);
    Status listening = mounts_[i].fs->listen(mounts_[i].listener.get());
    if (listening.ok()) continue;
    listen(nullptr).ignore("the reason for not listening is returned");
    return listening;
  }
  return Ok{};
}

// Construction.

Result<std::unique_ptr<MountFs>> MountFs::make(FileSystem& root, const std::vector<Mount>& mounts, Clock& clock) {
  std::unique_ptr<MountFs> made(new MountFs(clock));
  made->mounts_.push_back({.fs = &root, .slot = 0, .place = 0, .listener = nullptr});
  made->by_slot_[0] = 0;
  made->places_.push_back(
      {.name = {}, .parent = 0, .mount = 0, .holder = 0, .children = {}, .shown = {}, .shown_at = {}});
  for (const Mount& mount : mounts) WARREN_TRY(made->add(mount).within("mount " + quote(mount.path)));
  made->find_holders();
  for (std::size_t place = 0; place < made->places_.size(); ++place) WARREN_TRY(made->show(place));
  return made;
}

MountFs::MountFs(Clock& clock) : created_(clock.now()) {}

MountFs::~MountFs() = default;

Status MountFs::add(const Mount& mount) {
  auto names = WARREN_TRY(split_path(mount.path));
  if (names.empty()) return Error(Code::kInvalid, "the root cannot be mounted over");
  if (std::find(names.begin(), names.end(), "..") != names.end()) {
    return Error(Code::kInvalid, "a mount point cannot contain '..'");
  }
  if (mount.slot < 1 || mount.slot > kSlotMax) {
    return Error(Code::kLimit, fmt::format("a tree has at most {} mounts", kSlotMax));
  }
  if (by_slot_[static_cast<std::size_t>(mount.slot)]) {
    return Error(Code::kInvalid, fmt::format("slot {} is taken", mount.slot));
  }
  std::size_t place = 0;
  for (std::string_view name : names) place = make_place(place, name);
  if (places_[place].mount) return Error(Code::kInvalid, "something is mounted there already");
  places_[place].mount = mounts_.size();
  by_slot_[static_cast<std::size_t>(mount.slot)] = mounts_.size();
  mounts_.push_back({.fs = &mount.fs, .slot = mount.slot, .place = place, .listener = nullptr});
  return Ok{};
}

std::size_t MountFs::make_place(std::size_t parent, std::string_view name) {
  for (std::size_t child : places_[parent].children) {
    if (places_[child].name == name) return child;
  }
  std::size_t made = places_.size();
  places_.push_back({.name = std::string(name),
                     .parent = parent,
                     .mount = {},
                     .holder = 0,
                     .children = {},
                     .shown = {},
                     .shown_at = {}});
  places_[parent].children.push_back(made);
  by_name_[std::string(name)].push_back(made);
  return made;
}

void MountFs::find_holders() {
  for (std::size_t i = 1; i < places_.size(); ++i) {  // parents come first
    const Place& parent = places_[places_[i].parent];
    places_[i].holder = parent.mount.value_or(parent.holder);
  }
}

// Numbers.

Result<MountFs::Node> MountFs::inward(Inode outer) const {
  std::uint64_t slot = slot_of(outer);
  std::uint64_t inner = outer.value & ~kSlotMask;
  if (slot == kStandInSlot) {
    if (inner >= places_.size()) return Error(Code::kStale, fmt::format("no node has the number {}", outer.value));
    return Node{.mount = 0, .inode = {}, .stand_in = static_cast<std::size_t>(inner)};
  }
  const std::optional<std::size_t>& mount = by_slot_[static_cast<std::size_t>(slot)];
  if (!mount) return Error(Code::kStale, fmt::format("no mount has the node {}", outer.value));
  return Node{.mount = *mount, .inode = Inode{inner}, .stand_in = {}};
}

Result<MountFs::Node> MountFs::to_change(Inode outer) const {
  Node node = WARREN_TRY(inward(outer));
  if (node.stand_in) return refuse_stand_in();
  return node;
}

Result<MountFs::Node> MountFs::with_content(Inode outer) const {
  Node node = WARREN_TRY(inward(outer));
  if (node.stand_in) return Error(Code::kIsDirectory, "it is a directory");
  return node;
}

Result<Inode> MountFs::outward(std::size_t mount, Inode inner) const {
  if ((inner.value & kSlotMask) != 0) {
    return Error(Code::kCorrupt, fmt::format("the inode number {} is too large for a tree of mounts", inner.value));
  }
  return Inode{inner.value | static_cast<std::uint64_t>(mounts_[mount].slot) << kSlotShift};
}

Result<Attributes> MountFs::outward(std::size_t mount, Result<Attributes> attributes) const {
  Attributes found = WARREN_TRY(std::move(attributes));
  found.inode = WARREN_TRY(outward(mount, found.inode));
  return found;
}

// Places.

// The place that `name` is in this directory, if it is one.
Result<std::optional<std::size_t>> MountFs::find_child(const Node& dir, std::string_view name) {
  auto found = by_name_.find(std::string(name));
  if (found == by_name_.end()) return std::optional<std::size_t>();
  for (std::size_t place : found->second) {
    if (WARREN_TRY(is_at(dir, places_[place].parent))) return std::optional(place);
  }
  return std::optional<std::size_t>();
}

// Whether the node is what is shown at the place now: another door may have renamed the directory.
Result<bool> MountFs::is_at(const Node& dir, std::size_t place) {
  if (dir.stand_in) return *dir.stand_in == place;
  if (places_[place].mount) return dir.mount == *places_[place].mount && dir.inode == kRootInode;
  if (dir.mount != places_[place].holder) return false;
  Attributes now = WARREN_TRY(show(place));
  return now.inode == WARREN_TRY(outward(dir.mount, dir.inode));
}

Result<std::optional<std::size_t>> MountFs::find_place(const Node& dir) {
  if (dir.stand_in) return dir.stand_in;
  if (dir.inode == kRootInode) return std::optional(mounts_[dir.mount].place);
  for (std::size_t place = 1; place < places_.size(); ++place) {
    if (places_[place].mount || places_[place].holder != dir.mount) continue;
    if (WARREN_TRY(is_at(dir, place))) return std::optional(place);
  }
  return std::optional<std::size_t>();
}

// A unit that holds another mount's lock must not wait for this one's, so it gets what was last seen.
Result<Attributes> MountFs::show(std::size_t place) {
  if (!can_touch(places_[place].mount.value_or(places_[place].holder))) return last_shown(place);
  FileSystem* holder = places_[place].mount ? nullptr : mounts_[places_[place].holder].fs;
  std::optional<std::uint64_t> mark = holder != nullptr ? holder->change_mark() : std::nullopt;
  if (mark) {
    std::lock_guard lock(places_mutex_);
    if (places_[place].shown_at == mark) return places_[place].shown;
  }
  Attributes shown = WARREN_TRY(look_at(place));
  if (!places_[place].children.empty()) shown.nlink = 1;  // unknown: the filesystem below does not count the mounts
  if (mark && holder->change_mark() != mark) mark.reset();
  std::lock_guard lock(places_mutex_);
  places_[place].shown = shown;
  places_[place].shown_at = mark;
  return shown;
}

Result<Attributes> MountFs::look_at(std::size_t index) {
  const Place& place = places_[index];
  if (place.mount) return outward(*place.mount, mounts_[*place.mount].fs->get_attributes(kRootInode));
  Attributes parent = WARREN_TRY(show(place.parent));
  Node dir = WARREN_TRY(inward(parent.inode));
  if (dir.stand_in) return stand_in(index);
  Result<Attributes> found = outward(dir.mount, fs(dir).lookup(dir.inode, place.name));
  if (found.ok() ? !found->is_directory() : found.error().code() == Code::kNotFound) return stand_in(index);
  return found;
}

Attributes MountFs::stand_in(std::size_t place) const {
  Attributes shown;
  shown.inode = Inode{kStandInSlot << kSlotShift | place};
  shown.mode = S_IFDIR | 0555;
  shown.nlink = 1;
  shown.atime = shown.mtime = shown.ctime = created_;
  return shown;
}

Attributes MountFs::last_shown(std::size_t place) const {
  std::lock_guard lock(places_mutex_);
  return places_[place].shown;
}

Status MountFs::check_not_place(const Node& dir, std::string_view name, Code code) {
  if (!WARREN_TRY(find_child(dir, name))) return Ok{};
  std::string hint = code == Code::kBusy ? "it stays; name what is in it instead, one by one" : std::string();
  return Error(code, fmt::format("{} is a mount point or leads to one", quote(name)), std::move(hint));
}

Status MountFs::check_same_mount(const Node& a, const Node& b) const {
  if (a.mount != b.mount) return refuse_crossing();
  return Ok{};
}

// Units. All that a thread has open in one tree, innermost last; they share the mount that they hold.

struct MountFs::ThreadUnits {
  const MountFs* tree;
  ThreadUnits* next;
  std::optional<std::size_t> home;
  bool has_changed = false;
  bool is_finished = false;  // the outermost was committed
  std::vector<MountUnit*> open;
};

namespace {
thread_local void* first_units = nullptr;
}  // namespace

class MountFs::MountUnit final : public Unit {
 public:
  MountUnit(MountFs& tree, UnitAccess access) : access_(access) {
    units_ = tree.this_threads_units();
    if (units_ == nullptr) {
      units_ = new ThreadUnits{.tree = &tree, .next = static_cast<ThreadUnits*>(first_units), .home = {}, .open = {}};
      first_units = units_;
    }
    units_->open.push_back(this);
  }

  ~MountUnit() override {
    inner_.reset();
    units_->open.pop_back();
    if (!units_->open.empty()) return;
    void** at = &first_units;
    while (*at != units_) at = reinterpret_cast<void**>(&static_cast<ThreadUnits*>(*at)->next);
    *at = units_->next;
    delete units_;
  }

  Status commit() override {
    if (units_->open.front() == this) units_->is_finished = true;
    return inner_ ? inner_->commit() : Status(Ok{});
  }

  Status hold(FileSystem& fs) {
    inner_ = WARREN_TRY(fs.begin(access_));
    return Ok{};
  }
  void let_go() { inner_.reset(); }

 private:
  UnitAccess access_;
  ThreadUnits* units_;
  std::unique_ptr<Unit> inner_;
};

MountFs::ThreadUnits* MountFs::this_threads_units() const {
  for (auto* units = static_cast<ThreadUnits*>(first_units); units != nullptr; units = units->next) {
    if (units->tree == this) return units;
  }
  return nullptr;
}

Result<std::unique_ptr<Unit>> MountFs::begin(UnitAccess access) {
  auto unit = std::make_unique<MountUnit>(*this, access);
  ThreadUnits* units = this_threads_units();
  if (units->home && !units->is_finished) WARREN_TRY(unit->hold(*mounts_[*units->home].fs));
  return std::unique_ptr<Unit>(std::move(unit));
}

Status MountFs::enter(std::size_t mount, UnitAccess access) {
  ThreadUnits* units = this_threads_units();
  if (units == nullptr || units->is_finished) return Ok{};
  if (units->home != mount) {
    if (units->has_changed) return refuse_crossing();
    for (auto unit = units->open.rbegin(); unit != units->open.rend(); ++unit) (*unit)->let_go();
    units->home.reset();
    for (MountUnit* unit : units->open) WARREN_TRY(unit->hold(*mounts_[mount].fs));
    units->home = mount;
  }
  if (access == UnitAccess::kWrite) units->has_changed = true;
  return Ok{};
}

bool MountFs::can_touch(std::size_t mount) const {
  ThreadUnits* units = this_threads_units();
  return units == nullptr || units->is_finished || !units->home || *units->home == mount;
}

// Names.

Result<Attributes> MountFs::lookup(Inode parent, std::string_view name) {
  Node dir = WARREN_TRY(inward(parent));
  if (std::optional<std::size_t> place = WARREN_TRY(find_child(dir, name))) return show(*place);
  if (dir.stand_in) {
    WARREN_TRY(check_name(name));
    return Error(Code::kNotFound, fmt::format("no entry {}", quote(name)));
  }
  WARREN_TRY(enter(dir.mount, UnitAccess::kRead));
  return outward(dir.mount, fs(dir).lookup(dir.inode, name));
}

template <class Call>
Result<Attributes> MountFs::make_in(Inode parent, std::string_view name, const Call& call) {
  Node dir = WARREN_TRY(inward(parent));
  WARREN_TRY(check_not_place(dir, name, Code::kExists));
  if (dir.stand_in) return refuse_stand_in();
  WARREN_TRY(enter(dir.mount, UnitAccess::kWrite));
  return outward(dir.mount, call(fs(dir), dir.inode));
}

Result<Attributes> MountFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  return make_in(parent, name, [&](FileSystem& fs, Inode dir) { return fs.make_node(dir, name, node); });
}

Result<Attributes> MountFs::make_dir(Inode parent, std::string_view name, const NewNode& node) {
  return make_in(parent, name, [&](FileSystem& fs, Inode dir) { return fs.make_dir(dir, name, node); });
}

Result<Attributes> MountFs::make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) {
  return make_in(parent, name, [&](FileSystem& fs, Inode dir) { return fs.make_symlink(dir, name, target, owner); });
}

Result<Attributes> MountFs::create(Inode parent, std::string_view name, const NewNode& node) {
  return make_in(parent, name, [&](FileSystem& fs, Inode dir) { return fs.create(dir, name, node); });
}

Result<Attributes> MountFs::link(Inode node, Inode new_parent, std::string_view new_name) {
  Node linked = WARREN_TRY(to_change(node));
  Node dir = WARREN_TRY(inward(new_parent));
  WARREN_TRY(check_not_place(dir, new_name, Code::kExists));
  if (dir.stand_in) return refuse_stand_in();
  WARREN_TRY(check_same_mount(linked, dir));
  WARREN_TRY(enter(dir.mount, UnitAccess::kWrite));
  return outward(dir.mount, fs(dir).link(linked.inode, dir.inode, new_name));
}

Status MountFs::unlink(Inode parent, std::string_view name) {
  Node dir = WARREN_TRY(inward(parent));
  WARREN_TRY(check_not_place(dir, name, Code::kIsDirectory));
  if (dir.stand_in) return Error(Code::kNotFound, fmt::format("no entry {}", quote(name)));
  WARREN_TRY(enter(dir.mount, UnitAccess::kWrite));
  return fs(dir).unlink(dir.inode, name);
}

Status MountFs::remove_dir(Inode parent, std::string_view name) {
  Node dir = WARREN_TRY(inward(parent));
  WARREN_TRY(check_not_place(dir, name, Code::kBusy));
  if (dir.stand_in) return refuse_stand_in();
  WARREN_TRY(enter(dir.mount, UnitAccess::kWrite));
  return fs(dir).remove_dir(dir.inode, name);
}

Status MountFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                       RenameMode mode) {
  Node from = WARREN_TRY(inward(parent));
  Node to = WARREN_TRY(inward(new_parent));
  WARREN_TRY(check_not_place(from, name, Code::kBusy));
  WARREN_TRY(check_not_place(to, new_name, Code::kBusy));
  if (from.stand_in || to.stand_in) return refuse_stand_in();
  WARREN_TRY(check_same_mount(from, to));
  WARREN_TRY(enter(from.mount, UnitAccess::kWrite));
  return fs(from).rename(from.inode, name, to.inode, new_name, mode);
}

// The places in a directory come first, then what the filesystem has there, without the names that are covered.
class MountFs::Stream final : public DirStream {
 public:
  Stream(MountFs& tree, const Node& dir, std::vector<std::size_t> places, std::unique_ptr<DirStream> inner)
      : tree_(tree), dir_(dir), places_(std::move(places)), inner_(std::move(inner)) {}

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    std::size_t next = cookie >= kPlaceCookie ? static_cast<std::size_t>(cookie - kPlaceCookie) : 0;
    if ((cookie == 0 || cookie >= kPlaceCookie) && next < places_.size()) return read_places(next, max, detail);
    return read_inner(cookie >= kPlaceCookie ? 0 : cookie, max, detail);
  }

 private:
  static constexpr std::uint64_t kPlaceCookie = std::uint64_t{1} << 61;  // + how many places were returned

  Result<std::vector<DirEntry>> read_places(std::size_t next, std::size_t max, DirDetail detail) {
    std::vector<DirEntry> page;
    for (; next < places_.size() && page.size() < max; ++next) {
      Attributes shown = WARREN_TRY(tree_.show(places_[next]));
      DirEntry entry{.cookie = kPlaceCookie + next + 1,
                     .name = tree_.places_[places_[next]].name,
                     .inode = shown.inode,
                     .type = S_IFDIR,
                     .attributes = {}};
      if (detail == DirDetail::kAttributes) entry.attributes = shown;
      page.push_back(std::move(entry));
    }
    return page;
  }

  Result<std::vector<DirEntry>> read_inner(std::uint64_t cookie, std::size_t max, DirDetail detail) {
    if (!inner_) return std::vector<DirEntry>();
    WARREN_TRY(tree_.enter(dir_.mount, UnitAccess::kRead));
    for (;;) {
      std::vector<DirEntry> page = WARREN_TRY(inner_->read(cookie, max, detail));
      if (page.empty()) return page;
      cookie = page.back().cookie;
      std::erase_if(page, [&](const DirEntry& entry) { return is_covered(entry.name); });
      for (DirEntry& entry : page) WARREN_TRY(translate(entry));
      if (!page.empty()) return page;
    }
  }

  bool is_covered(const std::string& name) const {
    return std::any_of(places_.begin(), places_.end(), [&](std::size_t at) { return tree_.places_[at].name == name; });
  }

  Status translate(DirEntry& entry) {
    if (entry.inode.value != 0) entry.inode = WARREN_TRY(tree_.outward(dir_.mount, entry.inode));
    if (entry.attributes) entry.attributes->inode = entry.inode;
    return Ok{};
  }

  MountFs& tree_;
  Node dir_;
  std::vector<std::size_t> places_;
  std::unique_ptr<DirStream> inner_;
};

Result<std::unique_ptr<DirStream>> MountFs::open_dir(Inode dir) {
  Node node = WARREN_TRY(inward(dir));
  std::optional<std::size_t> place = WARREN_TRY(find_place(node));
  std::vector<std::size_t> children;
  if (place) children = places_[*place].children;
  std::unique_ptr<DirStream> inner;
  if (!node.stand_in) {
    WARREN_TRY(enter(node.mount, UnitAccess::kRead));
    inner = WARREN_TRY(fs(node).open_dir(node.inode));
  }
  return std::unique_ptr<DirStream>(new Stream(*this, node, std::move(children), std::move(inner)));
}

}  // namespace warren
