#include "fs/host/host_watch.h"

#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/eventfd.h>

#include "fs/file_system.h"
#include "os/error.h"

namespace warren {
namespace {

constexpr int kBlindMilliseconds = 1000;

}  // namespace

Result<std::unique_ptr<HostWatch>> HostWatch::start(FileSystem& fs, ChangeListener& listener) {
  DirWatch watch = WARREN_TRY(DirWatch::open());
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.is_open()) return system_error(errno, "eventfd");
  std::unique_ptr<HostWatch> started(new HostWatch(fs, listener, std::move(watch), std::move(stop)));
  started->thread_ = std::thread([raw = started.get()] { raw->run(); });
  return started;
}

HostWatch::HostWatch(FileSystem& fs, ChangeListener& listener, DirWatch watch, Fd stop)
    : fs_(fs), listener_(listener), watch_(std::move(watch)), stop_(std::move(stop)) {}

HostWatch::~HostWatch() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

bool HostWatch::add(int dir_fd, Inode dir) {
  std::lock_guard guard(mutex_);  // no event of it may be handled before it is registered
  std::optional<int> id = watch_.add(dir_fd);
  if (!id) {
    is_blind_ = true;
    return false;
  }
  dirs_[*id] = dir;
  return true;
}

void HostWatch::run() {
  for (;;) {
    std::array<pollfd, 2> wait{pollfd{watch_.fd(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
    int ready = ::poll(wait.data(), wait.size(), is_blind_ ? kBlindMilliseconds : -1);
    if (wait[1].revents != 0) return;
    if (ready == 0) listener_.everything_changed();
    for (const DirWatch::Event& event : watch_.take()) notify(event);
  }
}

void HostWatch::notify(const DirWatch::Event& event) {
  if (event.is_lost) return listener_.everything_changed();
  std::unique_lock guard(mutex_);
  auto found = dirs_.find(event.id);
  if (found == dirs_.end()) return;
  Inode dir = found->second;
  if (event.is_over) dirs_.erase(found);
  guard.unlock();
  if (event.is_over) return listener_.node_changed(dir);
  if (event.name.empty()) return listener_.node_changed(dir);
  if (event.is_name) {
    listener_.entry_changed(dir, event.name);
    return listener_.node_changed(dir);
  }
  Result<Attributes> node = fs_.lookup(dir, event.name);
  if (node.ok()) listener_.node_changed(node->inode);
}

}  // namespace warren
