#include "relay/delivery/fresh_deliveries.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "relay/delivery/mailroom.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kLongNs = 1'000'000'000;

class FreshDeliveriesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(root->make_agent("bob")); }
  std::string inbox_file(const Delivery& delivery) { return root->path() + "/agents/bob/inbox/" + delivery.inbox_name; }
  Delivery publish(int number, Backed backed = Backed::kYes) {
    Mailroom mailroom(*root);
    Delivery delivery;
    delivery.id = number;
    delivery.recipient = "bob";
    delivery.inbox_name = fmt::format("{}-deadbeef.msg", number);
    EXPECT_OK(mailroom.stage_unsynced(delivery, "hello"));
    EXPECT_OK(mailroom.publish(delivery));
    fresh.add(delivery, backed);
    return delivery;
  }

  ::warren::testing::TempDir dir;
  std::unique_ptr<Root> root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
  ::warren::testing::FakeClock clock;
  SyncPool syncs;
  FreshDeliveries fresh{*root, syncs, clock};
};

TEST_F(FreshDeliveriesTest, AFileIsLeftAloneForAWhileAndThenSynced) {
  publish(1);
  EXPECT_TRUE(fresh.collect(Wait::kNo).empty());
  EXPECT_GT(fresh.wake_at_ns(), clock.monotonic_ns());
  clock.advance_ns(kLongNs);
  fresh.collect(Wait::kNo);  // starts the sync
  publish(2);
  std::vector<FreshOutcome> outcomes = fresh.collect(Wait::kForAll);
  ASSERT_EQ(outcomes.size(), 2U);
  for (const FreshOutcome& one : outcomes) EXPECT_EQ(one.fate, Fate::kDelivered);
  EXPECT_EQ(fresh.wake_at_ns(), INT64_MAX);
}

TEST_F(FreshDeliveriesTest, ATakenDeliveryIsNotTrackedAnyMore) {
  Delivery first = publish(1);
  Delivery second = publish(2);
  std::optional<Delivery> taken = fresh.take("bob", first.inbox_name);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, 1);
  EXPECT_FALSE(fresh.take("bob", first.inbox_name));
  EXPECT_FALSE(fresh.contains("bob", first.inbox_name));
  EXPECT_TRUE(fresh.contains("bob", second.inbox_name));
  std::vector<FreshOutcome> outcomes = fresh.collect(Wait::kForAll);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes.front().delivery.id, 2);
}

TEST_F(FreshDeliveriesTest, AFileThatLeftItsInboxUnnoticedWasRead) {
  ASSERT_EQ(::unlink(inbox_file(publish(1)).c_str()), 0);
  Delivery changed = publish(2);
  ASSERT_EQ(::unlink(inbox_file(changed).c_str()), 0);
  ASSERT_EQ(::symlink("/nowhere", inbox_file(changed).c_str()), 0);
  std::vector<FreshOutcome> outcomes = fresh.collect(Wait::kForAll);
  ASSERT_EQ(outcomes.size(), 4U);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(outcomes[i].fate, Fate::kRead);
  for (int i = 2; i < 4; ++i) EXPECT_EQ(outcomes[i].fate, Fate::kGone);
}

TEST_F(FreshDeliveriesTest, AFileThatIsGoneWithItsInboxWasNeitherReadNorDelivered) {
  Delivery first = publish(1);
  publish(2, Backed::kNo);
  std::string inbox = inbox_file(first);
  inbox.resize(inbox.rfind('/'));
  ASSERT_EQ(::rename(inbox.c_str(), (inbox + "-moved").c_str()), 0);
  std::vector<FreshOutcome> outcomes = fresh.collect(Wait::kForAll);
  ASSERT_EQ(outcomes.size(), 2U);
  for (const FreshOutcome& one : outcomes) {
    EXPECT_EQ(one.fate, Fate::kFailed);
    EXPECT_EQ(one.synced.error().code(), Code::kNotFound);
  }
  EXPECT_FALSE(fresh.contains("bob", first.inbox_name));
  ASSERT_EQ(::rename((inbox + "-moved").c_str(), inbox.c_str()), 0);  // it is tried again, and there it is
  fresh.add(first, Backed::kYes);
  outcomes = fresh.collect(Wait::kForAll);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes.front().fate, Fate::kDelivered);
}

TEST_F(FreshDeliveriesTest, AReadIsMadeDurableSomeSecondsLater) {
  Delivery delivery = publish(1);
  ASSERT_EQ(::unlink(inbox_file(delivery).c_str()), 0);
  ASSERT_TRUE(fresh.take_read("bob", delivery.inbox_name));
  clock.advance_ns(kLongNs);
  EXPECT_TRUE(fresh.collect(Wait::kNo).empty());
  EXPECT_GT(fresh.wake_at_ns(), clock.monotonic_ns());
  std::vector<FreshOutcome> outcomes;
  clock.advance_ns(kLongNs);
  while (outcomes.empty()) outcomes = fresh.collect(Wait::kNo);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes.front().fate, Fate::kGone);
  EXPECT_EQ(fresh.wake_at_ns(), INT64_MAX);
}

TEST_F(FreshDeliveriesTest, AFileWithoutBackingCountsAsReadOnlyWhenThatIsDurable) {
  Delivery delivery = publish(1, Backed::kNo);
  ASSERT_EQ(::unlink(inbox_file(delivery).c_str()), 0);
  EXPECT_FALSE(fresh.take_read("bob", delivery.inbox_name));
  EXPECT_TRUE(fresh.contains("bob", delivery.inbox_name));
  std::vector<FreshOutcome> outcomes = fresh.collect(Wait::kForAll);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes.front().fate, Fate::kRead);
  EXPECT_FALSE(fresh.contains("bob", delivery.inbox_name));
}

TEST_F(FreshDeliveriesTest, ThousandsOfFilesAreSyncedInBatches) {
  for (int i = 0; i < 1000; ++i) publish(i);
  EXPECT_EQ(fresh.collect(Wait::kForAll).size(), 1000U);
}

}  // namespace
}  // namespace warren::relay
