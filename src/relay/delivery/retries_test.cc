#include "relay/delivery/retries.h"

#include <gtest/gtest.h>

#include "testing/fake_clock.h"

namespace warren::relay {
namespace {

class RetriesTest : public ::testing::Test {
 protected:
  std::int64_t now_ms() { return clock.now_us() / 1000; }

  ::warren::testing::FakeClock clock;
  std::mt19937_64 random{1};
  Retries retries{clock, random};
};

TEST_F(RetriesTest, ARecipientFailsUntilItIsForgotten) {
  EXPECT_FALSE(retries.is_failing("bob"));
  std::int64_t next = retries.note_failure("bob", 0);
  EXPECT_GE(next, now_ms() + 50);
  EXPECT_LE(next, now_ms() + 100);
  EXPECT_TRUE(retries.is_failing("bob"));
  EXPECT_EQ(retries.note_failure("bob", 5), next);  // later deliveries go with the first one
  EXPECT_FALSE(retries.is_due());
  clock.advance_ns(100'000'000);
  EXPECT_TRUE(retries.is_due());
  retries.forget("bob");
  EXPECT_FALSE(retries.is_failing("bob"));
}

TEST_F(RetriesTest, TheWaitGrowsToHalfAMinute) {
  EXPECT_GE(backoff_ms(3, 0), 400);
  for (int attempts : {9, 100, 100'000}) {
    EXPECT_GE(backoff_ms(attempts, 0), 15'000);
    EXPECT_LE(backoff_ms(attempts, UINT64_MAX), 30'000);
  }
}

TEST_F(RetriesTest, WithoutAnythingToRetryThereIsNoTime) {
  retries.note_failure("bob", 0);
  retries.set_next(INT64_MAX);
  EXPECT_EQ(retries.at_ns(), INT64_MAX);
  retries.start_over();
  EXPECT_TRUE(retries.is_due());
  EXPECT_FALSE(retries.is_failing("bob"));
}

}  // namespace
}  // namespace warren::relay
