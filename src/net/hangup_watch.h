// Notices that a client has closed its connection while nothing is read from it: a connection that waits for its
// answer is suspended, and libmicrohttpd does not look at it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "os/fd.h"
#include "os/threads/worker.h"

namespace warren::net {

// Thread-safe, except that stop() and the destructor are for the owner, outside of calls.
class HangupWatch {
 public:
  static Result<std::unique_ptr<HangupWatch>> start();
  ~HangupWatch() { stop(); }
  HangupWatch(const HangupWatch&) = delete;
  HangupWatch& operator=(const HangupWatch&) = delete;

  // Calls once, in a thread of its own and without a lock, when the other side of the socket sends no more. Returns
  // what remove() takes; 0 if it cannot be watched.
  std::uint64_t add(int socket, std::function<void()> call);
  // Before the socket is closed. The call may be under way.
  void remove(std::uint64_t id);
  // Waits for a call that is under way. Nothing is watched any more. May be called again.
  void stop();

 private:
  struct Watched {
    int socket = -1;
    std::function<void()> call;
  };
  HangupWatch() = default;
  void run();
  std::function<void()> take(std::uint64_t id);  // empty: it was removed

  Fd epoll_;
  Fd stop_;
  std::mutex mutex_;
  std::map<std::uint64_t, Watched> watched_;  // under mutex_, as what follows
  std::uint64_t last_id_ = 0;
  bool is_stopped_ = false;
  Worker worker_;
};

}  // namespace warren::net
