#include "relay/delivery/mailroom.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

class MailroomTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    ASSERT_OK(root->make_agent("bob"));
    delivery.recipient = "bob";
    delivery.inbox_name = "1-deadbeef.msg";
  }
  std::string inbox_file() { return root->path() + "/agents/bob/inbox/" + delivery.inbox_name; }

  ::warren::testing::TempDir dir;
  std::unique_ptr<Root> root;
  Delivery delivery;
};

TEST_F(MailroomTest, AStagedFileAppearsInTheInboxOnceItIsPublished) {
  Mailroom mailroom(*root);
  ASSERT_OK(mailroom.stage(delivery, "hello"));
  ASSERT_OK(mailroom.sync_staged());
  EXPECT_FALSE(find_host_file(inbox_file())->has_value());
  ASSERT_OK(mailroom.publish(delivery));
  EXPECT_EQ(*read_host_file(inbox_file(), 100), "hello");
  EXPECT_FALSE(mailroom.is_staged(delivery));
}

TEST_F(MailroomTest, PublishingAgainDoesNotBringBackAFileTheReceiverTook) {
  Mailroom mailroom(*root);
  ASSERT_OK(mailroom.stage(delivery, "hello"));
  ASSERT_OK(mailroom.sync_staged());
  ASSERT_OK(mailroom.publish(delivery));
  ASSERT_EQ(::unlink(inbox_file().c_str()), 0);
  EXPECT_OK(mailroom.publish(delivery));
  EXPECT_FALSE(find_host_file(inbox_file())->has_value());
}

TEST_F(MailroomTest, ArchivingRemovesNothingThatTheArchiveDoesNotHave) {
  Mailroom mailroom(*root);
  std::string file = "1-deadbeef.msg";
  std::string outbox = root->path() + "/agents/bob/outbox/" + file;
  std::string path = "archive/2024-01-01/bob/" + file;
  for (const char* content : {"first", "first", "other", "third"}) {
    ASSERT_OK(replace_host_file(outbox, content, 0600));
    ASSERT_OK(mailroom.archive("bob", file, path));
    EXPECT_FALSE(find_host_file(outbox)->has_value());
  }
  EXPECT_EQ(*read_host_file(root->path() + "/" + path, 100), "first");
  EXPECT_EQ(*read_host_file(root->path() + "/" + path + ".1", 100), "other");
  EXPECT_EQ(*read_host_file(root->path() + "/" + path + ".2", 100), "third");
}

TEST_F(MailroomTest, AnInboxThatIsALinkIsNotWrittenThrough) {
  std::string inbox = root->path() + "/agents/bob/inbox";
  ASSERT_EQ(::rmdir((inbox + "/.done").c_str()), 0);
  ASSERT_EQ(::rmdir(inbox.c_str()), 0);
  ASSERT_EQ(::symlink(dir.path().c_str(), inbox.c_str()), 0);
  Mailroom mailroom(*root);
  ASSERT_OK(mailroom.stage(delivery, "hello"));
  ASSERT_OK(mailroom.sync_staged());
  EXPECT_FALSE(mailroom.publish(delivery).ok());
  EXPECT_FALSE(find_host_file(dir.file(delivery.inbox_name))->has_value());
  EXPECT_TRUE(mailroom.is_staged(delivery));
}

TEST_F(MailroomTest, TheRootIsPrivateAndOnlyOneProcessLocksIt) {
  ASSERT_EQ(::chmod(root->path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod((root->path() + "/config.json").c_str(), 0644), 0);
  auto again = std::move(Root::open(root->path(), MakeRoot::kYes)).value();
  EXPECT_EQ(again->repaired(), (std::vector<std::string>{".", "config.json"}));
  EXPECT_EQ((*find_host_file(root->path()))->st_mode & 07777, 0700U);
  ASSERT_OK(root->lock());
  EXPECT_TRUE(again->is_locked_by_other());
  EXPECT_EQ(error_of(again->lock()), Code::kBusy);
}

TEST_F(MailroomTest, OnlyRegularFilesWithinTheSizeLimitAreRead) {
  std::string home = root->path() + "/agents/bob";
  ASSERT_EQ(::symlink("/etc/passwd", (home + "/link").c_str()), 0);
  ASSERT_EQ(::mkfifo((home + "/pipe").c_str(), 0600), 0);
  ASSERT_OK(replace_host_file(home + "/file", "12345", 0600));
  EXPECT_EQ(error_of(read_below(root->agents(), "bob/link", 100'000)), Code::kLoop);
  EXPECT_EQ(error_of(read_below(root->agents(), "bob/pipe", 100)), Code::kInvalid);
  EXPECT_EQ(error_of(read_below(root->agents(), "bob/file", 4)), Code::kTooLarge);
  EXPECT_EQ(read_below(root->agents(), "bob/file", 5)->content, "12345");
  EXPECT_FALSE(read_below(root->agents(), "bob/../../config.json", 100).ok() &&
               read_below(root->agents(), "../config.json", 100).ok());
}

TEST(Ledger, ADeliveryMovesOnAndItsMessagesStatusFollows) {
  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  auto ledger = std::move(Ledger::open(dir.file("ledger.db"), LedgerUse::kServe, clock)).value();
  MessageRow row{.id = "a/1", .agent = "a", .direction = "outbox", .path = "archive/x", .status = "processing"};
  Delivery to_b{.message_id = "a/1", .recipient = "b", .inbox_name = "5-deadbeef.msg"};
  Delivery to_c{.message_id = "a/1", .recipient = "c", .inbox_name = "5-deadbeef.msg"};
  {
    auto transaction = std::move(ledger->begin()).value();
    ASSERT_OK(ledger->add_message(row));
    ASSERT_OK(ledger->add_delivery(to_b));
    ASSERT_OK(ledger->add_delivery(to_c));
    ASSERT_OK(transaction.commit());
  }
  EXPECT_EQ(ledger->due({})->size(), 2U);
  EXPECT_EQ(*ledger->newest_inbox_ns(), 5);
  ASSERT_OK(ledger->set_state(to_b, DeliveryState::kDelivered));
  ASSERT_OK(ledger->update_status("a/1"));
  EXPECT_EQ((*ledger->find_message("a/1"))->message.status, "processing");
  ASSERT_OK(ledger->bury(to_c, "gone"));
  ASSERT_OK(ledger->update_status("a/1"));
  EXPECT_EQ((*ledger->find_message("a/1"))->message.status, "failed");
  EXPECT_EQ(ledger->list_dead(10)->front().reason, "gone");
  EXPECT_TRUE(*ledger->is_needed("a/1"));
  ASSERT_OK(ledger->close_dead_letter(ledger->list_dead(10)->front().id, "discarded"));
  EXPECT_FALSE(*ledger->is_needed("a/1"));
  EXPECT_TRUE(ledger->check()->empty());
  EXPECT_FALSE(ledger->add_message(row).ok());
}

TEST(Ledger, ARetryIsDueAtItsTimeOrWhenTheClockWasSetBack) {
  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  auto ledger = std::move(Ledger::open(dir.file("ledger.db"), LedgerUse::kServe, clock)).value();
  Delivery delivery{
      .message_id = "a/1", .recipient = "b", .inbox_name = "5-deadbeef.msg", .attempts = 1, .next_at_ms = 1'000'000};
  ASSERT_OK(ledger->add_delivery(delivery));
  EXPECT_EQ(ledger->due({.now_ms = 999'000, .attempts_min = 1})->size(), 0U);
  EXPECT_EQ(*ledger->next_due_ms(999'000), 1'000'000);
  EXPECT_EQ(ledger->due({.now_ms = 1'000'000, .attempts_min = 1})->size(), 1U);
  EXPECT_EQ(ledger->due({.now_ms = 5'000, .attempts_min = 1})->size(), 1U);
}

}  // namespace
}  // namespace warren::relay
