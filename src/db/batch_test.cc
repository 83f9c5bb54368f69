// Batch, alone and with Commits::kGrouped: when a batch ends, who sees its changes when, and how it is lost.
#include "db/batch.h"

#include <atomic>
#include <thread>

#include <poll.h>

#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/no_wait.h"
#include "db/database.h"
#include "db/transaction.h"
#include "os/files/watch.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using testing::TempDir;

constexpr int kPatienceMs = 30'000;  // only a bug waits this long

TEST(Batch, IsDueWhenItIsLargeOrItsEndIsRequested) {
  Batch batch;
  batch.opened();
  batch.add_bytes(limits::kBatchBytes);
  EXPECT_TRUE(batch.is_due());
  batch.closed();
  batch.opened();
  batch.request_end();
  EXPECT_TRUE(batch.is_due());
}

TEST(Batch, AfterAFailedCommitItIsDueAgainLaterHoweverLargeItIs) {
  Batch batch;
  batch.opened();
  batch.add_bytes(limits::kBatchBytes);
  batch.failed(Error(Code::kNoSpace, "full"));
  EXPECT_TRUE(batch.is_open());
  EXPECT_FALSE(batch.is_due());
  EXPECT_EQ(batch.failure()->code(), Code::kNoSpace);
  batch.closed();
  EXPECT_FALSE(batch.failure().has_value());
}

class Listener final : public TransactionObserver {
 public:
  Status before_commit() override {
    if (fails) return Error(reason, "no");
    return Ok{};
  }
  void after_commit() override { ++commits; }
  void after_rollback() override { ++rollbacks; }
  void batch_opened() override { ++opened; }
  void change_undone() override { ++undone; }

  bool fails = false;
  Code reason = Code::kNoSpace;
  int commits = 0;
  int undone = 0;
  int rollbacks = 0;
  int opened = 0;
};

class BatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    database_ = open({.mode = OpenMode::kCreate, .commits = Commits::kGrouped});
    ASSERT_OK(database_->execute("CREATE TABLE t (v)"));
    database_->observe(&listener_);
    other_ = open({});
  }

  std::unique_ptr<Database> open(const DatabaseOptions& options) {
    return Database::open(directory_.file("a.db"), options).value();
  }

  Result<Transaction> begin(Access access) { return Transaction::begin(*database_, access); }
  Status insert() { return database_->prepare("INSERT INTO t VALUES (1)").value().run(); }

  // One change, held back.
  Status write() {
    Transaction change = WARREN_TRY(begin(Access::kSharedWrite));
    WARREN_TRY(insert());
    return change.commit();
  }

  // Without a transaction: does not wait for another connection's batch.
  std::int64_t count(Database& database) {
    return database.prepare("SELECT count(*) FROM t").value().find_integer().value().value();
  }

  // As our other threads see it.
  std::int64_t count_shared() {
    Transaction reading = begin(Access::kSharedRead).value();
    return count(*database_);
  }

  TempDir directory_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Database> other_;
  Listener listener_;
};

TEST_F(BatchTest, ASharedWriteIsSeenHereAtOnceAndElsewhereWhenTheBatchEnds) {
  ASSERT_OK(write());
  EXPECT_TRUE(database_->batch().is_open());
  {
    Transaction reading = begin(Access::kSharedRead).value();
    EXPECT_EQ(count(*database_), 1);
  }
  EXPECT_EQ(count(*other_), 0);
  ASSERT_OK(database_->end_batch());
  EXPECT_FALSE(database_->batch().is_open());
  EXPECT_EQ(count(*other_), 1);
}

TEST_F(BatchTest, TheObserverIsNotifiedOfTheBatchNotOfEachChange) {
  {
    Transaction change = begin(Access::kSharedWrite).value();
    ASSERT_OK(insert());
    ASSERT_OK(change.commit());
  }
  EXPECT_EQ(listener_.opened, 1);
  EXPECT_EQ(listener_.commits, 0);
  ASSERT_OK(database_->end_batch());
  EXPECT_EQ(listener_.commits, 1);
  ASSERT_OK(database_->end_batch()) << "ending without an open batch is not an error";
  EXPECT_EQ(listener_.commits, 1);
}

TEST_F(BatchTest, OnlyAnOpenBatchHasATime) {
  EXPECT_FALSE(database_->batch().due_at().has_value());
  ASSERT_OK(write());
  EXPECT_TRUE(database_->batch().due_at().has_value());
  ASSERT_OK(database_->end_batch());
  EXPECT_FALSE(database_->batch().due_at().has_value());
}

TEST_F(BatchTest, SyncEndsTheBatch) {
  ASSERT_OK(write());
  ASSERT_OK(database_->sync());
  EXPECT_EQ(count(*other_), 1);
}

TEST_F(BatchTest, ClosingEndsABatchThatNobodyObserves) {
  ASSERT_OK(write());
  database_->observe(nullptr);
  database_.reset();
  EXPECT_EQ(count(*other_), 1);
}

TEST_F(BatchTest, ClosingDropsABatchWhoseObserverDidNotEndIt) {
  ASSERT_OK(write());
  database_.reset();
  EXPECT_EQ(count(*other_), 0);
  EXPECT_EQ(listener_.commits, 0);
}

TEST_F(BatchTest, APlainWriteEndsTheBatchFirstAndDoesNotJoinOne) {
  ASSERT_OK(write());
  {
    Transaction alone = begin(Access::kWrite).value();
    EXPECT_FALSE(database_->batch().is_open());
    EXPECT_EQ(count(*other_), 1);
    ASSERT_OK(insert());
  }
  EXPECT_EQ(count(*database_), 1) << "only the plain write was rolled back";
  EXPECT_OK(database_->sync());
}

TEST_F(BatchTest, APlainReadEndsTheBatchFirst) {
  ASSERT_OK(write());
  Transaction reading = begin(Access::kRead).value();
  EXPECT_FALSE(database_->batch().is_open());
  EXPECT_EQ(count(*other_), 1);
}

TEST_F(BatchTest, WithoutGroupedCommitsASharedWriteIsCommittedByItself) {
  Transaction change = Transaction::begin(*other_, Access::kSharedWrite).value();
  ASSERT_OK(other_->execute("INSERT INTO t VALUES (1)"));
  ASSERT_OK(change.commit());
  EXPECT_FALSE(other_->batch().is_open());
  EXPECT_EQ(count(*database_), 1);
}

TEST_F(BatchTest, ARefusedSharedWriteLeavesTheBatch) {
  ASSERT_OK(write());
  { Transaction refused = begin(Access::kSharedWrite).value(); }
  EXPECT_TRUE(database_->batch().is_open());
  EXPECT_EQ(listener_.rollbacks, 0);
  ASSERT_OK(database_->sync());
  EXPECT_EQ(count(*other_), 1);
}

TEST_F(BatchTest, AChangeThatWasDroppedIsTakenBackAlone) {
  ASSERT_OK(write());
  {
    Transaction dropped = begin(Access::kSharedWrite).value();
    ASSERT_OK(insert());
  }
  EXPECT_TRUE(database_->batch().is_open());
  EXPECT_EQ(count_shared(), 1);
  EXPECT_EQ(listener_.undone, 1);
  EXPECT_EQ(listener_.rollbacks, 0);
  ASSERT_OK(write());
  EXPECT_OK(database_->sync());
  EXPECT_EQ(count(*other_), 2);
}

TEST_F(BatchTest, AnInnerChangeThatWasDroppedTakesBackTheOuterOne) {
  ASSERT_OK(write());
  {
    Transaction outer = begin(Access::kSharedWrite).value();
    {
      Transaction inner = begin(Access::kSharedWrite).value();
      ASSERT_OK(insert());
    }
    EXPECT_EQ(error_of(outer.commit()), Code::kIo);
  }
  EXPECT_EQ(count_shared(), 1);
  EXPECT_EQ(listener_.undone, 1);
  EXPECT_OK(database_->sync());
  EXPECT_EQ(count(*other_), 1);
}

TEST_F(BatchTest, ABatchThatCannotBeCommittedIsKeptAndEverySyncReportsIt) {
  ASSERT_OK(write());
  listener_.fails = true;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of(database_->sync()), Code::kNoSpace);
  EXPECT_EQ(count_shared(), 1) << "our readers still see it";
  EXPECT_EQ(count(*other_), 0);
  EXPECT_EQ(listener_.rollbacks, 0);
  EXPECT_EQ(error_of(database_->reserve(1)), Code::kNoSpace) << "nothing may be added";
  EXPECT_OK(database_->reserve(1, Room::kLast)) << "but something may be removed";
  listener_.fails = false;
  EXPECT_OK(database_->sync());
  EXPECT_OK(database_->reserve(1));
  EXPECT_EQ(count(*other_), 1);
}

TEST_F(BatchTest, AChangeIsDoneEvenIfTheBatchThatItEndsCannotBeCommitted) {
  ASSERT_OK(write());
  database_->batch().request_end();
  listener_.fails = true;
  {
    Transaction last = begin(Access::kSharedWrite).value();
    ASSERT_OK(insert());
    EXPECT_OK(last.commit());
  }
  EXPECT_EQ(count_shared(), 2);
  listener_.fails = false;
  ASSERT_OK(database_->sync());
  EXPECT_EQ(count(*other_), 2);
}

TEST_F(BatchTest, ABatchThatFailsForAReasonThatDoesNotPassIsGivenUp) {
  ASSERT_OK(write());
  listener_.fails = true;
  listener_.reason = Code::kConflict;
  for (int nth = 1; nth <= limits::kBatchAttempts; ++nth) {
    EXPECT_EQ(listener_.rollbacks, 0);
    EXPECT_EQ(count_shared(), 1);
    EXPECT_EQ(error_of(database_->sync()), Code::kConflict);
  }
  EXPECT_EQ(listener_.rollbacks, 1);
  EXPECT_EQ(count_shared(), 0);
  listener_.fails = false;
  ASSERT_OK(write());
  ASSERT_OK(database_->sync());
  EXPECT_EQ(count(*other_), 1);
}

TEST_F(BatchTest, ABatchThatSqliteRolledBackByItselfIsRestored) {
  ASSERT_OK(write());
  ASSERT_OK(database_->execute("ROLLBACK"));
  EXPECT_EQ(count_shared(), 1);
  ASSERT_OK(database_->execute("ROLLBACK"));
  ASSERT_OK(write());
  ASSERT_OK(database_->execute("ROLLBACK"));
  ASSERT_OK(database_->sync());
  EXPECT_EQ(count(*other_), 2);
  EXPECT_EQ(listener_.rollbacks, 0);
}

TEST_F(BatchTest, AWriterWaitsForAnotherProgramWithoutHoldingUpReaders) {
  Transaction theirs = Transaction::begin(*other_, Access::kWrite).value();
  std::atomic<bool> has_written = false;
  std::thread writer([&] {
    EXPECT_OK(write());
    has_written = true;
  });
  for (int i = 0; i < 100; ++i) {
    auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(count_shared(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(has_written);
  ASSERT_OK(theirs.commit());
  writer.join();
  EXPECT_EQ(count_shared(), 1);
}

TEST_F(BatchTest, AThreadThatMustNotWaitIsRefusedAtOnce) {
  Transaction theirs = Transaction::begin(*other_, Access::kWrite).value();
  NoWait no_wait;
  EXPECT_EQ(error_of(write()), Code::kBusy);
  EXPECT_TRUE(no_wait.was_hit());
}

TEST_F(BatchTest, AKeptBackRowCountsAsAChange) {
  ASSERT_OK(write());
  {
    Transaction dropped = begin(Access::kSharedWrite).value();
    database_->batch().note_kept_back(10);
  }
  EXPECT_EQ(listener_.undone, 1);
  EXPECT_EQ(count_shared(), 1);
}

TEST_F(BatchTest, WritingBackAKeptRowIsNotAChangeOfTheRunningTransaction) {
  {
    Transaction change = begin(Access::kSharedWrite).value();
    database_->batch().note_kept_back(10);
    ASSERT_OK(change.commit());
  }
  {
    Transaction refused = begin(Access::kSharedWrite).value();
    std::int64_t before = database_->total_changes();
    ASSERT_OK(insert());
    database_->batch().note_written_back(database_->total_changes() - before);
  }
  EXPECT_EQ(listener_.rollbacks, 0);
  ASSERT_OK(database_->sync());
  EXPECT_EQ(count(*other_), 1);
}

TEST_F(BatchTest, ALargeBatchEndsByItself) {
  Transaction change = begin(Access::kSharedWrite).value();
  ASSERT_OK(insert());
  database_->batch().note_kept_back(limits::kBatchBytes - 1);
  database_->batch().add_bytes(1);
  ASSERT_OK(change.commit());
  EXPECT_FALSE(database_->batch().is_open());
  EXPECT_EQ(count(*other_), 1);
  EXPECT_EQ(listener_.commits, 1);
}

TEST_F(BatchTest, ARequestedEndTakesEffectAtTheNextWriteNotAtARead) {
  ASSERT_OK(write());
  database_->batch().request_end();
  ASSERT_OK(begin(Access::kSharedRead)->commit());
  EXPECT_TRUE(database_->batch().is_open());
  ASSERT_OK(write());
  EXPECT_FALSE(database_->batch().is_open());
  EXPECT_EQ(count(*other_), 2);
}

TEST_F(BatchTest, AnotherConnectionKnocksAndSeesTheBatchOnceItHasEnded) {
  FileWatch watch = FileWatch::open(database_->wal_path()).value();
  ASSERT_OK(write());
  watch.take();
  bool knocked = false;
  std::thread keeper([&] {
    pollfd readable{watch.fd(), POLLIN, 0};
    knocked = ::poll(&readable, 1, kPatienceMs) == 1 && watch.take().touched;
    EXPECT_OK(database_->end_batch());
  });
  {
    Transaction reading = Transaction::begin(*other_, Access::kRead).value();
    EXPECT_EQ(count(*other_), 1);
  }
  keeper.join();
  EXPECT_TRUE(knocked);
}

TEST_F(BatchTest, WhileAnotherProcessListensEachChangeIsCommittedAndNotified) {
  std::unique_ptr<Database> listening = open({.commits = Commits::kGrouped});
  listening->listen_for_commits();
  FileWatch watch = FileWatch::open(database_->wal_path()).value();
  ASSERT_OK(write());
  EXPECT_FALSE(database_->batch().is_open());
  EXPECT_EQ(count(*listening), 1);
  EXPECT_TRUE(watch.take().touched);
  listening.reset();
  ASSERT_OK(write());
  EXPECT_TRUE(database_->batch().is_open());
  EXPECT_FALSE(watch.take().touched);
}

TEST_F(BatchTest, TheNextSharedReadSeesWhatAnotherConnectionCommitted) {
  auto read = [&] {
    Transaction reading = begin(Access::kSharedRead).value();
    return count(*database_);
  };
  EXPECT_EQ(read(), 0);
  EXPECT_EQ(read(), 0) << "now the log's index is unchanged";
  ASSERT_OK(other_->execute("INSERT INTO t VALUES (1)"));
  EXPECT_EQ(read(), 1);
  EXPECT_EQ(read(), 1);
}

TEST_F(BatchTest, TheForeignEpochMovesForOthersAndNotForOurOwnBatches) {
  auto epoch = [&] {
    Transaction reading = begin(Access::kSharedRead).value();
    EXPECT_OK(database_->look());
    return database_->foreign_epoch();
  };
  std::uint64_t first = epoch();
  ASSERT_OK(write());
  EXPECT_EQ(epoch(), first);
  ASSERT_OK(database_->end_batch());
  EXPECT_EQ(epoch(), first);
  ASSERT_OK(other_->execute("INSERT INTO t VALUES (1)"));
  EXPECT_NE(epoch(), first);
}

}  // namespace
}  // namespace warren
