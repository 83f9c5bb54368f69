#include "os/threads/turn.h"

#include <cstdint>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace warren {
namespace {

constexpr std::uint64_t kTimeSliceNs = 100'000;  // the minimum; the default is three milliseconds
constexpr std::uint64_t kNotForChildren = 1;
constexpr int kAddedNice = 5;

// The kernel's struct sched_attr, which this system's headers lack.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;  // SCHED_OTHER
  std::uint64_t flags = kNotForChildren;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = kTimeSliceNs;  // since Linux 6.12: the length of a time slice
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

}  // namespace

void take_short_turns() {
  SchedulingAttributes wanted;
  wanted.nice = ::getpriority(PRIO_PROCESS, 0);
  ::syscall(SYS_sched_setattr, 0, &wanted, 0U);
}

void give_way() {
  auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  int nice = ::getpriority(PRIO_PROCESS, thread);
  ::setpriority(PRIO_PROCESS, thread, nice + kAddedNice);
}

}  // namespace warren
