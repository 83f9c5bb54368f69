#include "db/faulty_vfs_testing.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "db/database.h"
#include "db/transaction.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

constexpr Sql kMakeTable = "CREATE TABLE t (x BLOB)";

Status add_row(Database& database) {
  Statement insert = WARREN_TRY(database.prepare("INSERT INTO t VALUES (zeroblob(3000))"));
  Transaction tx = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  WARREN_TRY(insert.run());
  return tx.commit();
}

std::int64_t count_rows(Database& database) {
  Result<Statement> count = database.prepare("SELECT count(*) FROM t");
  if (!count.ok()) return -1;
  return count->find_integer().value().value_or(-1);
}

class FaultyVfsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto database = Database::open(file_, {.mode = OpenMode::kCreate});
    ASSERT_OK(database);
    ASSERT_OK((*database)->execute(kMakeTable));
  }

  std::unique_ptr<Database> open_faulty(Durability durability) {
    auto database = Database::open(file_, {.durability = durability, .vfs = vfs_.name()});
    EXPECT_OK(database);
    return std::move(database).value();
  }

  std::int64_t rows_on_disk() {
    auto database = Database::open(file_, {});
    EXPECT_OK(database);
    return database.ok() ? count_rows(**database) : -1;
  }

  TempDir dir_;
  std::string file_ = dir_.file("a.db");
  FaultyVfs vfs_;
};

TEST_F(FaultyVfsTest, WithoutAPlanItIsAnOrdinaryDisk) {
  EXPECT_OK(add_row(*open_faulty(Durability::kPower)));
  EXPECT_EQ(rows_on_disk(), 1);
}

TEST_F(FaultyVfsTest, ThePlannedWriteFailsOnceAndOnlyOnce) {
  auto database = open_faulty(Durability::kPower);
  vfs_.fail({.nth = 1, .call = DiskCall::kWrite});
  EXPECT_EQ(error_of(add_row(*database)), Code::kIo);
  EXPECT_TRUE(vfs_.fired());
  EXPECT_OK(add_row(*database));
  EXPECT_EQ(count_rows(*database), 1);
}

TEST_F(FaultyVfsTest, AFullDiskStaysFullUntilHealed) {
  auto database = open_faulty(Durability::kPower);
  vfs_.fail({.nth = 1, .call = DiskCall::kWrite, .fault = DiskFault::kNoSpace, .lasts = FaultLasts::kFromThenOn});
  EXPECT_EQ(error_of(add_row(*database)), Code::kNoSpace);
  EXPECT_EQ(error_of(add_row(*database)), Code::kNoSpace);
  vfs_.heal();
  EXPECT_OK(add_row(*database));
}

TEST_F(FaultyVfsTest, AFailedSyncFailsACommitThatMustSurviveAPowerCut) {
  auto database = open_faulty(Durability::kPower);
  vfs_.fail({.nth = 1, .call = DiskCall::kSync});
  EXPECT_FALSE(add_row(*database).ok());
}

TEST_F(FaultyVfsTest, AFailedOpenIsAnError) {
  vfs_.fail({.nth = 1, .call = DiskCall::kOpen});
  EXPECT_FALSE(Database::open(file_, {.vfs = vfs_.name()}).ok());
}

TEST_F(FaultyVfsTest, APowerCutKeepsSyncedWrites) {
  vfs_.hold_back();
  auto database = open_faulty(Durability::kPower);
  EXPECT_OK(add_row(*database));
  vfs_.cut_power(PowerLoss::kDropped, 1);
  EXPECT_FALSE(add_row(*database).ok());
  database.reset();
  EXPECT_EQ(rows_on_disk(), 1);
}

TEST_F(FaultyVfsTest, APowerCutLosesUnsyncedWrites) {
  vfs_.hold_back();
  auto database = open_faulty(Durability::kProcess);
  EXPECT_OK(add_row(*database));
  EXPECT_EQ(count_rows(*database), 1);
  vfs_.cut_power(PowerLoss::kDropped, 1);
  database.reset();
  EXPECT_EQ(rows_on_disk(), 0);
}

TEST_F(FaultyVfsTest, TornSectorsNeverMakeHalfATransaction) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    FaultyVfs vfs;
    vfs.hold_back();
    std::int64_t before = rows_on_disk();
    auto database = Database::open(file_, {.durability = Durability::kProcess, .vfs = vfs.name()});
    ASSERT_OK(database);
    for (int i = 0; i < 3; ++i) EXPECT_OK(add_row(**database));
    vfs.cut_power(PowerLoss::kTorn, seed);
    database->reset();
    std::int64_t after = rows_on_disk();
    EXPECT_TRUE(after >= before && after <= before + 3) << "seed " << seed << ": " << before << " to " << after;
  }
}

TEST_F(FaultyVfsTest, APlannedPowerCutHappensAfterItsCall) {
  vfs_.hold_back();
  auto database = open_faulty(Durability::kPower);
  vfs_.cut_power_after(1, PowerLoss::kDropped, 1);
  EXPECT_FALSE(add_row(*database).ok());
  EXPECT_TRUE(vfs_.power_is_cut());
  database.reset();
  EXPECT_EQ(rows_on_disk(), 0);
}

TEST_F(FaultyVfsTest, ACleanCloseThroughItLeavesOneFile) {
  vfs_.hold_back();
  EXPECT_OK(add_row(*open_faulty(Durability::kPower)));
  EXPECT_NE(::access((file_ + "-wal").c_str(), F_OK), 0);
  EXPECT_EQ(rows_on_disk(), 1);
}

}  // namespace
}  // namespace warren::testing
