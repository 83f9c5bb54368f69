// Results on their way from one thread to another that waits with poll().
#pragma once

#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sys/eventfd.h>

#include "base/result.h"
#include "os/error.h"
#include "os/fd.h"

namespace warren {

// Thread-safe.
template <class T>
class Mailbox {
 public:
  static Result<std::unique_ptr<Mailbox>> open() {
    Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.is_open()) return system_error(errno, "eventfd");
    return std::unique_ptr<Mailbox>(new Mailbox(std::move(event)));
  }

  int fd() const { return event_.get(); }  // readable while there is something to take

  void put(T one) {
    std::lock_guard lock(mutex_);
    content_.push_back(std::move(one));
    ::eventfd_write(event_.get(), 1);
  }

  // Everything put since the last call, oldest first; does not wait.
  std::vector<T> take() {
    std::lock_guard lock(mutex_);  // over both steps: fd() must not be readable without content
    eventfd_t count = 0;
    ::eventfd_read(event_.get(), &count);
    return std::exchange(content_, {});
  }

 private:
  explicit Mailbox(Fd event) : event_(std::move(event)) {}

  Fd event_;
  std::mutex mutex_;
  std::vector<T> content_;  // under mutex_
};

}  // namespace warren
