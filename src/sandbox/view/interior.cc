#include "sandbox/view/interior.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "sandbox/view/mounts.h"
#include "sandbox/view/network_view.h"

namespace warren {
namespace {

using mounts::Depth;
using Kind = Plan::Kind;
using Place = Plan::Place;

constexpr std::uint64_t kPlain = mounts::kNoSuid | mounts::kNoDev;
constexpr std::array<const char*, 6> kDevices{"null", "zero", "full", "random", "urandom", "tty"};
constexpr const char* kNothing = "/dev/.hidden";  // mounted over hidden files
constexpr std::string_view kInstancesMax = "48";
constexpr std::size_t kFuseReadBytes = std::size_t{1} << 20;

// Entries of the machine, not of a process; each reveals or changes something that processes inside must not touch.
constexpr std::array<const char*, 12> kMaskedInProc{"kcore",       "kmsg",        "keys",       "key-users",
                                                    "timer_list",  "sched_debug", "kpagecount", "kpageflags",
                                                    "kpagecgroup", "vmallocinfo", "slabinfo",   "latency_stats"};

Error no_device(int number) {
  if (number == ENOENT || number == ENODEV || number == ENXIO) {
    return {Code::kUnavailable, "this machine has no /dev/fuse", "load the kernel's module: `modprobe fuse`"};
  }
  return std::move(system_error(number, "open /dev/fuse"))
      .with_hint("/dev/fuse must be readable and writable for you: `chmod 0666 /dev/fuse` as root");
}

bool is_process_entry(std::string_view name) {
  return name == "self" || name == "thread-self" || std::all_of(name.begin(), name.end(), is_digit);
}

// Everything in /proc outside the directories of processes belongs to the machine. File permissions do not protect it
// from a root that is mapped to the real one, which may even change them, for everybody.
Result<std::vector<std::string>> machine_entries_of_proc() {
  Fd dir = WARREN_TRY(open_host_dir("/proc"));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  std::vector<std::string> found;
  for (const HostEntry& entry : entries) {
    bool is_left_alone = is_process_entry(entry.name) || S_ISLNK(entry.attributes.st_mode) ||
                         S_ISCHR(entry.attributes.st_mode);  // a cover
    if (!is_left_alone) found.push_back("/proc/" + entry.name);
  }
  return found;
}

// A limit of our user namespace.
void set_limit(const char* file, std::string_view limit) {
  Fd out(::open(file, O_WRONLY | O_CLOEXEC));
  if (out.is_open()) write_all(out.get(), as_bytes(limit)).ignore("then the user's own limit applies");
}

// A user has 128 inotify instances, usually, and a number of watches; the rest is for other runs and for programs
// outside.
void limit_watches() {
  set_limit("/proc/sys/user/max_inotify_instances", kInstancesMax);
  std::uint64_t watches = 0;
  Result<std::string> text = read_host_file("/proc/sys/fs/inotify/max_user_watches", 64);
  if (text.ok()) watches = parse_number<std::uint64_t>(trimmed(*text, kWhitespace)).value_or(0);
  if (watches > 0) set_limit("/proc/sys/user/max_inotify_watches", std::to_string(watches - watches / 4));
}

}  // namespace

Status Interior::prepare() {
  // Opened inside the user namespace: only with such a descriptor does the kernel allow the mount there.
  for (std::size_t i = 0; i < plan_.filesystems(); ++i) {
    fuse_.emplace_back(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!fuse_.back().is_open()) return no_device(errno);
  }
  // What we mount does not get out, but what the host unmounts is not kept alive here (sandbox/view/foreign_mounts.h).
  if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return system_error(errno, "detach from the host's mounts");
  }
  limit_watches();
  WARREN_TRY(take_sources());
  note_hidden_nodes();
  WARREN_TRY(seal_host());
  if (plan_.needs_own_root()) WARREN_TRY(make_root());
  WARREN_TRY(mount_proc());
  WARREN_TRY(mount_dev());
  if (!plan_.has_network) {
    WARREN_TRY(raise_loopback());
    WARREN_TRY(hide_host_devices());
  }
  Result<DirWatch> watch = DirWatch::open();  // without it, changes are not followed
  if (watch.ok()) watch_ = std::move(watch).take_value();
  for (const Place& place : plan_.places) {
    if (plan_.is_served(place.path)) continue;
    Status added = add_place(place);
    bool is_gone = !added.ok() && (place.kind == Kind::kHidden || place.kind == Kind::kListed) &&
                   !WARREN_TRY(find_host_link(place.path));
    if (!is_gone) WARREN_TRY(std::move(added));  // otherwise the host has removed it meanwhile: nothing is left to hide
  }
  return Ok{};
}

Status Interior::take_sources() {
  for (const char* name : kDevices) {
    std::string path = fmt::format("/dev/{}", name);
    if (!WARREN_TRY(find_host_file(path))) continue;
    devices_.push_back({ path, WARREN_TRY(mounts::clone_tree(path, Depth::kOne)) });
  }
  for (const Place& place : plan_.places) {
    if (place.kind != Kind::kAllowed && place.kind != Kind::kReadable) continue;
    Fd tree = WARREN_TRY(mounts::clone_tree(place.path, Depth::kTree));
    std::uint64_t attributes = place.kind == Kind::kAllowed ? kPlain : kPlain | mounts::kReadOnly;
    WARREN_TRY(mounts::set_attributes(tree, attributes, Depth::kTree));
    sources_.push_back({place.path, std::move(tree)});
  }
  return Ok{};
}

// They stay open: otherwise another file could get the number of one that the host has replaced, and would be hidden.
void Interior::note_hidden_nodes() {
  for (const Place& place : plan_.places) {
    if (place.kind != Kind::kHidden) continue;
    Fd node(::open(place.path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!node.is_open() || ::fstat(node.get(), &info) != 0) continue;
    hidden_nodes_.emplace(info.st_dev, info.st_ino);
    kept_open_.push_back(std::move(node));
  }
}

Status Interior::seal_host() {
  return mounts::set_attributes("/", kPlain | mounts::kReadOnly, Depth::kTree)
      .within("make the host's files read-only");
}

// A root directory of our own that shows what the host's does, because nothing can be made in that one.
Status Interior::make_root() {
  std::unique_ptr<ListedDir> root = WARREN_TRY(ListedDir::make("/", {}, nullptr).within("make a root directory"));
  if (!root) {
    return Error(Code::kUnsupported, "the root directory cannot be listed, so the namespace has no place",
                 "--no-namespace runs the command without it");
  }
  covers_.push_back("/");
  return mounts::make_target(*plan_.namespace_path, true);
}

Status Interior::mount_proc() {
  constexpr std::uint64_t kAttributes = kPlain | mounts::kNoExec;
  Result<Fd> proc = mounts::make_filesystem("proc", "", kAttributes);
  if (!proc.ok()) {
    return std::move(std::move(proc).take_error().within("the sandbox needs a /proc of its own"))
        .with_hint(
            "the kernel refuses it if parts of /proc are covered, as in most containers; run Warren outside "
            "the container, or start the container with an uncovered /proc");
  }
  WARREN_TRY(mounts::attach(*proc, "/proc"));
  for (const char* name : kMaskedInProc) {
    std::string path = fmt::format("/proc/{}", name);
    if (!WARREN_TRY(find_host_link(path))) continue;
    Fd cover = WARREN_TRY(mounts::clone_tree("/dev/null", Depth::kOne));
    WARREN_TRY(mounts::set_attributes(cover, mounts::kReadOnly | mounts::kNoDev, Depth::kOne));
    WARREN_TRY(mounts::attach(cover, path));
  }
  std::vector<std::string> entries = WARREN_TRY(machine_entries_of_proc());
  for (const std::string& path : entries) {
    WARREN_TRY(mounts::restrict_in_place(path, kAttributes | mounts::kReadOnly));
  }
  return Ok{};
}

Status Interior::mount_dev() {
  Fd dev = WARREN_TRY(mounts::make_filesystem("tmpfs", "mode=0755,size=1m", mounts::kNoSuid | mounts::kNoExec));
  WARREN_TRY(mounts::attach(dev, "/dev"));
  for (const Source& device : devices_) {
    WARREN_TRY(mounts::make_target(device.path, false));
    // The node is the host's: on a read-only mount it can still be written to, but its mode and owner cannot be
    // changed.
    constexpr std::uint64_t kAttributes = mounts::kNoSuid | mounts::kNoExec | mounts::kReadOnly;
    WARREN_TRY(mounts::set_attributes(device.tree, kAttributes, Depth::kOne));
    WARREN_TRY(mounts::attach(device.tree, device.path));
  }
  WARREN_TRY(mounts::make_target("/dev/pts", true));
  Fd pts = WARREN_TRY(mounts::make_filesystem("devpts", "ptmxmode=0666,mode=0620", mounts::kNoSuid | mounts::kNoExec));
  WARREN_TRY(mounts::attach(pts, "/dev/pts"));
  constexpr std::array<std::pair<const char*, const char*>, 5> kLinks{{{"pts/ptmx", "/dev/ptmx"},
                                                                       {"/proc/self/fd", "/dev/fd"},
                                                                       {"/proc/self/fd/0", "/dev/stdin"},
                                                                       {"/proc/self/fd/1", "/dev/stdout"},
                                                                       {"/proc/self/fd/2", "/dev/stderr"}}};
  for (const auto& [target, link] : kLinks) {
    if (::symlink(target, link) != 0) return system_error(errno, fmt::format("make {}", link));
  }
  WARREN_TRY(mounts::make_target("/dev/shm", true));
  WARREN_TRY(mounts::make_target(kNothing, false));
  if (::chmod(kNothing, 0) != 0) return system_error(errno, "create the cover of hidden files");
  return Ok{};
}

Status Interior::add_place(const Place& place) {
  // In the home the view of its base decides what is shown, and mounts would only be in the way. Not in an allowed
  // directory, which is the host's.
  bool is_in_view = plan_.is_in_home(place.path) && plan_.find_allowed_around(place.path) == nullptr &&
                    (place.kind == Kind::kHidden || place.kind == Kind::kListed || place.kind == Kind::kReadable);
  if (is_in_view) return Ok{};
  switch (place.kind) {
    case Kind::kBase: return attach_served(base_, place.path);
    case Kind::kHome: return attach_served(home_, place.path);
    case Kind::kHidden: return hide(place);
    case Kind::kListed: return list(place);
    case Kind::kAllowed:
    case Kind::kReadable: return attach_source(place);
    case Kind::kScratch: break;
  }
  WARREN_TRY(mounts::make_target(place.path, true));
  std::string how = plan_.scratch_bytes ? fmt::format("mode=1777,size={}", *plan_.scratch_bytes) : "mode=1777";
  Fd scratch = WARREN_TRY(mounts::make_filesystem("tmpfs", how, kPlain));
  return mounts::attach(scratch, place.path);
}

bool Interior::has_places_inside(const std::string& path) const {
  return std::any_of(plan_.places.begin(), plan_.places.end(),
                     [&](const Place& place) { return place.path != path && is_within(place.path, path); });
}

Status Interior::hide(const Place& place) {
  bool is_in_base = is_within(place.path, plan_.base);
  if (is_in_base) {
    // In an earlier run an agent may have removed it or put a link there: then there is nothing to hide.
    Result<std::optional<struct stat>> found = find_host_link(place.path);
    if (!found.ok() && found.error().code() == Code::kDenied) return Ok{};  // the base itself hides it
    std::optional<struct stat> there = WARREN_TRY(std::move(found));
    if (!there || S_ISDIR(there->st_mode) != place.is_directory) return Ok{};
    WARREN_TRY(pin_parents(place.path, plan_.base));
  } else if (!WARREN_TRY(find_host_link(place.path))) {
    return Ok{};  // already hidden by something above it
  } else if (const Place* allowed = plan_.find_allowed_around(place.path)) {
    WARREN_TRY(pin_parents(place.path, allowed->path));
  }
  if (!place.is_directory) {
    Fd cover = WARREN_TRY(mounts::clone_tree(kNothing, Depth::kOne));
    WARREN_TRY(mounts::set_attributes(cover, kPlain | mounts::kNoExec | mounts::kReadOnly, Depth::kOne));
    return mounts::attach(cover, place.path);
  }
  bool is_written = has_places_inside(place.path);
  std::uint64_t attributes = kPlain | mounts::kNoExec | (is_written ? 0 : mounts::kReadOnly);
  Fd cover = WARREN_TRY(mounts::make_filesystem("tmpfs", is_written ? "mode=0755" : "mode=0", attributes));
  if (is_written) covers_.push_back(place.path);
  return mounts::attach(cover, place.path);
}

// Leaves out hidden names. If it cannot be made, covers are used instead.
Status Interior::list(const Place& place) {
  ListedDir::Names names;
  auto in_place = [&](const std::string& path) { return path.substr(place.path.size() + 1); };
  for (const std::string& path : plan_.absent) {
    if (split_parent(path).parent == place.path) names.left_out.insert(in_place(path));
  }
  for (const Place& other : plan_.places) {
    if (other.path == place.path || !is_within(other.path, place.path)) continue;
    std::string below = in_place(other.path);
    bool is_hidden_file = other.kind == Kind::kHidden && !other.is_directory && below.find('/') == below.npos;
    if (is_hidden_file) names.left_out.insert(below);
    else names.fixed.insert(below.substr(0, below.find('/')));
  }
  names.hidden_nodes = hidden_nodes_;
  DirWatch* watch = watch_ ? &*watch_ : nullptr;
  std::unique_ptr<ListedDir> dir = WARREN_TRY(ListedDir::make(place.path, std::move(names), watch));
  if (!dir) return Ok{};
  covers_.push_back(place.path);
  listed_.push_back(std::move(dir));
  return Ok{};
}

void Interior::follow() {
  for (const DirWatch::Event& event : watch_->take()) {
    for (const std::unique_ptr<ListedDir>& dir : listed_) {
      if (event.is_lost) dir->follow_all();
      else if (event.is_name && dir->watch_id() == event.id) dir->follow(event.name);
    }
  }
}

void Interior::follow_mounts() {
  foreign_->remove_new();
  // What was unmounted may have been an entry of its own in a listed directory.
  for (const std::unique_ptr<ListedDir>& dir : listed_) dir->follow_all();
}

// A directory with a mount on it cannot be renamed, but its parent can: the next run of the session would then not find
// the hidden path, and its content would show under the new name.
Status Interior::pin_parents(const std::string& path, const std::string& top) {
  for (std::size_t slash = path.find('/', top.size() + 1); slash != path.npos; slash = path.find('/', slash + 1)) {
    std::string parent = path.substr(0, slash);
    if (std::find(pinned_.begin(), pinned_.end(), parent) != pinned_.end()) continue;
    Fd tree = WARREN_TRY(mounts::clone_tree(parent, Depth::kTree));
    WARREN_TRY(mounts::attach(tree, parent));
    pinned_.push_back(std::move(parent));
  }
  return Ok{};
}

Status Interior::attach_source(const Place& place) {
  auto source = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) { return s.path == place.path; });
  if (source == sources_.end()) return Error(Code::kInternal, "a place has no source");
  // A cover is empty until we fill it, and nobody else can have put anything there.
  bool is_in_cover = std::any_of(covers_.begin(), covers_.end(),
                                 [&](const std::string& cover) { return is_within(place.path, cover); });
  if (is_in_cover || !plan_.is_served(place.path)) {
    WARREN_TRY(mounts::make_target(place.path, place.is_directory));
    return mounts::attach(source->tree, place.path);
  }
  std::optional<struct stat> there = WARREN_TRY(find_host_link(place.path));
  bool fits = there && !S_ISLNK(there->st_mode) && S_ISDIR(there->st_mode) == place.is_directory;
  if (!fits) {
    return Error(Code::kNotFound, fmt::format("--allow: {} was removed in an earlier run", quote(place.path)));
  }
  return mounts::attach(source->tree, place.path);
}

// Not attached yet: the base may be in the home, whose names cannot be used until its server answers.
Result<Fd> Interior::make_fuse(const Fd& device, const std::string& source) {
  std::string options = fmt::format(
      "subtype=warren,fd={},rootmode=40000,user_id={},group_id={},default_permissions,allow_other,max_read={}",
      device.get(), ::getuid(), ::getgid(), kFuseReadBytes);
  return mounts::make_filesystem("fuse", options, kPlain, source);
}

Result<std::vector<Fd>> Interior::open_filesystems(const std::string& source) {
  base_ = WARREN_TRY(make_fuse(fuse_.front(), source));
  if (plan_.home) home_ = WARREN_TRY(make_fuse(fuse_[1], "warren-home"));
  if (plan_.namespace_path) namespace_ = WARREN_TRY(make_fuse(fuse_.back(), "warren-namespace"));
  return std::move(fuse_);
}

// A place in the home is there already: the server has made what was missing in the layer.
Status Interior::attach_served(const Fd& tree, const std::string& path) {
  if (!plan_.is_in_home(path) || path == plan_.home->path) WARREN_TRY(mounts::make_target(path, true));
  return mounts::attach(tree, path);
}

Status Interior::finish() {
  for (const Place& place : plan_.places) {
    if (plan_.is_served(place.path)) WARREN_TRY(add_place(place));
  }
  if (plan_.namespace_path) WARREN_TRY(attach_served(namespace_, *plan_.namespace_path));
  base_ = Fd();
  home_ = Fd();
  namespace_ = Fd();
  for (const std::string& cover : covers_) {
    Status sealed = mounts::set_attributes(cover, mounts::kReadOnly, Depth::kOne);
    // The host has removed the directory meanwhile, and with it what we had mounted there.
    bool is_gone = !sealed.ok() && !mounts::is_mount(cover);
    if (!is_gone) WARREN_TRY(std::move(sealed));
  }
  sources_.clear();
  devices_.clear();
  WARREN_TRY(mounts::set_attributes("/dev", mounts::kReadOnly, Depth::kOne));
  foreign_ = WARREN_TRY(ForeignMounts::watch());
  return Ok{};
}

void Interior::unmount() {
  std::vector<std::string> served{plan_.base};  // the base may be in the home
  if (plan_.home) served.push_back(plan_.home->path);
  if (plan_.namespace_path) served.push_back(*plan_.namespace_path);
  for (const std::string& path : served) {
    Fd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root.is_open()) ::syncfs(root.get());
    root = Fd();
    ::umount2(path.c_str(), MNT_DETACH);
  }
}

}  // namespace warren
