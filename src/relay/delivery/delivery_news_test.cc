#include "relay/delivery/delivery_news.h"

#include <gtest/gtest.h>

#include "testing/fake_clock.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

class DeliveryNewsTest : public ::testing::Test {
 protected:
  void add(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) news.add({});
  }

  ::warren::testing::FakeClock clock;
  DeliveryNews news{clock};
  DeliveryNews::Load idle{.can_be_deferred = true};
  DeliveryNews::Load busy{.can_be_deferred = true, .has_new_messages = true};
  using Share = DeliveryNews::Share;
};

TEST_F(DeliveryNewsTest, FewWaitForMoreAndManyForAQuietMoment) {
  news.start_waiting();
  add(1);
  EXPECT_EQ(news.due(idle), Share::kNone);
  clock.advance_ns(20 * kMillisecond);
  EXPECT_EQ(news.due(idle), Share::kSome);
  EXPECT_EQ(news.due(busy), Share::kNone);
  news.note_busy();
  EXPECT_EQ(news.due(idle), Share::kNone);
  clock.advance_ns(kMillisecond);
  EXPECT_EQ(news.due(idle), Share::kSome);
  add(8192);
  EXPECT_EQ(news.due(busy), Share::kMore);
}

TEST_F(DeliveryNewsTest, WhatAnAgentWaitsForIsRecordedAsAWhole) {
  news.start_waiting();
  add(300);
  news.note_awaited();
  EXPECT_EQ(news.due(busy), Share::kAll);
  EXPECT_EQ(news.take(Share::kAll, 0).size(), 300U);
  news.forget_left(0);
  EXPECT_FALSE(news.is_awaited());
}

TEST_F(DeliveryNewsTest, ARoundTakesAPartAndAnAbandonedOneReturnsIt) {
  add(1000);
  EXPECT_EQ(news.take(Share::kSome, 0).size(), 32U);
  std::vector<Change> taken = news.take(Share::kMore, 200);
  EXPECT_EQ(taken.size(), 400U);
  news.put_back(std::move(taken));
  EXPECT_EQ(news.changes().size(), 968U);
  EXPECT_TRUE(news.is_awaited());
}

TEST_F(DeliveryNewsTest, FilesThatLeftInboxesAreTakenInParts) {
  for (int i = 0; i < 800; ++i) news.add_left({"bob", std::to_string(i)});
  EXPECT_EQ(news.count_left_to_take(), 100U);
  news.forget_left(100);
  EXPECT_EQ(news.left().front().file, "100");
}

}  // namespace
}  // namespace warren::relay
