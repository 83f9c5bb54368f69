#include "relay/upkeep/archive.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

class ArchiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    ledger = std::move(Ledger::open(root->ledger_path(), LedgerUse::kServe, clock)).value();
  }
  std::string path(const std::string& relative) { return root->path() + "/archive/" + relative; }
  void put(const std::string& day, const std::string& agent, const std::string& file, std::string_view content) {
    ASSERT_OK(root->make_archive(day, agent));
    ASSERT_OK(replace_host_file(path(day + "/" + agent + "/" + file), content, 0600));
  }
  bool exists(const std::string& relative) { return find_host_file(path(relative))->has_value(); }

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  std::unique_ptr<Root> root;
  std::unique_ptr<Ledger> ledger;
};

TEST_F(ArchiveTest, DaysAreListedWithFilesAndBytes) {
  EXPECT_TRUE(list_archive(*root)->empty());
  put("2026-01-02", "a", "1-aaaaaaaa.msg", "12345");
  put("2026-01-02", "b", "1-aaaaaaaa.msg", "1");
  put("2026-01-01", "a", "1-aaaaaaaa.msg", "12");
  std::vector<ArchiveDay> days = *list_archive(*root);
  ASSERT_EQ(days.size(), 2U);
  EXPECT_EQ(days[0].date, "2026-01-01");
  EXPECT_EQ(days[1].files, 2U);
  EXPECT_EQ(days[1].bytes, 6U);
}

TEST_F(ArchiveTest, DaysBeforeTheDateAreRemovedWithTheirDirectories) {
  put("2025-12-31", "a", "1-aaaaaaaa.msg", "x");
  put("2025-12-31", "b", "1-aaaaaaaa.msg.conflict-00", "x");
  put("2026-01-01", "a", "2-aaaaaaaa.msg", "x");
  EXPECT_EQ(*prune_archive(*root, *ledger, "2026-01-01"), 2U);
  EXPECT_FALSE(exists("2025-12-31"));
  EXPECT_TRUE(exists("2026-01-01/a/2-aaaaaaaa.msg"));
  EXPECT_EQ(*prune_archive(*root, *ledger, "2026-01-01"), 0U);
}

TEST_F(ArchiveTest, FilesNeededByADeliveryOrADeadLetterStay) {
  for (const char* name : {"1-aaaaaaaa", "2-aaaaaaaa", "3-aaaaaaaa"}) {
    put("2025-12-31", "a", std::string(name) + ".msg", "x");
    std::string id = "a/" + std::string(name);
    MessageRow row{.id = id, .agent = "a", .direction = "outbox", .path = id, .status = "processing"};
    ASSERT_OK(ledger->add_message(row));
  }
  Delivery stored{
      .message_id = "a/1-aaaaaaaa", .recipient = "b", .state = DeliveryState::kStored, .inbox_name = "1-aaaaaaaa.msg"};
  Delivery read{
      .message_id = "a/2-aaaaaaaa", .recipient = "b", .state = DeliveryState::kRead, .inbox_name = "2-aaaaaaaa.msg"};
  ASSERT_OK(ledger->add_delivery(stored));
  ASSERT_OK(ledger->add_delivery(read));
  ASSERT_OK(ledger->bury_message("a/3-aaaaaaaa", "nobody"));
  EXPECT_EQ(*prune_archive(*root, *ledger, "2026-01-01"), 1U);
  EXPECT_TRUE(exists("2025-12-31/a/1-aaaaaaaa.msg"));
  EXPECT_FALSE(exists("2025-12-31/a/2-aaaaaaaa.msg"));
  EXPECT_TRUE(exists("2025-12-31/a/3-aaaaaaaa.msg"));
  ASSERT_OK(ledger->set_state(stored, DeliveryState::kDelivered));
  ASSERT_OK(ledger->close_dead_letter(1, "discarded"));
  EXPECT_EQ(*prune_archive(*root, *ledger, "2026-01-01"), 2U);
  EXPECT_FALSE(exists("2025-12-31"));
}

TEST_F(ArchiveTest, LinksAreNotFollowed) {
  ASSERT_EQ(::mkdir(dir.file("elsewhere").c_str(), 0700), 0);
  ASSERT_OK(replace_host_file(dir.file("elsewhere/1-aaaaaaaa.msg"), "x", 0600));
  ASSERT_OK(root->make_archive("2025-01-01", "a"));
  ASSERT_EQ(::symlink(dir.file("elsewhere").c_str(), path("2025-01-01/b").c_str()), 0);
  ASSERT_EQ(::symlink(dir.path().c_str(), path("2024-01-01").c_str()), 0);
  EXPECT_EQ(*prune_archive(*root, *ledger, "2026-01-01"), 0U);
  EXPECT_TRUE(find_host_file(dir.file("elsewhere/1-aaaaaaaa.msg"))->has_value());
}

}  // namespace
}  // namespace warren::relay
