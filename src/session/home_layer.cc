#include "session/home_layer.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/base_note.h"
#include "agent/sessions.h"
#include "base/ascii.h"
#include "base/path.h"
#include "changes/filter.h"
#include "changes/undo/discard.h"
#include "changes/upper/open_overlay.h"
#include "fs/path_ops.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "store/overlay/overlay_schema.h"

namespace warren {
namespace {

constexpr std::size_t kSignInBytes = std::size_t{1} << 20;
// Files of the home change outside too, and a file of which only parts were copied could then not be read any more.
constexpr std::uint64_t kHomeCopyBytes = std::uint64_t{64} << 20;
constexpr std::size_t kLayerNameBytes = 40;
constexpr int kLayerTries = 100;  // against a reset at the same moment

// The same in every version: it names files. FNV-1a.
std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

// Written under another name first, so that an existing file is always complete.
Status make_layer_file(const std::string& file, const std::string& home, Clock& clock) {
  std::string draft = file + ".new";
  for (const char* suffix : {"", "-wal", "-shm"}) WARREN_TRY(remove_host_file(draft + suffix));
  {
    auto store = WARREN_TRY(Store::open(draft, {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock));
    WARREN_TRY(make_overlay(*store, home));
    WARREN_TRY(store->database().empty_log());  // the log keeps the draft's name
  }
  WARREN_TRY(put_base_note(draft, home, NoteFor::kNewAgent));  // it belongs to the file, whatever its name is
  if (::rename(draft.c_str(), file.c_str()) == 0) return Ok{};
  return system_error(errno, fmt::format("make {}", quote(file)));
}

Result<Fd> open_layer_lock(const std::string& file) {
  std::string path = file + ".lock";
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  return lock;
}

Status lock_layer(const Fd& lock, int how) {
  while (::flock(lock.get(), how) != 0) {
    if (errno != EINTR) return system_error(errno, "lock the layer of the home");
  }
  return Ok{};
}

Owner own_ids() { return {::geteuid(), ::getegid()}; }

// Makes one name of a path to a mount point, in place of anything else that an earlier run left there.
Result<Inode> make_step(FileSystem& fs, Inode dir, std::string_view name, bool is_directory) {
  Result<Attributes> there = fs.lookup(dir, name);
  bool is_missing = !there.ok() && there.error().code() == Code::kNotFound;
  if (!there.ok() && !is_missing) return std::move(there).take_error();
  if (!is_missing) {
    bool fits = is_directory ? there->is_directory() : there->is_file();
    if (fits) return there->inode;
    WARREN_TRY(there->is_directory() ? fs.remove_dir(dir, name) : fs.unlink(dir, name));
  }
  if (is_directory) {
    Attributes made = WARREN_TRY(fs.make_dir(dir, name, {.mode = 0755, .owner = own_ids()}));
    return made.inode;
  }
  Attributes made = WARREN_TRY(fs.make_node(dir, name, {.mode = S_IFREG | 0644, .owner = own_ids()}));
  return made.inode;
}

Status make_mount_point(FileSystem& fs, const std::string& path, bool is_directory) {
  std::vector<std::string_view> names = WARREN_TRY(split_path(path));
  Inode at = kRootInode;
  for (std::size_t i = 0; i < names.size(); ++i) {
    bool is_last = i + 1 == names.size();
    at = WARREN_TRY(make_step(fs, at, names[i], !is_last || is_directory)
                        .within(fmt::format("make {} in the layer of the home", quote(path))));
  }
  return Ok{};
}

bool is_same_version(const Attributes& a, const Attributes& b) {
  return a.inode == b.inode && a.size == b.size && a.mtime == b.mtime && a.ctime == b.ctime;
}

}  // namespace

Result<std::string> home_layer_file(HomeLayerScope scope, const std::string& base) {
  std::string folder = WARREN_TRY(agents_home())
  +"/home";
  if (scope == HomeLayerScope::kShared) return folder + "/shared.db";
  std::string name(base_name(base).substr(0, kLayerNameBytes));
  for (char& c : name) {
    bool is_plain = is_letter(c) || is_digit(c) || c == '-' || c == '_';
    if (!is_plain) c = '_';
  }
  return fmt::format("{}/{}-{:016x}.db", folder, name, stable_hash(base));
}

Result<bool> remove_home_layer(const std::string& file) {
  if (!WARREN_TRY(find_host_file(file))) return false;
  Fd lock = WARREN_TRY(open_layer_lock(file));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error(errno, "lock the layer of the home");
    return Error(Code::kBusy, "a run is using the layer of your home", "end it first; `warren ps` lists runs");
  }
  WARREN_TRY(remove_base_note(file));
  for (const char* suffix : {"", "-wal", "-shm"}) WARREN_TRY(remove_host_file(file + suffix));
  return true;
}

Result<std::unique_ptr<HomeLayer>> HomeLayer::open(const std::string& file, const Plan& plan,
                                                   const std::vector<std::string>& hidden, Clock& clock) {
  std::unique_ptr<HomeLayer> layer(new HomeLayer(file, plan, hidden, clock));
  WARREN_TRY(make_host_dirs(std::string(directory_of(file)), 0700));
  WARREN_TRY(layer->take_lock());
  WARREN_TRY(layer->open_agent().within("open the layer of the home"));
  layer->note_sign_ins();
  WARREN_TRY(layer->make_mount_points());
  return layer;
}

// Ends with a shared lock on a file that exists.
Status HomeLayer::take_lock() {
  lock_ = WARREN_TRY(open_layer_lock(file_));
  for (int tries = 0; tries < kLayerTries; ++tries) {
    if (!WARREN_TRY(find_host_file(file_))) {
      WARREN_TRY(lock_layer(lock_, LOCK_EX));
      if (!WARREN_TRY(find_host_file(file_))) WARREN_TRY(make_layer_file(file_, plan_.home->path, clock_));
    }
    WARREN_TRY(lock_layer(lock_, LOCK_SH));
    if (WARREN_TRY(find_host_file(file_))) return Ok{};  // not removed while we had no lock
  }
  return Error(Code::kBusy, "the layer of the home is being removed again and again");
}

Status HomeLayer::open_agent() {
  AgentOptions how{.id_or_path = file_, .durability = Durability::kProcess, .commits = Commits::kGrouped};
  how.hidden = hidden_;
  how.view = plan_.home->shown.view;
  how.copy_whole_bytes = kHomeCopyBytes;
  OverlayAgent opened = WARREN_TRY(open_overlay(how, clock_));
  opened_ = std::make_unique<OverlayAgent>(std::move(opened));
  if (opened_->overlay.base_path != plan_.home->path) {
    return Error(Code::kInvalid,
                 fmt::format("{} is the layer of another home, {}", quote(file_), quote(opened_->overlay.base_path)),
                 "move the file away to start with an empty layer");
  }
  return refuse_interrupted(*opened_->agent, file_);
}

// Earlier runs may have removed or replaced what lies on the way.
Status HomeLayer::make_mount_points() {
  for (const Plan::Place& place : plan_.places) {
    bool is_mounted = place.kind == Plan::Kind::kBase || place.kind == Plan::Kind::kAllowed;
    bool is_in_layer =
        place.path == plan_.base ? is_within(plan_.base, plan_.home->path) : plan_.is_in_home(place.path);
    if (!is_mounted || !is_in_layer) continue;
    WARREN_TRY(make_mount_point(fs(), "/" + path_in_home(place.path, plan_.home->path), place.is_directory));
  }
  return Ok{};
}

bool HomeLayer::is_only_user() {
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return true;
  lock_layer(lock_, LOCK_SH).ignore("converting may have dropped it; without it a reset is not refused");
  return false;
}

// The layer's own file of that name.
std::optional<Attributes> HomeLayer::find_own(const std::string& name) {
  Result<Attributes> own = lstat(opened_->overlay.upper.fs(), "/" + name);
  return own.ok() && own->is_file() ? std::optional(*own) : std::nullopt;
}

// What an earlier run left in the layer is not this run's: it may have been one that must not write through.
void HomeLayer::note_sign_ins() {
  for (const auto& one : plan_.home->sign_ins) {
    if (std::optional<Attributes> own = find_own(one.inside)) written_[one.inside] = *own;
  }
}

void HomeLayer::write_sign_ins(WhenToWrite when) {
  for (const auto& one : plan_.home->sign_ins) {
    const std::string& name = one.inside;
    std::optional<Attributes> own = find_own(name);
    if (!own) continue;
    auto before = written_.find(name);
    if (before != written_.end() && is_same_version(before->second, *own)) continue;
    auto last = seen_.find(name);
    bool rests = last != seen_.end() && is_same_version(last->second, *own);
    seen_[name] = *own;
    if (!rests && when == WhenToWrite::kAtRest) continue;
    written_[name] = *own;
    write_sign_in(one, own->size).ignore("the sign-in stays in the layer");
  }
}

// An empty or a half-written file is no sign-in. Links were followed when the run began: what has become one since is
// not written.
Status HomeLayer::write_sign_in(const Plan::Home::SignIn& one, std::uint64_t size) {
  std::string content = WARREN_TRY(read_file(fs(), "/" + one.inside, {.size_bytes_max = kSignInBytes}));
  if (content.empty() || content.size() != size) return Error(Code::kBusy, "it is being written");
  std::string path = join_path(plan_.home->path, one.outside);
  std::optional<struct stat> there = WARREN_TRY(find_host_link(path));
  if (there && !S_ISREG(there->st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a file", quote(path)));
  if (there) {
    std::string canonical = WARREN_TRY(canonical_host_path(path));
    if (canonical != path) return Error(Code::kStale, fmt::format("{} is {} now", quote(path), quote(canonical)));
    Result<std::string> old = read_host_file(path, kSignInBytes);
    if (old.ok() && *old == content) return Ok{};
  } else {
    WARREN_TRY(make_host_dirs(std::string(directory_of(path)), 0700));
  }
  WARREN_TRY(replace_host_file(path, content, there ? there->st_mode & 0777U : 0600U));
  if (::geteuid() != 0) return Ok{};
  if (!there) there = WARREN_TRY(find_host_file(plan_.home->path));  // root, in somebody else's home
  if (there && ::lchown(path.c_str(), there->st_uid, there->st_gid) != 0) return system_error(errno, "set the owner");
  return Ok{};
}

// Only in the layer, and its directory is still there.
bool HomeLayer::is_removed(const std::string& name) {
  Result<bool> is_here = exists(fs(), "/" + name);
  Result<bool> has_parent = exists(fs(), "/" + std::string(directory_of(name)));
  Result<std::optional<struct stat>> outside = find_host_file(join_path(plan_.home->path, name));
  return is_here.ok() && !*is_here && has_parent.ok() && *has_parent && outside.ok() && outside->has_value();
}

Status HomeLayer::drop_sign_ins() {
  std::vector<std::string> own;
  for (const auto& one : plan_.home->sign_ins) {
    if (find_own(one.inside) || is_removed(one.inside)) own.push_back("/" + one.inside);
  }
  if (own.empty()) return Ok{};
  WARREN_TRY(discard_changes(opened_->overlay, filter_of(own)));
  return Ok{};
}

Status HomeLayer::close() {
  write_sign_ins(WhenToWrite::kNow);
  if (is_only_user()) drop_sign_ins().ignore("the next run tries again");
  Status closed = opened_->agent->close();
  opened_.reset();
  lock_ = Fd();
  return closed;
}

}  // namespace warren
