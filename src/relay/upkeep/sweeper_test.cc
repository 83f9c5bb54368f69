#include "relay/upkeep/sweeper.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;  // 2023-11-14
constexpr std::int64_t kDay = 86'400;

class SweeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    ledger = std::move(Ledger::open(root->ledger_path(), LedgerUse::kServe, clock)).value();
  }
  Sweeper sweeper(int files_max = 1'000'000) {
    return Sweeper(*root, *ledger, clock, [this, files_max] { return ++asked < files_max; });
  }
  void write(const std::string& path, std::int64_t mtime = kNow) {
    std::string whole = root->path() + "/" + path;
    ASSERT_OK(make_host_dirs(whole.substr(0, whole.rfind('/')), 0700));
    ASSERT_OK(replace_host_file(whole, "x", 0600));
    touch(path, mtime);
  }
  void touch(const std::string& path, std::int64_t mtime) {
    timespec times[2] = {{mtime, 0}, {mtime, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (root->path() + "/" + path).c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
  }
  bool exists(const std::string& path) { return find_host_link(root->path() + "/" + path)->has_value(); }
  // Records a message of the day with one delivery in this state.
  std::string record(const std::string& stem, const std::string& day, DeliveryState state, std::int64_t at_us = 0) {
    MessageRow row{.id = "alice/" + stem, .agent = "alice", .direction = "outbox"};
    row.path = "archive/" + day + "/alice/" + stem + ".msg";
    row.status = "processing";
    row.discovered_at_us = at_us;
    Delivery delivery{.message_id = row.id, .recipient = "bob", .inbox_name = stem + ".msg"};
    EXPECT_TRUE(ledger->add_message(row).ok());
    EXPECT_TRUE(ledger->add_delivery(delivery).ok());
    EXPECT_TRUE(state == DeliveryState::kDead ? ledger->bury(delivery, "why").ok()
                                              : ledger->set_state(delivery, state).ok());
    EXPECT_TRUE(ledger->update_status(row.id).ok());
    return row.id;
  }

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock{kNow};
  std::unique_ptr<Root> root;
  std::unique_ptr<Ledger> ledger;
  int asked = 0;
};

const std::function<bool()> kNever = [] { return false; };

TEST_F(SweeperTest, OnlyDaysBeforeTheDateAreRemovedAndNothingElse) {
  write("archive/2023-01-01/alice/1-aaaaaaaa.msg");
  write("archive/2023-01-01/alice/1-aaaaaaaa.msg.conflict-12");
  write("archive/2023-01-02/bob/deep/er/1-aaaaaaaa.msg");
  write("archive/2023-01-03/alice/1-aaaaaaaa.msg");
  write("archive/0000/alice/1-aaaaaaaa.msg");
  ASSERT_EQ(::symlink("2023-01-03", (root->path() + "/archive/2020-01-01").c_str()), 0);
  EXPECT_EQ(*sweeper().sweep_archive("2023-01-03", kNever), 2U);
  EXPECT_FALSE(exists("archive/2023-01-01"));
  EXPECT_FALSE(exists("archive/2023-01-02"));
  EXPECT_TRUE(exists("archive/2023-01-03/alice/1-aaaaaaaa.msg"));
  EXPECT_TRUE(exists("archive/0000"));
  EXPECT_TRUE(exists("archive/2020-01-01"));
  EXPECT_EQ(sweeper().remove_leftovers().value(), 0U);  // nothing is left in tmp/
}

TEST_F(SweeperTest, FilesNeededByADeliveryOrADeadLetterStay) {
  int number = 0;
  for (DeliveryState state : {DeliveryState::kPending, DeliveryState::kStored, DeliveryState::kHeld,
                              DeliveryState::kDead, DeliveryState::kRead, DeliveryState::kDelivered}) {
    std::string day = fmt::format("2023-01-0{}", ++number);
    record("1-aaaaaaaa", day, state);
    write("archive/" + day + "/alice/1-aaaaaaaa.msg");
    write("archive/" + day + "/alice/2-bbbbbbbb.msg");
    ledger = std::move(Ledger::open(root->ledger_path(), LedgerUse::kServe, clock)).value();
    bool is_needed = number <= 4;
    EXPECT_EQ(*sweeper().sweep_archive("2023-02-01", kNever), is_needed ? 1U : 2U) << name_of(state);
    EXPECT_EQ(exists("archive/" + day + "/alice/1-aaaaaaaa.msg"), is_needed) << name_of(state);
    EXPECT_FALSE(exists("archive/" + day + "/alice/2-bbbbbbbb.msg"));
    ASSERT_OK(ledger->engine().execute("DELETE FROM messages; DELETE FROM deliveries; DELETE FROM dead_letters"));
    ASSERT_OK(sweeper().sweep_archive("2023-02-01", kNever));
  }
}

TEST_F(SweeperTest, TheOldestDayIsRemovedFirstAndNoMoreThanEnough) {
  for (const char* day : {"2023-01-03", "2023-01-01", "2023-01-02"}) {
    write(fmt::format("archive/{}/alice/1-aaaaaaaa.msg", day));
  }
  EXPECT_EQ(*sweeper().sweep_archive("2023-02-01", [this] { return !exists("archive/2023-01-01"); }), 1U);
  EXPECT_TRUE(exists("archive/2023-01-02"));
  EXPECT_TRUE(exists("archive/2023-01-03"));
}

TEST_F(SweeperTest, AnInterruptedSweepIsFinishedAsALeftover) {
  for (int i = 0; i < 10; ++i) write(fmt::format("archive/2023-01-01/alice/{}-aaaaaaaa.msg", i));
  EXPECT_EQ(*sweeper(4).sweep_archive("2023-02-01", kNever), 3U);
  EXPECT_FALSE(exists("archive/2023-01-01"));
  asked = 0;
  EXPECT_EQ(*sweeper().remove_leftovers(), 1U);
  EXPECT_EQ(*sweeper().remove_leftovers(), 0U);
}

TEST_F(SweeperTest, LeftoversThatMayStillBeInUseStay) {
  write("tmp/old/half/done", kNow - 2 * kDay);
  touch("tmp/old", kNow - 3601);
  write("tmp/young/half");
  touch("tmp/young", kNow - 3599);
  write("tmp/removed-0123456789abcdef/inbox/1-aaaaaaaa.msg");
  touch("tmp/removed-0123456789abcdef", kNow - 6 * kDay);
  write("tmp/deliveries/1-aaaaaaaa.msg.bob", kNow - 2 * kDay);
  touch("tmp/deliveries", kNow - 2 * kDay);
  ASSERT_EQ(::symlink(dir.path().c_str(), (root->path() + "/tmp/link").c_str()), 0);
  touch("tmp/link", kNow - 2 * kDay);
  EXPECT_EQ(*sweeper().remove_leftovers(), 2U);
  EXPECT_FALSE(exists("tmp/old"));
  EXPECT_FALSE(exists("tmp/link"));
  EXPECT_TRUE(exists("tmp/young"));
  EXPECT_TRUE(exists("tmp/removed-0123456789abcdef/inbox/1-aaaaaaaa.msg"));
  touch("tmp/removed-0123456789abcdef", kNow - 8 * kDay);
  EXPECT_EQ(*sweeper().remove_leftovers(), 1U);
  EXPECT_TRUE(exists("tmp/deliveries/1-aaaaaaaa.msg.bob"));
}

TEST_F(SweeperTest, OldProcessedMessagesAreRemoved) {
  ASSERT_OK(root->make_agent("bob"));
  write("agents/bob/inbox/.done/1-aaaaaaaa.msg", kNow - 2 * kDay);
  write("agents/bob/inbox/.done/2-aaaaaaaa.msg", kNow);
  write("agents/bob/inbox/.done/notes", kNow - 2 * kDay);
  write("agents/bob/inbox/3-aaaaaaaa.msg", kNow - 2 * kDay);
  EXPECT_EQ(*sweeper().sweep_done(kNow - kDay), 1U);
  EXPECT_FALSE(exists("agents/bob/inbox/.done/1-aaaaaaaa.msg"));
  EXPECT_TRUE(exists("agents/bob/inbox/.done/2-aaaaaaaa.msg"));
  EXPECT_TRUE(exists("agents/bob/inbox/.done/notes"));
  EXPECT_TRUE(exists("agents/bob/inbox/3-aaaaaaaa.msg"));
}

TEST_F(SweeperTest, TheLedgerForgetsOnlyOldFinishedMessages) {
  std::int64_t old_us = (kNow - 2 * kDay) * 1'000'000;
  std::int64_t before_us = (kNow - kDay) * 1'000'000;
  clock.jump_ns(-2 * kDay * 1'000'000'000);  // settled then
  std::vector<std::string> stay;
  std::vector<std::string> go;
  int number = 0;
  for (DeliveryState state : {DeliveryState::kPending, DeliveryState::kStored, DeliveryState::kHeld,
                              DeliveryState::kDead, DeliveryState::kDelivered}) {
    stay.push_back(record(fmt::format("{}-aaaaaaaa", ++number), "2023-01-01", state, old_us));
  }
  for (DeliveryState state : {DeliveryState::kRead, DeliveryState::kAcked, DeliveryState::kNacked}) {
    go.push_back(record(fmt::format("{}-aaaaaaaa", ++number), "2023-01-01", state, old_us));
  }
  clock.jump_ns(2 * kDay * 1'000'000'000);
  stay.push_back(record("90-aaaaaaaa", "2023-01-01", DeliveryState::kRead, old_us));  // finished only now
  stay.push_back(record("91-aaaaaaaa", "2023-01-01", DeliveryState::kRead, kNow * 1'000'000));
  std::vector<Finished> found = ledger->list_finished(before_us, INT64_MIN, 100).value();
  std::vector<std::string> ids;
  for (const Finished& one : found) ids.push_back(one.message_id);
  EXPECT_EQ(ids, go);
  for (const std::string& id : go) EXPECT_TRUE(*ledger->remove_finished(id));
  for (const std::string& id : go) {
    EXPECT_FALSE(ledger->find_message(id)->has_value());
    EXPECT_TRUE(ledger->list_deliveries(id)->empty());
    EXPECT_FALSE(*ledger->remove_finished(id));
  }
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(*ledger->remove_finished(stay.at(static_cast<std::size_t>(i))));
  for (const std::string& id : stay) EXPECT_TRUE(ledger->find_message(id)->has_value()) << id;
}

TEST_F(SweeperTest, TheNewestDeliveryIsNotForgotten) {
  std::int64_t at = clock.now_us();
  record("1-aaaaaaaa", "2023-01-01", DeliveryState::kRead, at);
  record("9-aaaaaaaa", "2023-01-01", DeliveryState::kRead, at);
  std::vector<Finished> found = ledger->list_finished(at + 1'000'000, INT64_MIN, 100).value();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().message_id, "alice/1-aaaaaaaa");
  EXPECT_EQ(*ledger->newest_inbox_ns(), 9);
}

TEST(DateBefore, CountsUtcDays) {
  ::warren::testing::FakeClock clock{kNow};
  EXPECT_EQ(date_before(clock, 0), "2023-11-14");
  EXPECT_EQ(date_before(clock, 14), "2023-10-31");
}

}  // namespace
}  // namespace warren::relay
