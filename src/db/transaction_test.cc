#include "db/transaction.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using testing::TempDir;

class RecordingListener final : public TransactionObserver {
 public:
  Status before_commit() override {
    ++befores;
    if (fails) return Error(Code::kNoSpace, "no");
    return Ok{};
  }
  void after_commit() override { ++commits; }
  void after_rollback() override { ++rollbacks; }

  bool fails = false;
  int befores = 0;
  int commits = 0;
  int rollbacks = 0;
};

class TransactionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    database_ = open({.mode = OpenMode::kCreate});
    ASSERT_OK(database_->execute("CREATE TABLE t (v)"));
    database_->observe(&listener_);
  }

  std::unique_ptr<Database> open(const DatabaseOptions& options) {
    return Database::open(directory_.file("a.db"), options).value();
  }

  Result<Transaction> begin(Access access) { return Transaction::begin(*database_, access); }
  Status insert() { return database_->execute("INSERT INTO t VALUES (1)"); }

  std::int64_t count(Database& database) {
    return database.prepare("SELECT count(*) FROM t").value().find_integer().value().value();
  }

  TempDir directory_;
  std::unique_ptr<Database> database_;
  RecordingListener listener_;
};

TEST_F(TransactionTest, WithoutCommitNothingHappened) {
  {
    Transaction change = begin(Access::kWrite).value();
    ASSERT_OK(insert());
  }
  EXPECT_EQ(count(*database_), 0);
  EXPECT_EQ(listener_.rollbacks, 1);
  EXPECT_EQ(listener_.commits, 0);
}

TEST_F(TransactionTest, OnlyTheOutermostCommits) {
  std::unique_ptr<Database> other = open({});
  Transaction outer = begin(Access::kWrite).value();
  {
    Transaction inner = begin(Access::kWrite).value();
    ASSERT_OK(insert());
    ASSERT_OK(inner.commit());
  }
  EXPECT_EQ(count(*other), 0);
  EXPECT_EQ(listener_.befores, 0);
  ASSERT_OK(outer.commit());
  EXPECT_EQ(count(*other), 1);
  EXPECT_EQ(listener_.befores, 1);
  EXPECT_EQ(listener_.commits, 1);
}

TEST_F(TransactionTest, AnInnerChangeThatWasDroppedFailsTheOuterTransaction) {
  {
    Transaction outer = begin(Access::kWrite).value();
    {
      Transaction inner = begin(Access::kWrite).value();
      ASSERT_OK(insert());
    }
    EXPECT_EQ(error_of(begin(Access::kWrite)), Code::kIo) << "nothing more may be added to it";
    EXPECT_EQ(error_of(outer.commit()), Code::kIo);
  }
  EXPECT_EQ(count(*database_), 0);
  EXPECT_EQ(listener_.rollbacks, 1);
}

TEST_F(TransactionTest, AnInnerOneThatChangedNothingMayBeDropped) {
  Transaction outer = begin(Access::kWrite).value();
  ASSERT_OK(insert());
  { Transaction inner = begin(Access::kWrite).value(); }
  ASSERT_OK(outer.commit());
  EXPECT_EQ(count(*database_), 1);
}

TEST_F(TransactionTest, AWriteInsideAReadIsRefusedAndTheReadGoesOn) {
  Transaction reading = begin(Access::kRead).value();
  EXPECT_EQ(count(*database_), 0);
  EXPECT_EQ(error_of(begin(Access::kWrite)), Code::kInternal);
  EXPECT_EQ(count(*database_), 0);
  EXPECT_OK(reading.commit());
}

TEST_F(TransactionTest, AReadInsideAWriteSeesWhatWasWritten) {
  Transaction writing = begin(Access::kWrite).value();
  ASSERT_OK(insert());
  {
    Transaction reading = begin(Access::kRead).value();
    EXPECT_EQ(count(*database_), 1);
  }
  EXPECT_OK(writing.commit());
}

TEST_F(TransactionTest, AReadSeesOneStateOfTheFileToItsEnd) {
  std::unique_ptr<Database> other = open({});
  Transaction reading = begin(Access::kRead).value();
  EXPECT_EQ(count(*database_), 0);
  ASSERT_OK(other->execute("INSERT INTO t VALUES (1)"));
  EXPECT_EQ(count(*database_), 0);
  ASSERT_OK(reading.commit());
  EXPECT_EQ(count(*database_), 1);
}

TEST_F(TransactionTest, AnObserverThatFailsBeforeTheCommitUndoesIt) {
  listener_.fails = true;
  {
    Transaction change = begin(Access::kWrite).value();
    ASSERT_OK(insert());
    EXPECT_EQ(error_of(change.commit()), Code::kNoSpace);
  }
  EXPECT_EQ(count(*database_), 0);
  EXPECT_EQ(listener_.rollbacks, 1);
  EXPECT_EQ(listener_.commits, 0);
}

TEST_F(TransactionTest, AfterAFailedOneTheNextSucceeds) {
  { Transaction dropped = begin(Access::kWrite).value(); }
  Transaction change = begin(Access::kWrite).value();
  ASSERT_OK(insert());
  ASSERT_OK(change.commit());
  EXPECT_EQ(count(*database_), 1);
}

TEST_F(TransactionTest, ReadsAreNotObserved) {
  ASSERT_OK(begin(Access::kRead)->commit());
  { Transaction dropped = begin(Access::kRead).value(); }
  EXPECT_EQ(listener_.befores + listener_.commits + listener_.rollbacks, 0);
}

TEST_F(TransactionTest, EachOutermostOneHasItsOwnNumber) {
  std::uint64_t first = 0;
  {
    Transaction outer = begin(Access::kWrite).value();
    first = database_->transaction_number();
    Transaction inner = begin(Access::kWrite).value();
    EXPECT_EQ(database_->transaction_number(), first);
  }
  Transaction next = begin(Access::kRead).value();
  EXPECT_NE(database_->transaction_number(), first);
}

// On a full disk SQLite rolls back the whole transaction by itself. Statements run after that would
// each commit on their own.
TEST_F(TransactionTest, AfterAFullDiskTheRestOfTheTransactionIsRefused) {
  {
    Transaction batch = begin(Access::kWrite).value();
    ASSERT_OK(insert());
    ASSERT_OK(database_->execute("PRAGMA max_page_count=2"));
    {
      Transaction part = begin(Access::kWrite).value();
      EXPECT_EQ(error_of(database_->execute("INSERT INTO t VALUES (zeroblob(100000))")), Code::kNoSpace);
    }
    EXPECT_EQ(error_of(begin(Access::kWrite)), Code::kIo);
    EXPECT_EQ(error_of(batch.commit()), Code::kIo);
  }
  EXPECT_EQ(count(*database_), 0);
  EXPECT_EQ(listener_.rollbacks, 1);
  ASSERT_OK(database_->execute("PRAGMA max_page_count=1000"));
  EXPECT_OK(insert());
}

TEST_F(TransactionTest, AWriteOnAReadOnlyDatabaseIsRefused) {
  std::unique_ptr<Database> reader = open({.mode = OpenMode::kReadOnly});
  EXPECT_EQ(error_of(Transaction::begin(*reader, Access::kWrite)), Code::kReadOnly);
  EXPECT_OK(Transaction::begin(*reader, Access::kRead));
}

TEST_F(TransactionTest, AWriterWaitsNoLongerThanItsBusyWait) {
  std::unique_ptr<Database> other = open({.busy_wait = std::chrono::milliseconds(0)});
  Transaction writing = begin(Access::kWrite).value();
  Result<Transaction> second = Transaction::begin(*other, Access::kWrite);
  EXPECT_EQ(error_of(second), Code::kBusy);
  EXPECT_FALSE(second.error().hint().empty());
  EXPECT_OK(Transaction::begin(*other, Access::kRead)) << "readers do not wait for writers";
}

TEST_F(TransactionTest, ThreadsTakeTurns) {
  constexpr int kThreads = 4;
  constexpr int kEach = 100;
  ASSERT_OK(database_->execute("INSERT INTO t VALUES (0)"));
  Statement add = database_->prepare("UPDATE t SET v = ?").value();
  Statement read = database_->prepare("SELECT v FROM t").value();
  auto work = [&] {
    for (int i = 0; i < kEach; ++i) {
      Transaction change = begin(Access::kWrite).value();
      std::int64_t value = read.find_integer().value().value();
      EXPECT_OK(add.bind(1, value + 1).run());
      EXPECT_OK(change.commit());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read.find_integer().value(), kThreads * kEach);
}

}  // namespace
}  // namespace warren
