#include "relay/upkeep/fsck.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crypto/digest.h"
#include "os/files/host_files.h"
#include "relay/delivery/mailroom.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FsckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    ASSERT_OK(root->make_agent("bob"));
    ledger = std::move(Ledger::open(root->ledger_path(), LedgerUse::kServe, clock)).value();
  }
  std::string path(const std::string& relative) { return root->path() + "/" + relative; }
  void put(const std::string& relative, std::string_view content) {
    ASSERT_OK(replace_host_file(path(relative), content, 0600));
  }
  Delivery add(const std::string& stem, DeliveryState state, const std::string& to = "bob") {
    std::string id = "alice/" + stem;
    MessageRow row{.id = id,
                   .agent = "alice",
                   .direction = "outbox",
                   .path = fmt::format("archive/2026-01-01/alice/{}.msg", stem),
                   .status = state == DeliveryState::kDelivered ? "completed" : "processing"};
    EXPECT_OK(ledger->add_message(row));
    EXPECT_OK(root->make_archive("2026-01-01", "alice"));
    EXPECT_OK(replace_host_file(path(row.path), "TO: bob\n\n", 0600));
    Delivery delivery{.message_id = id, .recipient = to, .state = state, .inbox_name = stem + ".msg"};
    EXPECT_OK(ledger->add_delivery(delivery));
    return delivery;
  }
  std::string attach(std::string_view content) {
    std::string hash = sha256_hex(as_bytes(content));
    ::mkdir(path("attachments/" + hash.substr(0, 2)).c_str(), 0700);
    put(attachment(hash), content);
    return hash;
  }
  static std::string attachment(const std::string& hash) { return "attachments/" + hash.substr(0, 2) + "/" + hash; }
  std::vector<std::string> problems(Depth depth = Depth::kNames) {
    return std::move(fsck(*root, *ledger, Repair::kNo, depth)).value().problems;
  }
  FsckReport repair(Depth depth = Depth::kNames) {
    return std::move(fsck(*root, *ledger, Repair::kYes, depth)).value();
  }

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  std::unique_ptr<Root> root;
  std::unique_ptr<Ledger> ledger;
};

TEST_F(FsckTest, AConsistentRelayHasNoProblems) {
  add("1-aaaaaaaa", DeliveryState::kDelivered);
  put("agents/bob/inbox/1-aaaaaaaa.msg", "x");
  add("2-aaaaaaaa", DeliveryState::kStored);
  Delivery staged = add("3-aaaaaaaa", DeliveryState::kPending);
  put("tmp/deliveries/" + staged_name(staged.inbox_name, "bob"), "x");
  EXPECT_THAT(problems(Depth::kContent), IsEmpty());
}

TEST_F(FsckTest, AnUnknownFileInAnInboxIsReportedAndKept) {
  put("agents/bob/inbox/1-aaaaaaaa.msg", "x");
  put("agents/bob/inbox/notes", "x");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("1-aaaaaaaa.msg is not in the ledger")));
  EXPECT_THAT(repair().repaired, IsEmpty());
  EXPECT_TRUE(find_host_file(path("agents/bob/inbox/1-aaaaaaaa.msg"))->has_value());
}

TEST_F(FsckTest, AWaitingMessageThatIsAlreadyInTheInboxIsReported) {
  add("1-aaaaaaaa", DeliveryState::kStored);
  put("agents/bob/inbox/1-aaaaaaaa.msg", "x");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("not delivered yet")));
}

TEST_F(FsckTest, AWaitingMessageWithoutItsFileIsReported) {
  add("1-aaaaaaaa", DeliveryState::kStored);
  add("2-aaaaaaaa", DeliveryState::kHeld, "Lead");
  ASSERT_EQ(::unlink(path("archive/2026-01-01/alice/1-aaaaaaaa.msg").c_str()), 0);
  ASSERT_EQ(::unlink(path("archive/2026-01-01/alice/2-aaaaaaaa.msg").c_str()), 0);
  EXPECT_THAT(problems(), ElementsAre("message alice/1-aaaaaaaa has no file", "message alice/2-aaaaaaaa has no file"));
  ASSERT_OK(root->make_agent("alice"));
  put("agents/alice/outbox/1-aaaaaaaa.msg", "TO: bob\n\n");  // killed before it was archived
  EXPECT_THAT(problems(), ElementsAre("message alice/2-aaaaaaaa has no file"));
}

TEST_F(FsckTest, ADeliveryWithoutAMessageIsReported) {
  Delivery delivery{
      .message_id = "alice/9", .recipient = "bob", .state = DeliveryState::kStored, .inbox_name = "9-aaaaaaaa.msg"};
  ASSERT_OK(ledger->add_delivery(delivery));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("a delivery has no message")));
}

TEST_F(FsckTest, AStagedFileWithoutADeliveryIsRemoved) {
  put("tmp/deliveries/1-aaaaaaaa.msg.bob", "x");
  put("tmp/deliveries/garbage", "x");
  add("2-aaaaaaaa", DeliveryState::kDelivered);
  put("tmp/deliveries/2-aaaaaaaa.msg.bob", "x");
  EXPECT_EQ(problems().size(), 3U);
  EXPECT_EQ(repair().repaired.size(), 3U);
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(FsckTest, AStatusThatContradictsItsDeliveriesIsCorrected) {
  Delivery delivery = add("1-aaaaaaaa", DeliveryState::kPending);
  ASSERT_OK(ledger->set_state(delivery, DeliveryState::kDelivered));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("which does not match its deliveries")));
  EXPECT_THAT(repair().repaired, ElementsAre(HasSubstr("statuses")));
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(FsckTest, AMissingAttachmentIsReportedWhileADeliveryNeedsIt) {
  Delivery delivery = add("1-aaaaaaaa", DeliveryState::kDelivered);
  std::string hash = attach("content");
  ASSERT_OK(ledger->add_reference(hash, delivery.message_id));
  EXPECT_THAT(problems(Depth::kContent), IsEmpty());
  ASSERT_EQ(::unlink(path(attachment(hash)).c_str()), 0);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr(hash)));
  ASSERT_OK(ledger->set_state(delivery, DeliveryState::kRead));
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(FsckTest, AWrongAttachmentIsFoundByADeepCheckAndMovedAside) {
  std::string hash = attach("content");
  put(attachment(hash), "c0ntent");
  EXPECT_THAT(problems(), IsEmpty());
  EXPECT_THAT(problems(Depth::kContent), ElementsAre(HasSubstr(hash)));
  EXPECT_EQ(repair(Depth::kContent).repaired.size(), 1U);
  EXPECT_THAT(problems(Depth::kContent), IsEmpty());
  EXPECT_FALSE(find_host_link(path(attachment(hash)))->has_value());
}

TEST_F(FsckTest, LinksAndUnknownFilesInTheStoreAreReported) {
  std::string hash = attach("content");
  ASSERT_EQ(::link(path(attachment(hash)).c_str(), dir.file("other").c_str()), 0);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("several hard links")));
  EXPECT_EQ(repair().repaired.size(), 1U);
  put("attachments/" + hash.substr(0, 2) + "/note", "x");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("note is not an attachment")));
  ASSERT_EQ(::symlink(dir.path().c_str(), path("attachments/00").c_str()), 0);
  EXPECT_EQ(problems().size(), 2U);
}

TEST_F(FsckTest, AnAttachmentUnreferencedForADayIsRemoved) {
  std::string hash = attach("content");
  struct stat info = *std::move(find_host_link(path(attachment(hash)))).value();
  FileIdentity identity{info.st_ino, 7, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec, 0};
  ASSERT_OK(ledger->put_attachment({hash, identity, true, clock.now_us()}));
  clock.advance_ns(std::int64_t{24} * 3'600'000'000'000);
  EXPECT_THAT(problems(), IsEmpty());
  clock.advance_ns(std::int64_t{2} * 3'600'000'000'000);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("no message refers to it")));
  EXPECT_EQ(repair().repaired.size(), 1U);
  EXPECT_THAT(problems(), IsEmpty());
  EXPECT_FALSE(find_host_link(path(attachment(hash)))->has_value());
}

}  // namespace
}  // namespace warren::relay
