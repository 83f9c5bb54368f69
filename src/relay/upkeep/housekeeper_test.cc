#include "relay/upkeep/housekeeper.h"

#include <poll.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kHour = 3'600'000'000'000;
constexpr std::size_t kFileBytes = 1U << 20;

class HousekeeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    ledger = std::move(Ledger::open(root->ledger_path(), LedgerUse::kServe, clock)).value();
    log.emplace(root->dir(), 1U << 20, clock);
  }
  void start() {
    keeper = std::move(Housekeeper::start(*root, config, clock, *log, metrics, [this] {
               return Ledger::open(root->ledger_path(), LedgerUse::kRead, clock);
             })).value();
  }
  // Waits for the background thread.
  template <class Condition>
  bool wait_until(Condition condition) {
    for (int i = 0; i < 60'000; ++i) {
      if (condition()) return true;
      ::poll(nullptr, 0, 1);
    }
    return false;
  }
  std::string content(const std::string& name) {
    Result<std::string> read = read_host_file(root->path() + "/" + name, kFileBytes);
    return read.ok() ? *read : "";
  }
  std::string plant_day(int days) {
    std::string day = root->path() + "/archive/" + date_before(clock, days);
    EXPECT_TRUE(make_host_dirs(day + "/alice", 0700).ok());
    EXPECT_TRUE(replace_host_file(day + "/alice/1-aaaaaaaa.msg", "x", 0600).ok());
    return day;
  }
  bool exists(const std::string& path) { return find_host_link(path)->has_value(); }

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  std::unique_ptr<Root> root;
  std::unique_ptr<Ledger> ledger;
  Config config;
  std::optional<Log> log;
  Metrics metrics{clock};
  std::unique_ptr<Housekeeper> keeper;
};

TEST_F(HousekeeperTest, WritesStatsWhenTheyChangeAtMostOnceASecond) {
  start();
  ASSERT_TRUE(wait_until([&] { return content("stats.json").find("\"rounds\":0") != std::string::npos; }));
  metrics.note_round();
  keeper->note_change();
  clock.advance_ns(500'000'000);
  keeper->free_space();  // wakes it, with nothing to free
  EXPECT_EQ(content("stats.json").find("\"rounds\":1"), std::string::npos);
  clock.advance_ns(600'000'000);
  keeper->free_space();
  EXPECT_TRUE(wait_until([&] { return content("stats.json").find("\"rounds\":1") != std::string::npos; }));
  metrics.note_round();
  keeper = nullptr;  // writes stats.json one last time
  EXPECT_NE(content("stats.json").find("\"rounds\":2"), std::string::npos);
}

TEST_F(HousekeeperTest, AfterTheClockJumpsNothingIsRemovedForAnHour) {
  std::string old = plant_day(31);
  start();
  ASSERT_TRUE(wait_until([&] { return !exists(old); }));
  std::string day = plant_day(0);
  clock.jump_ns(40 * 24 * kHour);
  clock.advance_ns(kHour);
  keeper->free_space();
  ASSERT_TRUE(wait_until([&] { return content("relay.log").find("clock_jumped") != std::string::npos; }));
  EXPECT_TRUE(exists(day));
  clock.advance_ns(2 * kHour);
  keeper->free_space();
  EXPECT_TRUE(wait_until([&] { return !exists(day); }));
}

TEST_F(HousekeeperTest, ASuspendedMachineIsNotAClockThatJumped) {
  std::string old = plant_day(31);
  start();
  ASSERT_TRUE(wait_until([&] { return !exists(old); }));
  std::string day = plant_day(0);
  clock.suspend_ns(40 * 24 * kHour);
  clock.advance_ns(kHour);
  keeper->free_space();
  EXPECT_TRUE(wait_until([&] { return !exists(day); }));
  EXPECT_EQ(content("relay.log").find("clock_jumped"), std::string::npos);
}

TEST_F(HousekeeperTest, HandsOverMessagesThatTheLedgerMayForget) {
  std::int64_t old_us = clock.now_us() - std::int64_t{40} * 86'400'000'000;
  auto transaction = ledger->begin().value();
  for (int i = 0; i < 2500; ++i) {
    MessageRow row{.id = fmt::format("alice/{}-aaaaaaaa", i), .agent = "alice", .direction = "outbox"};
    row.path = row.id;
    row.status = "completed";
    row.discovered_at_us = old_us + i;
    ASSERT_OK(ledger->add_message(row));
  }
  ASSERT_OK(transaction.commit());
  start();
  std::set<std::string> taken;
  EXPECT_TRUE(wait_until([&] {
    std::vector<std::string> ids = keeper->take_finished(100);
    auto removing = ledger->begin().value();
    for (const std::string& id : ids) EXPECT_TRUE(ledger->remove_finished(id).ok());
    EXPECT_TRUE(removing.commit().ok());
    taken.insert(ids.begin(), ids.end());
    return taken.size() == 2500;
  }));
  EXPECT_EQ(ledger->count()->messages["completed"], 0);
}

}  // namespace
}  // namespace warren::relay
