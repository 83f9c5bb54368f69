// Processes that load something at the same moment, memory they share, and what times are boiled down to.
#pragma once

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "files.h"

namespace bench {

inline std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

inline void sleep_until_ns(std::int64_t at) {
  timespec when{at / 1'000'000'000, at % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

// Zeroed memory that forked processes have in common.
template <typename T>
class Shared {
 public:
  explicit Shared(std::size_t count) : count_(std::max<std::size_t>(1, count)) {
    void* memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    items_ = static_cast<T*>(memory);
  }
  ~Shared() { ::munmap(items_, bytes()); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T& operator[](std::size_t index) { return items_[index]; }
  std::vector<T> copy(std::size_t count) const { return std::vector<T>(items_, items_ + count); }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }

  std::size_t count_;
  T* items_;
};

// Where workers wait until all of them are prepared.
class Gate {
 public:
  Gate() : opened_ns_(1), waiting_(1) {}

  // In a worker. When it was opened.
  std::int64_t pass() {
    waiting_[0].fetch_add(1);
    while (opened_ns_[0].load() == 0) ::usleep(100);
    return opened_ns_[0].load();
  }

  std::size_t waiting() { return waiting_[0].load(); }
  std::int64_t open() {
    opened_ns_[0].store(monotonic_ns());
    return opened_ns_[0].load();
  }

 private:
  Shared<std::atomic<std::int64_t>> opened_ns_;
  Shared<std::atomic<std::size_t>> waiting_;
};

// Forked processes. When one of them fails, this program ends.
class Workers {
 public:
  using Work = std::function<void(std::size_t worker, Gate& gate)>;

  Workers(std::size_t count, const Work& work) {
    for (std::size_t i = 0; i < count; ++i) {
      pid_t child = ::fork();
      must(child >= 0, "fork");
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would open the gate
        work(i, gate_);
        std::_Exit(0);
      }
      children_.push_back(child);
    }
  }

  // When all of them were let go.
  std::int64_t start() {
    while (gate_.waiting() < children_.size()) {
      check(WNOHANG);
      ::usleep(100);
    }
    return gate_.open();
  }

  void wait() { check(0); }

 private:
  void check(int flags) {
    for (pid_t& child : children_) {
      int status = 0;
      if (child == 0 || ::waitpid(child, &status, flags) != child) continue;
      if (status != 0) std::exit(1);  // it said why
      child = 0;
    }
  }

  Gate gate_;
  std::vector<pid_t> children_;
};

// "NAME": {"p50": …, …} in microseconds.
inline std::string percentiles_json(const char* name, std::vector<std::int64_t> times_ns) {
  std::sort(times_ns.begin(), times_ns.end());
  auto at = [&](double part) {
    if (times_ns.empty()) return 0.0;
    auto index = static_cast<std::size_t>(part * static_cast<double>(times_ns.size()));
    return static_cast<double>(times_ns[std::min(index, times_ns.size() - 1)]) / 1e3;
  };
  return fmt::format(R"("{}": {{"p50": {:.1f}, "p90": {:.1f}, "p99": {:.1f}, "p999": {:.1f}, "max": {:.1f}}})", name,
                     at(0.5), at(0.9), at(0.99), at(0.999), at(1));
}

}  // namespace bench
