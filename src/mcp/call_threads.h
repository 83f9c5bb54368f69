// The threads that serve calls, apart from those that receive messages: a ping or a cancellation never waits for a
// call.
#pragma once

#include <cstddef>
#include <functional>

#include "os/threads/worker.h"

namespace warren::mcp {

// A long call waits for another program, for minutes or an hour.
enum class CallKind { kShort, kLong };

// Thread-safe, except that stop() and the destructor are for the owner, outside of calls. Make it the last member of
// its class.
class CallThreads {
 public:
  // `long_max`: how many long calls there may be; each has a thread, so that short ones never wait for them.
  CallThreads(std::size_t threads, std::size_t long_max)
      : short_({.priority = Worker::Priority::kNormal, .threads_max = threads}),
        long_({.priority = Worker::Priority::kNormal, .threads_max = long_max}) {}

  // False if no thread can be started.
  bool run(CallKind kind, std::function<void()> call) {
    return (kind == CallKind::kLong ? long_ : short_).submit(std::move(call)).ok();
  }
  // Drops calls that have not started and waits for those that have.
  void stop() {
    short_.stop();
    long_.stop();
  }

 private:
  Worker short_;
  Worker long_;
};

}  // namespace warren::mcp
