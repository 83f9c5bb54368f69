#include "relay/ledger/ledger.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

class LedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() { ledger = std::move(Ledger::open(path, LedgerUse::kServe, clock)).value(); }
  void add_message(const std::string& id) {
    MessageRow row{.id = id, .agent = "a", .direction = "outbox", .path = "archive/" + id, .status = "processing"};
    ASSERT_OK(ledger->add_message(row));
  }
  Delivery add(const std::string& id, const std::string& to, DeliveryState state = DeliveryState::kPending) {
    Delivery delivery{.message_id = id, .recipient = to, .state = state, .inbox_name = id + ".msg"};
    EXPECT_OK(ledger->add_delivery(delivery));
    return delivery;
  }
  std::string status(const std::string& id) { return (*ledger->find_message(id))->message.status; }

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  std::string path = dir.file("ledger.db");
  std::unique_ptr<Ledger> ledger;
};

TEST_F(LedgerTest, OnlyTheRelayCreatesALedger) {
  EXPECT_EQ(error_of(Ledger::open(dir.file("other.db"), LedgerUse::kRead, clock)), Code::kNotFound);
  EXPECT_EQ(error_of(Ledger::open(dir.file("other.db"), LedgerUse::kRequest, clock)), Code::kNotFound);
  EXPECT_OK(Ledger::open(path, LedgerUse::kRead, clock));
  ASSERT_OK(replace_host_file(dir.file("text"), std::string(5000, 'x'), 0600));
  EXPECT_FALSE(Ledger::open(dir.file("text"), LedgerUse::kServe, clock).ok());
}

TEST_F(LedgerTest, AMessageIsReadBackAsItWasWrittenEvenAfterReopening) {
  MessageRow row{"a/1", "a", "outbox", "p", 1, 2, 3, "sum", "processing", "message", "b", 4, "why"};
  ASSERT_OK(ledger->add_message(row));
  ledger.reset();
  open();
  MessageRow found = (*ledger->find_message("a/1"))->message;
  EXPECT_EQ(std::tie(found.id, found.agent, found.direction, found.path, found.size, found.mtime_ns, found.inode),
            std::tie(row.id, row.agent, row.direction, row.path, row.size, row.mtime_ns, row.inode));
  EXPECT_EQ(std::tie(found.checksum, found.status, found.type, found.target, found.discovered_at_us, found.error),
            std::tie(row.checksum, row.status, row.type, row.target, row.discovered_at_us, row.error));
  EXPECT_FALSE(ledger->find_message("a/2")->has_value());
}

TEST_F(LedgerTest, UncommittedRowsAreNotFound) {
  {
    auto transaction = std::move(ledger->begin()).value();
    add_message("a/1");
  }
  EXPECT_FALSE(ledger->find_message("a/1")->has_value());
}

TEST_F(LedgerTest, ADeliveryAndItsInboxNameAreUniquePerRecipient) {
  add_message("a/1");
  add("a/1", "b");
  Delivery again{.message_id = "a/1", .recipient = "b", .inbox_name = "other.msg"};
  EXPECT_FALSE(ledger->add_delivery(again).ok());
  Delivery same_file{.message_id = "a/2", .recipient = "b", .inbox_name = "a/1.msg"};
  EXPECT_FALSE(ledger->add_delivery(same_file).ok());
}

TEST_F(LedgerTest, DeliveriesAreFoundByEachKey) {
  add_message("a/1");
  Delivery to_b = add("a/1", "b");
  Delivery to_c = add("a/1", "c", DeliveryState::kStored);
  EXPECT_EQ((*ledger->find_delivery(to_b.id))->recipient, "b");
  EXPECT_EQ((*ledger->find_in_inbox("c", "a/1.msg"))->id, to_c.id);
  EXPECT_EQ((*ledger->find_to("a/1", "c"))->state, DeliveryState::kStored);
  EXPECT_FALSE(ledger->find_to("a/1", "d")->has_value());
  EXPECT_EQ(ledger->list_deliveries("a/1")->size(), 2U);
  EXPECT_EQ(ledger->in_state("c", DeliveryState::kStored, 0, 10)->size(), 1U);
  EXPECT_TRUE(ledger->in_state("c", DeliveryState::kStored, to_c.id, 10)->empty());
}

TEST_F(LedgerTest, DueDeliveriesAreListedInPagesInOrder) {
  for (int i = 0; i < 10; ++i) add(fmt::format("a/{}", i), "b");
  DueFilter filter{.limit = 4};
  std::vector<std::string> seen;
  for (;;) {
    std::vector<Delivery> page = *ledger->due(filter);
    if (page.empty()) break;
    ASSERT_LE(page.size(), 4U);
    for (const Delivery& one : page) seen.push_back(one.message_id);
    filter.after = page.back().id;
  }
  ASSERT_EQ(seen.size(), 10U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST_F(LedgerTest, AHeldDeliveryBecomesPendingForItsCurrentRecipient) {
  Delivery held = add("a/1", "Lead", DeliveryState::kHeld);
  held.recipient = "boss";
  held.deadline_ms = 77;
  ASSERT_OK(ledger->set_pending(held));
  Delivery found = **ledger->find_delivery(held.id);
  EXPECT_EQ(found.recipient, "boss");
  EXPECT_EQ(found.state, DeliveryState::kPending);
  EXPECT_EQ(found.deadline_ms, 77);
}

TEST_F(LedgerTest, AMessagesStatusFollowsItsDeliveries) {
  add_message("a/1");
  Delivery one = add("a/1", "b");
  Delivery two = add("a/1", "c", DeliveryState::kStored);
  ASSERT_OK(ledger->set_state(one, DeliveryState::kDelivered));
  ASSERT_OK(ledger->update_status("a/1"));
  EXPECT_EQ(status("a/1"), "processing");
  EXPECT_TRUE(*ledger->is_needed("a/1"));
  ASSERT_OK(ledger->set_state(two, DeliveryState::kAcked));
  ASSERT_OK(ledger->update_status("a/1"));
  EXPECT_EQ(status("a/1"), "completed");
  EXPECT_FALSE(*ledger->is_needed("a/1"));
}

TEST_F(LedgerTest, StatusesThatDisagreeWithDeliveriesAreFoundAndSet) {
  add_message("a/1");
  Delivery delivery = add("a/1", "b");
  EXPECT_TRUE(ledger->check()->empty());
  ASSERT_OK(ledger->set_state(delivery, DeliveryState::kDelivered));
  ASSERT_EQ(ledger->check()->size(), 1U);
  EXPECT_NE(ledger->check()->front().find("a/1"), std::string::npos);
  ASSERT_OK(ledger->update_statuses());
  EXPECT_TRUE(ledger->check()->empty());
}

TEST_F(LedgerTest, AgentsAreStoredWithTheTimeTheyWereLastSeen) {
  ASSERT_OK(ledger->put_agent({"b", 5, 9, "active"}));
  ASSERT_OK(ledger->put_agent({"a", 6, 0, "active"}));
  ASSERT_OK(ledger->put_agent({"b", 7, 3, "inactive"}));
  std::vector<AgentRow> agents = *ledger->list_agents();
  ASSERT_EQ(agents.size(), 2U);
  EXPECT_EQ(agents[1].registered_at_us, 5);
  EXPECT_EQ(agents[1].last_seen_at_us, 9);
  EXPECT_EQ(agents[1].status, "inactive");
  ASSERT_OK(ledger->touch_agent("a"));
  EXPECT_EQ(ledger->list_agents()->front().last_seen_at_us, clock.now_us());
}

TEST_F(LedgerTest, SubscriptionsAreASet) {
  ASSERT_OK(ledger->subscribe("news", "a"));
  ASSERT_OK(ledger->subscribe("news", "a"));
  ASSERT_OK(ledger->subscribe("news", "b"));
  ASSERT_OK(ledger->unsubscribe("news", "b"));
  ASSERT_OK(ledger->unsubscribe("other", "b"));
  EXPECT_EQ(*ledger->list_subscriptions(), (std::map<std::string, std::set<std::string>>{{"news", {"a"}}}));
}

TEST_F(LedgerTest, DeadLettersAreListedUntilTheyAreClosed) {
  Delivery delivery = add("a/1", "b");
  ASSERT_OK(ledger->bury(delivery, "full"));
  ASSERT_OK(ledger->bury_message("a/2", "nobody"));
  std::vector<DeadLetter> letters = *ledger->list_dead(10);
  ASSERT_EQ(letters.size(), 2U);
  EXPECT_EQ(letters[0].recipient, "b");
  EXPECT_EQ(letters[1].recipient, "");
  EXPECT_EQ((*ledger->find_delivery(delivery.id))->state, DeliveryState::kDead);
  ASSERT_OK(ledger->close_dead_letter(letters[0].id, "discarded"));
  EXPECT_EQ(ledger->list_dead(10)->size(), 1U);
  EXPECT_FALSE(ledger->find_dead(letters[0].id)->has_value());
  EXPECT_TRUE(ledger->find_dead(letters[1].id)->has_value());
}

TEST_F(LedgerTest, RequestsFromOtherProcessesAreSeenAndCompletedOnce) {
  auto other = std::move(Ledger::open(path, LedgerUse::kRequest, clock)).value();
  ASSERT_OK(other->request("discard", "{}"));
  ASSERT_OK(other->request("collect", "{}"));
  std::vector<Operation> operations = *ledger->open_operations(0, 10);
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0].type, "discard");
  ASSERT_OK(ledger->end_operation({operations[0].id}));
  EXPECT_EQ(ledger->open_operations(0, 10)->size(), 1U);
  EXPECT_EQ(ledger->open_operations(operations[1].id, 10)->size(), 0U);
}

TEST_F(LedgerTest, CountsAndValues) {
  add_message("a/1");
  add("a/1", "b");
  add("a/1", "c", DeliveryState::kStored);
  Counts counts = *ledger->count();
  EXPECT_EQ(counts.messages, (std::map<std::string, std::int64_t>{{"processing", 1}}));
  EXPECT_EQ(counts.deliveries, (std::map<std::string, std::int64_t>{{"pending", 1}, {"stored", 1}}));
  EXPECT_EQ(counts.dead_letters, 0);
  EXPECT_FALSE(ledger->find_value("key")->has_value());
  ASSERT_OK(ledger->put_value("key", "1"));
  ASSERT_OK(ledger->put_value("key", "2"));
  EXPECT_EQ(*ledger->find_value("key"), "2");
}

TEST_F(LedgerTest, AttachmentsAreFoundByTheirFirstDigits) {
  for (const char* start : {"a8", "a9", "aa", "ff"}) {
    std::string hash = start + std::string(62, start[1]);
    ASSERT_OK(ledger->put_attachment({hash, {1, 2, 3, 4}, true, 0}));
  }
  ASSERT_EQ(ledger->list_attachments("a9")->size(), 1U);
  AttachmentRow row = ledger->list_attachments("a9")->front();
  EXPECT_EQ(row.identity, (FileIdentity{1, 2, 3, 4}));
  EXPECT_TRUE(row.is_verified);
  EXPECT_FALSE(row.is_referenced);
  EXPECT_EQ(ledger->list_attachments("ff")->size(), 1U);
  EXPECT_TRUE(ledger->list_attachments("00")->empty());
  ASSERT_OK(ledger->put_attachment({row.hash, {5, 6, 7, 8}, false, 9}));
  row = **ledger->find_attachment(row.hash);
  EXPECT_EQ(row.identity, (FileIdentity{5, 6, 7, 8}));
  EXPECT_EQ(row.unreferenced_since_us, 9);
  ASSERT_OK(ledger->shift_unreferenced(100));
  EXPECT_EQ((*ledger->find_attachment(row.hash))->unreferenced_since_us, 109);
  EXPECT_EQ(ledger->list_attachments("a8")->front().unreferenced_since_us, 0);
  ASSERT_OK(ledger->remove_attachment(row.hash));
  EXPECT_FALSE(ledger->find_attachment(row.hash)->has_value());
}

TEST_F(LedgerTest, ReferencesArePagedAndKnowWhetherTheyAreOpen) {
  add_message("a/1");
  add_message("a/2");
  add("a/1", "b", DeliveryState::kDelivered);
  add("a/2", "b", DeliveryState::kRead);
  for (const char* id : {"a/1", "a/2", "a/2", "a/3"}) ASSERT_OK(ledger->add_reference("h", id));
  std::vector<AttachmentReference> all = *ledger->list_references({}, 10);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_TRUE(all[0].is_open);
  EXPECT_FALSE(all[1].is_open);
  EXPECT_FALSE(all[2].is_open);  // its message is gone
  EXPECT_EQ(ledger->list_references(all[0], 1)->front().message_id, "a/2");
  ASSERT_OK(ledger->remove_reference(all[0]));
  EXPECT_EQ(ledger->list_references({}, 10)->size(), 2U);
}

}  // namespace
}  // namespace warren::relay
