#include "os/threads/turn.h"

#include <array>
#include <cstdint>
#include <thread>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace warren {
namespace {

// Words 0 to 6 of this thread's struct sched_attr; the fifth is the length of a time slice, on kernels that know it.
std::array<std::uint64_t, 7> attributes() {
  std::array<std::uint64_t, 7> words{};
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, words.data(), 56U, 0U), 0);
  return words;
}

int own_nice() { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid))); }

TEST(TurnTest, ShortTurnsAreForThisThreadAlone) {
  std::thread([] {
    std::uint64_t usual = attributes()[3];
    int before = own_nice();
    take_short_turns();
    std::uint64_t now = attributes()[3];
    EXPECT_TRUE(now == usual || now == 100'000) << now;
    EXPECT_EQ(own_nice(), before);
    std::thread([] { EXPECT_NE(attributes()[3], 100'000U); }).join();
  }).join();
}

TEST(TurnTest, GivingWayIsForThisThreadAlone) {
  int before = own_nice();
  std::thread([&] {
    give_way();
    EXPECT_EQ(own_nice(), before + 5);
  }).join();
  EXPECT_EQ(own_nice(), before);
}

}  // namespace
}  // namespace warren
