// kill -9 at any moment: every acknowledged change is there, and at most one more, and fsck is clean.
#include <cstdlib>
#include <random>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "crash/child.h"
#include "crash/script.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/fsck/fsck.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

constexpr std::int64_t kForEver = 1'000'000'000;

int kills() {
  const char* full = std::getenv("WARREN_CHECK_FULL");
  return full != nullptr && std::string_view(full) == "yes" ? 200 : 20;
}

class Crash : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(Store::open(file_, {.mode = OpenMode::kCreate}, clock_)); }

  std::vector<std::string> writing(const std::string& writer, std::int64_t first, std::int64_t count, int round) {
    return {"write", file_, writer, std::to_string(first), std::to_string(count), round % 2 == 0 ? "process" : "power"};
  }

  void expect_clean(std::string_view when) {
    auto report = check_agent(file_, clock_);
    ASSERT_OK(report);
    for (const Violation& left : report->violations) ADD_FAILURE() << when << ": " << left.rule << ": " << left.message;
  }

  // The number of steps that the agent shows: as many as were acknowledged, or one more.
  std::int64_t steps_done(const Script& script, std::int64_t acknowledged, std::string_view when) {
    auto store = Store::open(file_, {}, clock_);
    EXPECT_OK(store);
    if (!store.ok()) return -1;
    auto actual = script.actual(**store);
    EXPECT_OK(actual);
    if (!actual.ok()) return -1;
    if (*actual == script.expected(acknowledged)) return acknowledged;
    EXPECT_EQ(*actual, script.expected(acknowledged + 1)) << when << ", after step " << acknowledged - 1;
    return acknowledged + 1;
  }

  std::int64_t ask(Sql sql) {
    auto database = Database::open(file_, {.mode = OpenMode::kReadOnly});
    EXPECT_OK(database);
    auto query = (*database)->prepare(sql);
    EXPECT_OK(query);
    return query->find_integer().value().value_or(-1);
  }

  TempDir dir_;
  SystemClock clock_;
  std::string file_ = dir_.file("agent.db");
};

// Reads `stop` lines, kills the writer, and reads the lines that were still in the pipe.
std::int64_t kill_after(Child& child, std::int64_t stop) {
  std::int64_t lines = 0;
  while (lines < stop && child.read_line()) ++lines;
  child.kill();
  while (child.read_line()) ++lines;
  return lines;
}

TEST_F(Crash, EveryAcknowledgedStepSurvivesAKill) {
  std::mt19937_64 random(20'260'101);
  Script script("solo");
  std::int64_t done = 0;
  for (int round = 0; round < kills(); ++round) {
    Child child(writing("solo", done, kForEver, round));
    std::int64_t lines = kill_after(child, static_cast<std::int64_t>(random() % 60));
    ASSERT_EQ(child.wait(), 128 + 9) << "the writer gave up by itself";
    std::string when = fmt::format("kill {}", round);
    expect_clean(when);
    done = steps_done(script, done + lines, when);
    ASSERT_FALSE(HasFailure()) << when;
  }
  EXPECT_GT(done, kills());
}

TEST_F(Crash, AWriterContinuesWhileAnotherIsKilled) {
  std::mt19937_64 random(7);
  Script left("left");
  Script right("right");
  std::int64_t left_done = 0;
  std::int64_t right_done = 0;
  for (int round = 0; round < kills() / 4; ++round) {
    constexpr std::int64_t kRightSteps = 40;
    Child killed(writing("left", left_done, kForEver, round));
    Child living(writing("right", right_done, kRightSteps, round + 1));
    std::int64_t lines = kill_after(killed, static_cast<std::int64_t>(1 + random() % 30));
    while (living.read_line()) {
    }
    ASSERT_EQ(living.wait(), 0) << "the other writer must not notice";
    right_done += kRightSteps;
    std::string when = fmt::format("round {}", round);
    expect_clean(when);
    left_done = steps_done(left, left_done + lines, when);
    EXPECT_EQ(steps_done(right, right_done, when), right_done);
    ASSERT_FALSE(HasFailure()) << when;
  }
}

TEST_F(Crash, AnOpenUnlinkedFileIsCollectedOnlyAfterItsProcessIsDead) {
  Child keeper({"orphan", file_});
  ASSERT_EQ(keeper.read_line(), "ready");
  // Another process opens the agent: the unlinked file is still in use and stays.
  ASSERT_OK(Store::open(file_, {}, clock_));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_orphan"), 1);
  EXPECT_EQ(ask("SELECT sum(octet_length(data)) FROM fs_data"), 10'014);
  expect_clean("while it is open");
  keeper.kill();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_orphan"), 1);
  expect_clean("after the kill");
  ASSERT_OK(Store::open(file_, {}, clock_));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_orphan"), 0);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data"), 0);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_inode"), 1);
  expect_clean("after the next open");
}

TEST_F(Crash, AnOpenUnlinkedFileIsDeletedWhenItIsClosed) {
  Child keeper({"orphan", file_});
  ASSERT_EQ(keeper.read_line(), "ready");
  keeper.end_input();
  EXPECT_EQ(keeper.wait(), 0);
  EXPECT_EQ(ask("SELECT count(*) FROM wr_orphan"), 0);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data"), 0);
  expect_clean("after the close");
}

}  // namespace
}  // namespace warren::testing
