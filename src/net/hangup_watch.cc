#include "net/hangup_watch.h"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "os/error.h"

namespace warren::net {
namespace {

constexpr std::uint64_t kStopId = 0;

}  // namespace

Result<std::unique_ptr<HangupWatch>> HangupWatch::start() {
  std::unique_ptr<HangupWatch> watch(new HangupWatch());
  watch->epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  watch->stop_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!watch->epoll_.is_open() || !watch->stop_.is_open()) return system_error(errno, "watch connections");
  epoll_event wanted{.events = EPOLLIN, .data = {.u64 = kStopId}};
  if (::epoll_ctl(watch->epoll_.get(), EPOLL_CTL_ADD, watch->stop_.get(), &wanted) != 0) {
    return system_error(errno, "watch connections");
  }
  WARREN_TRY(watch->worker_.submit([watch = watch.get()] { watch->run(); }));
  return watch;
}

std::uint64_t HangupWatch::add(int socket, std::function<void()> call) {
  std::lock_guard lock(mutex_);
  if (is_stopped_) return 0;
  std::uint64_t id = ++last_id_;
  epoll_event wanted{.events = EPOLLRDHUP | EPOLLONESHOT, .data = {.u64 = id}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &wanted) != 0) return 0;
  watched_.emplace(id, Watched{.socket = socket, .call = std::move(call)});
  return id;
}

void HangupWatch::remove(std::uint64_t id) { take(id); }

std::function<void()> HangupWatch::take(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  auto found = watched_.find(id);
  if (found == watched_.end()) return {};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.socket, nullptr);
  std::function<void()> call = std::move(found->second.call);
  watched_.erase(found);
  return call;
}

void HangupWatch::run() {
  std::array<epoll_event, 16> events{};
  while (!worker_.is_stopping()) {
    int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; ++i) {
      std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
      if (id == kStopId) return;
      if (std::function<void()> call = take(id)) call();
    }
  }
}

void HangupWatch::stop() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(is_stopped_, true)) return;
    watched_.clear();
  }
  if (stop_.is_open()) ::eventfd_write(stop_.get(), 1);
  worker_.stop();
}

}  // namespace warren::net
