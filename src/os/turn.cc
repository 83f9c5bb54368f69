#include "os/turn.h"

#include <cstdint>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace warren {
namespace {

constexpr std::uint64_t kTurnNs = 100'000;  // the shortest there is; three milliseconds is usual
constexpr std::uint64_t kNotForChildren = 1;
constexpr int kBehindOthers = 5;

// The kernel's struct sched_attr, which headers of this system do not have.
struct SchedulingWish {
  std::uint32_t size = sizeof(SchedulingWish);
  std::uint32_t policy = 0;  // as usual
  std::uint64_t flags = kNotForChildren;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = kTurnNs;  // since Linux 6.12: how long a turn is
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

}  // namespace

void take_short_turns() {
  SchedulingWish wish;
  wish.nice = ::getpriority(PRIO_PROCESS, 0);
  ::syscall(SYS_sched_setattr, 0, &wish, 0U);
}

void give_way() {
  auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  int nice = ::getpriority(PRIO_PROCESS, thread);
  ::setpriority(PRIO_PROCESS, thread, nice + kBehindOthers);
}

}  // namespace warren
