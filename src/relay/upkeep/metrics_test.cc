#include "relay/upkeep/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/fake_clock.h"

namespace warren::relay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::warren::testing::FakeClock;

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(Metrics, ALatencyIsInTheFirstBucketWithASufficientBound) {
  FakeClock clock;
  Metrics metrics(clock);
  metrics.note_latency(-5);       // the clock went back: counts as 0
  metrics.note_latency(100'000);  // exactly 0.1 ms: the first bucket
  metrics.note_latency(100'001);  // the second bucket
  metrics.note_latency(30'000'000'000);
  metrics.note_latency(40'000'000'000);
  Snapshot got = metrics.take();
  EXPECT_EQ(got.latencies.at(0), 2U);
  EXPECT_EQ(got.latencies.at(1), 1U);
  EXPECT_EQ(got.latencies.at(kLatencyBounds.size() - 1), 1U);
  EXPECT_EQ(got.latencies.back(), 1U);
  EXPECT_NEAR(got.latency_seconds, 70.0002, 0.00001);
  std::string page = render_metrics(got);
  EXPECT_THAT(page, HasSubstr("warren_relay_delivery_latency_seconds_bucket{le=\"0.0001\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("warren_relay_delivery_latency_seconds_bucket{le=\"0.00025\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("warren_relay_delivery_latency_seconds_bucket{le=\"30\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("warren_relay_delivery_latency_seconds_bucket{le=\"+Inf\"} 5\n"));
  EXPECT_THAT(page, HasSubstr("warren_relay_delivery_latency_seconds_count 5\n"));
}

TEST(Metrics, EachTallyHasItsOwnName) {
  FakeClock clock;
  Metrics metrics(clock);
  for (std::size_t i = 0; i < kTallies; ++i) metrics.add(static_cast<Tally>(i), i + 1);
  Json stats = stats_json(metrics.take());
  EXPECT_EQ(stats["accepted"], 1);
  EXPECT_EQ(stats["delivered"], 3);
  EXPECT_EQ(stats["dead_letters"], static_cast<int>(Tally::kDeadLetters) + 1);
  EXPECT_EQ(stats["inotify_overflows"], static_cast<int>(Tally::kOverflows) + 1);
  EXPECT_EQ(stats["done_files_removed"], kTallies);
}

TEST(Metrics, TheQueueHasEverythingNotInAnInboxYet) {
  FakeClock clock;
  Metrics metrics(clock);
  metrics.set_outbox_files(5);
  metrics.set_ledger({.deliveries = {{"pending", 1}, {"stored", 10}, {"held", 100}, {"delivered", 1000}}}, {});
  EXPECT_EQ(metrics.take().queue_depth(), 116);
}

TEST(Metrics, EveryProblemIsNamed) {
  FakeClock clock;
  Metrics metrics(clock);
  EXPECT_THAT(problems_of(metrics.take()), ElementsAre());
  metrics.set_failure(3, "no space");
  metrics.set_disk(0.95, true);
  EXPECT_THAT(problems_of(metrics.take()),
              ElementsAre("rounds are failing (3 in a row): no space", HasSubstr("95.0 %")));
  metrics.set_failure(0, "");
  metrics.set_disk(0.5, false);
  EXPECT_THAT(problems_of(metrics.take()), ElementsAre());
}

TEST(Metrics, ARelayThatIsBusyTooLongIsAProblemAndAnIdleOneIsNot) {
  FakeClock clock;
  Metrics metrics(clock);
  metrics.set_busy_since(clock.monotonic_ns());
  clock.advance_ns(29 * kSecond);
  EXPECT_THAT(problems_of(metrics.take()), ElementsAre());
  clock.advance_ns(2 * kSecond);
  EXPECT_THAT(problems_of(metrics.take()), ElementsAre(HasSubstr("31 seconds")));
  metrics.set_busy_since(0);
  clock.advance_ns(3600 * kSecond);
  EXPECT_THAT(problems_of(metrics.take()), ElementsAre());
}

TEST(Metrics, WaitingFilesWithoutASuccessfulRoundAreAProblem) {
  FakeClock clock;
  Metrics metrics(clock);
  metrics.set_outbox_files(2);
  clock.advance_ns(59 * kSecond);
  EXPECT_THAT(problems_of(metrics.take()), ElementsAre());
  clock.advance_ns(2 * kSecond);
  EXPECT_THAT(problems_of(metrics.take()), ElementsAre(HasSubstr("2 files wait")));
  metrics.note_round();
  EXPECT_THAT(problems_of(metrics.take()), ElementsAre());
}

}  // namespace
}  // namespace warren::relay
