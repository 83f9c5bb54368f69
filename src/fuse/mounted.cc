#include "fuse/mounted.h"

#include <cerrno>
#include <chrono>
#include <future>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "fuse/session.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::chrono::seconds kInitWait{10};

}  // namespace

Result<std::unique_ptr<Mounted>> Mounted::mount(FileSystem& fs, const std::string& dir, const MountOptions& options,
                                                const SessionOptions& session) {
  if (is_dead_mount(dir)) {
    WARREN_TRY(unmount_fuse(dir, Unmount::kDetach).within("unmount the dead mount"));
  }
  std::string absolute = WARREN_TRY(canonical_host_path(dir));
  std::vector<MountedFs> mounts = WARREN_TRY(list_warren_mounts());
  for (const MountedFs& mount : mounts) {
    if (mount.dir != absolute) continue;
    return Error(Code::kBusy, fmt::format("{} is already mounted on {}", quote(mount.source), quote(dir)),
                 "unmount it with `warren umount`, or choose another directory");
  }
  Fd device = WARREN_TRY(mount_fuse(absolute, options));
  std::unique_ptr<Mounted> mounted = WARREN_TRY(serve(fs, std::move(device), std::move(absolute), Owner::kUs, session));
  read_further_ahead(mounted->dir());
  return mounted;
}

Result<std::unique_ptr<Mounted>> Mounted::adopt(FileSystem& fs, Fd device, const std::string& dir,
                                                const SessionOptions& session) {
  return serve(fs, std::move(device), dir, Owner::kSomebodyElse, session);
}

Result<std::unique_ptr<Mounted>> Mounted::serve(FileSystem& fs, Fd device, std::string dir, Owner owner,
                                                const SessionOptions& session) {
  std::unique_ptr<Mounted> mounted(new Mounted(std::move(dir), owner));
  mounted->ended_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!mounted->ended_.is_open()) {
    int number = errno;
    if (owner == Owner::kUs) unmount_fuse(mounted->dir_, Unmount::kDetach).ignore("the first error is reported");
    return system_error(number, "eventfd");
  }
  auto ready = std::make_shared<std::promise<void>>();  // shared with the session, which may outlive this call
  std::future<void> answered = ready->get_future();
  mounted->session_ = std::make_unique<Session>(fs, std::move(device), session, [ready] { ready->set_value(); });
  mounted->server_ = std::thread([ended = mounted->ended_.get(), serving = mounted->session_.get()] {
    serving->serve().ignore("the mount has ended either way, and programs notice");
    ::eventfd_write(ended, 1);
  });
  if (answered.wait_for(kInitWait) != std::future_status::ready) {
    return Error(Code::kTimeout, fmt::format("the kernel sends no requests to the mount on {}", quote(mounted->dir_)));
  }
  return mounted;
}

Mounted::~Mounted() { unmount(); }

std::string Mounted::passthrough_problem() const { return session_->passthrough_problem(); }

void Mounted::unmount() {
  if (!server_.joinable()) return;
  pollfd ended{ended_.get(), POLLIN, 0};
  bool is_over = ::poll(&ended, 1, 0) == 1;
  if (!is_over && owner_ == Owner::kSomebodyElse) session_->stop();
  if (!is_over && owner_ == Owner::kUs) {
    // Changes through memory maps stay in the kernel until it is asked to write them back.
    Fd root(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root.is_open()) ::syncfs(root.get());
    root = Fd();
    Status quiet = unmount_fuse(dir_, Unmount::kIfUnused);
    if (!quiet.ok()) unmount_fuse(dir_, Unmount::kDetach).ignore("it was unmounted by someone else");
    session_->stop();
  }
  server_.join();
  lost_ = session_->lost();
  session_.reset();
}

}  // namespace warren
