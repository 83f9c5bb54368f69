#include "relay/ledger/log_mover.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "db/statement.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

class LogMoverTest : public ::testing::Test {
 protected:
  LogMoverTest() {
    db = std::move(Database::open(path, {.mode = OpenMode::kCreate, .checkpoints = Checkpoints::kByOwner})).value();
    EXPECT_OK(db->execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)"));
  }
  void fill() { ASSERT_OK(db->execute("INSERT INTO t(b) VALUES (hex(randomblob(20000)))")); }
  static bool wait_to_take_over(LogMover& mover) {
    for (int i = 0; i < 30'000; ++i) {
      if (mover.take_over()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  ::warren::testing::TempDir dir;
  std::string path = dir.file("x.db");
  std::unique_ptr<Database> db;
};

TEST_F(LogMoverTest, TheLogStartsOverAfterTheRestWasMoved) {
  LogMover mover(path);
  EXPECT_FALSE(mover.take_over());
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) fill();
    std::uint32_t before = db->log_pages();
    EXPECT_GT(before, 100U);
    mover.start();
    mover.start();  // already running
    ASSERT_TRUE(wait_to_take_over(mover));
    EXPECT_FALSE(mover.take_over()) << "once for each start";
    fill();  // a commit after the move
    ASSERT_OK(db->checkpoint());
    fill();
    EXPECT_LT(db->log_pages(), 50U);
  }
}

TEST_F(LogMoverTest, ADatabaseThatCannotBeOpenedIsLeftToTheCaller) {
  LogMover mover(dir.file("no/such.db"));
  mover.start();
  EXPECT_TRUE(wait_to_take_over(mover));
}

TEST_F(LogMoverTest, CanBeDestroyedAtAnyTime) {
  for (int i = 0; i < 20; ++i) {
    LogMover mover(path);
    fill();
    if (i % 2 == 0) mover.start();
  }
}

}  // namespace
}  // namespace warren::relay
