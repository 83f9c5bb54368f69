#include <gtest/gtest.h>

#include "relay/delivery/arrivals.h"
#include "relay/ledger/ledger.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

class LedgerArrivalsTest : public ::testing::Test {
 protected:
  void SetUp() override { ledger = open(LedgerUse::kServe); }
  std::unique_ptr<Ledger> open(LedgerUse use) { return std::move(Ledger::open(path, use, clock)).value(); }
  Arrival put(int number) {
    std::string id = "a/" + std::to_string(number);
    Arrival one{.message = {.id = id,
                            .agent = "a",
                            .direction = "outbox",
                            .path = "archive/" + id,
                            .size = 7,
                            .checksum = "sum",
                            .status = "processing",
                            .type = "message",
                            .target = "b",
                            .discovered_at_us = number},
                .delivery = {.message_id = id, .recipient = "b", .wants_receipt = true, .deadline_ms = 9}};
    one.delivery.inbox_name = std::to_string(1'000'000'000'000'000'000 + number) + "-0123456789abcdef.msg";
    EXPECT_OK(ledger->put_arrival(one.message, one.delivery, "content " + std::to_string(number)));
    return one;
  }

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  std::string path = dir.file("ledger.db");
  std::unique_ptr<Ledger> ledger;
};

TEST_F(LedgerArrivalsTest, ReadersSeeArrivalsThatAreNotEnteredYet) {
  Arrival one = put(1);
  EXPECT_FALSE(ledger->find_message("a/1")->has_value()) << "the relay asks Arrivals";
  auto reader = open(LedgerUse::kRead);
  std::optional<StoredMessage> message = *reader->find_message("a/1");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->message.status, "processing");
  EXPECT_EQ(message->message.path, "archive/a/1");
  EXPECT_EQ(message->row, one.message.number);
  std::optional<Delivery> delivery = *reader->find_in_inbox("b", one.delivery.inbox_name);
  ASSERT_TRUE(delivery);
  EXPECT_EQ(delivery->id, one.delivery.id);
  EXPECT_EQ(delivery->state, DeliveryState::kPending);
  EXPECT_TRUE(delivery->wants_receipt);
  EXPECT_EQ(delivery->deadline_ms, 9);
  EXPECT_EQ(reader->list_deliveries("a/1")->size(), 1U);
  EXPECT_EQ(reader->list_messages({})->size(), 1U);
  EXPECT_EQ(reader->count()->messages["processing"], 1);
  EXPECT_EQ(reader->count()->deliveries["pending"], 1);
}

TEST_F(LedgerArrivalsTest, AnEnteredArrivalIsListedOnceWhileItsContentStays) {
  Arrival one = put(1);
  one.delivery.state = DeliveryState::kRead;
  clock.advance_ns(5'000'000);
  ASSERT_OK(ledger->enter(one.message, one.delivery));
  EXPECT_EQ((*ledger->find_message("a/1"))->message.status, "completed");
  EXPECT_EQ((*ledger->find_delivery(one.delivery.id))->state, DeliveryState::kRead);
  EXPECT_EQ(*ledger->find_body(one.delivery), "content 1");
  auto reader = open(LedgerUse::kRead);
  EXPECT_EQ(reader->list_deliveries("a/1")->size(), 1U);
  EXPECT_EQ(reader->list_messages({})->size(), 1U);
  EXPECT_FALSE(reader->count()->deliveries.contains("pending"));
}

TEST_F(LedgerArrivalsTest, ARestartEntersTheRemainingArrivalsAsPendingInOrder) {
  Arrival first = put(1);
  Arrival second = put(2);
  Arrival third = put(3);
  second.delivery.state = DeliveryState::kDelivered;
  ASSERT_OK(ledger->enter(second.message, second.delivery));
  ledger = open(LedgerUse::kServe);
  ASSERT_OK(ledger->enter_all());
  ASSERT_OK(ledger->enter_all()) << "a second call does nothing";
  std::vector<Delivery> due = *ledger->due({});
  ASSERT_EQ(due.size(), 2U);
  EXPECT_EQ(due[0].id, first.delivery.id);
  EXPECT_EQ(due[1].id, third.delivery.id);
  EXPECT_EQ((*ledger->find_delivery(second.delivery.id))->state, DeliveryState::kDelivered);
  EXPECT_EQ(*ledger->newest_inbox_ns(), 1'000'000'000'000'000'003);
  EXPECT_EQ(ledger->list_bodies(0, 10)->size(), 3U);
  ASSERT_OK(ledger->drop_bodies());
  EXPECT_FALSE(*ledger->find_body(first.delivery));
}

TEST_F(LedgerArrivalsTest, NumbersAreAssignedOnceEvenAfterReopening) {
  Arrival first = put(1);
  ledger = open(LedgerUse::kServe);
  MessageRow row{.id = "a/2", .agent = "a", .direction = "outbox", .path = "p", .status = "processing"};
  Delivery delivery{.message_id = "a/2", .recipient = "b", .inbox_name = "2.msg"};
  ASSERT_OK(ledger->add_message(row));
  ASSERT_OK(ledger->add_delivery(delivery));
  EXPECT_EQ(delivery.id, first.delivery.id + 1);
  EXPECT_EQ(put(3).delivery.id, first.delivery.id + 2);
  ASSERT_OK(ledger->enter_all());
}

TEST_F(LedgerArrivalsTest, AnOlderLedgerHasNoArrivals) {
  {
    auto db = std::move(open_sqlite(path, EngineUse::kWrite)).value();
    ASSERT_OK(db->execute("DROP VIEW every_message; DROP VIEW every_delivery; DROP TABLE arrivals"));
  }
  auto reader = open(LedgerUse::kRead);
  EXPECT_FALSE(reader->find_message("a/1")->has_value());
  EXPECT_OK(reader->count());
  auto other = open(LedgerUse::kRequest);
  EXPECT_OK(other->enter_all());
}

TEST(Arrivals, AreFoundByEachKeyUntilTheyAreEntered) {
  Arrivals arrivals;
  std::string file = "1000000000000000001-0123456789abcdef.msg";
  arrivals.add({.id = "a/1"}, {.id = 5, .message_id = "a/1", .recipient = "b", .inbox_name = file});
  ASSERT_NE(arrivals.find_message("a/1"), nullptr);
  EXPECT_EQ(arrivals.find_message("a/1")->delivery.id, 5);
  EXPECT_NE(arrivals.find_in_inbox("b", file), nullptr);
  EXPECT_EQ(arrivals.find_in_inbox("c", file), nullptr);
  EXPECT_EQ(arrivals.find_in_inbox("b", "1000000000000000001-aaaaaaaaaaaaaaaa.msg"), nullptr);
  EXPECT_EQ(arrivals.find_in_inbox("b", "no stamp"), nullptr);
  arrivals.remove(1'000'000'000'000'000'001);
  EXPECT_EQ(arrivals.find_message("a/1"), nullptr);
  EXPECT_EQ(arrivals.find_in_inbox("b", file), nullptr);
}

}  // namespace
}  // namespace warren::relay
