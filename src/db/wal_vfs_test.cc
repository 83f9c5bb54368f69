#include "db/wal_vfs.h"

#include <gtest/gtest.h>

#include "db/database.h"
#include "db/faulty_vfs_testing.h"
#include "db/transaction.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::DiskCall;
using testing::FaultyVfs;

class WalVfsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Database> open(Durability durability) {
    auto database =
        Database::open(
            dir_.file("a.db"),
            {.mode = OpenMode::kCreate, .durability = durability, .cache_bytes = 64 << 10, .vfs = disk_.name()})
            .value();
    EXPECT_OK(database->execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v); CREATE INDEX i ON t (v)"));
    disk_.heal();  // resets the call counts
    return database;
  }
  std::int64_t count_from_elsewhere() {
    auto other = Database::open(dir_.file("a.db"), {.mode = OpenMode::kReadOnly}).value();
    return other->prepare("SELECT count(*) FROM t").value().find_integer().value().value_or(-1);
  }

  testing::TempDir dir_;
  FaultyVfs disk_;
};

TEST_F(WalVfsTest, ACommitOfSeveralPagesIsOneWriteAndOneSync) {
  auto database = open(Durability::kPower);
  ASSERT_OK(database->execute("INSERT INTO t VALUES (1, 'x')"));  // a row and an index entry
  EXPECT_EQ(disk_.calls(DiskCall::kWrite), 1);
  EXPECT_EQ(disk_.calls(DiskCall::kSync), 1);
}

TEST_F(WalVfsTest, WithProcessDurabilityACommitIsVisibleToOthersButNotSynced) {
  auto database = open(Durability::kProcess);
  ASSERT_OK(database->execute("INSERT INTO t VALUES (1, 'x')"));
  EXPECT_EQ(disk_.calls(DiskCall::kWrite), 1);
  EXPECT_EQ(disk_.calls(DiskCall::kSync), 0);
  EXPECT_EQ(count_from_elsewhere(), 1);
}

TEST_F(WalVfsTest, ACheckpointSyncsTheLogAndTheFileWhateverTheDurability) {
  auto database = open(Durability::kProcess);
  ASSERT_OK(database->execute("INSERT INTO t VALUES (1, 'x')"));
  disk_.heal();
  ASSERT_OK(database->execute("PRAGMA wal_checkpoint(FULL)"));
  EXPECT_EQ(disk_.calls(DiskCall::kSync), 2);
}

TEST_F(WalVfsTest, ATransactionLargerThanMemoryReadsItsOwnPagesBack) {
  auto database = open(Durability::kPower);
  ASSERT_OK(database->execute(
      "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
      "INSERT INTO t SELECT i, randomblob(1000) FROM n; UPDATE t SET v = zeroblob(900) WHERE id % 3 = 0;"));
  Statement sum = database->prepare("SELECT sum(length(v)) FROM t").value();
  EXPECT_EQ(sum.find_integer().value(), 666 * 900 + 1334 * 1000);
  EXPECT_EQ(count_from_elsewhere(), 0);
  ASSERT_OK(database->execute("COMMIT"));
  EXPECT_EQ(count_from_elsewhere(), 2000);
}

TEST_F(WalVfsTest, AWriteThatFailsFailsItsOwnCommitAndNoOther) {
  auto database = open(Durability::kPower);
  disk_.fail({.nth = 1, .call = DiskCall::kWrite});
  EXPECT_FALSE(database->execute("INSERT INTO t VALUES (1, 'x')").ok());
  EXPECT_EQ(count_from_elsewhere(), 0);
  disk_.heal();
  ASSERT_OK(database->execute("INSERT INTO t VALUES (2, 'y')"));
  EXPECT_EQ(count_from_elsewhere(), 1);
  Statement check =
      database->prepare("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'").value();
  EXPECT_EQ(check.find_integer().value(), 1);
}

}  // namespace
}  // namespace warren
