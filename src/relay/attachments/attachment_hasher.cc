#include "relay/attachments/attachment_hasher.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/eventfd.h>

#include "os/error.h"

namespace warren::relay {

Result<std::unique_ptr<AttachmentHasher>> AttachmentHasher::open(const AttachmentStore& store) {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open()) return system_error(errno, "make an event");
  return std::unique_ptr<AttachmentHasher>(new AttachmentHasher(store, std::move(event)));
}

AttachmentHasher::~AttachmentHasher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Status AttachmentHasher::want(const std::string& hash) {
  if (wanted_.contains(hash)) return Ok{};
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
      return Error(Code::kLimit, "no thread can be had to read an attachment");
    }
  }
  wanted_.insert(hash);
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(hash);
  }
  changed_.notify_one();
  return Ok{};
}

std::vector<Hashed> AttachmentHasher::take() {
  std::vector<Hashed> done;
  {
    std::lock_guard lock(mutex_);  // with the event: one that is left without results would never be read
    eventfd_t count = 0;
    ::eventfd_read(event_.get(), &count);
    done = std::exchange(done_, {});
  }
  for (const Hashed& one : done) wanted_.erase(one.hash);
  return done;
}

void AttachmentHasher::work() {
  for (;;) {
    std::string hash;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      hash = std::move(queue_.front());
      queue_.pop_front();
    }
    Result<AttachmentStore::Verified> found = store_.verify(hash, stop_);
    {
      std::lock_guard lock(mutex_);
      done_.push_back({std::move(hash), std::move(found)});
      ::eventfd_write(event_.get(), 1);
    }
  }
}

}  // namespace warren::relay
