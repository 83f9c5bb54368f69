#include "db/wal_signals.h"

#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "testing/temp_dir.h"

namespace warren {
namespace {

// Two connections, as of two processes: the locks belong to the open file description.
class WalSignalsTest : public ::testing::Test {
 protected:
  WalSignalsTest() {
    std::ofstream(path_) << "log";
    ours_ = WalSignals::open(path_);
    theirs_ = WalSignals::open(path_);
  }

  testing::TempDir directory_;
  std::string path_ = directory_.file("a.db-wal");
  std::unique_ptr<WalSignals> ours_;
  std::unique_ptr<WalSignals> theirs_;
};

TEST_F(WalSignalsTest, WithoutAWalFileThereAreNone) { EXPECT_EQ(WalSignals::open(directory_.file("none")), nullptr); }

TEST_F(WalSignalsTest, ABatchIsLockedElsewhereUntilItIsUnlockedOrItsProcessIsGone) {
  ours_->lock_batch();
  EXPECT_TRUE(theirs_->is_batch_locked_elsewhere());
  EXPECT_FALSE(ours_->is_batch_locked_elsewhere()) << "it is our own";
  ours_->unlock_batch();
  EXPECT_FALSE(theirs_->is_batch_locked_elsewhere());
  ours_->lock_batch();
  ours_.reset();
  EXPECT_FALSE(theirs_->is_batch_locked_elsewhere());
}

TEST_F(WalSignalsTest, AKnockWaitsUntilTheBatchIsUnlocked) {
  ours_->lock_batch();
  std::thread owner([&] { ours_->unlock_batch(); });
  EXPECT_TRUE(theirs_->knock_and_wait());
  theirs_->stop_knocking();
  owner.join();
  EXPECT_FALSE(ours_->is_knocked());
  theirs_->knock();
  EXPECT_TRUE(ours_->is_knocked());
}

TEST_F(WalSignalsTest, SeatsAreFoundInOrderUntilTheyAreLeftOrTheirConnectionIsGone) {
  auto third = WalSignals::open(path_);
  EXPECT_EQ(ours_->take_seat(), 1U);
  EXPECT_EQ(ours_->take_seat(), 1U) << "it has one already";
  EXPECT_EQ(theirs_->take_seat(), 2U);
  EXPECT_EQ(third->take_seat(), 3U);
  EXPECT_EQ(ours_->find_seat_after(0), 2U) << "our own does not count";
  EXPECT_EQ(ours_->find_seat_after(2), 3U);
  EXPECT_EQ(ours_->find_seat_after(3), 0U);
  EXPECT_EQ(third->find_seat_after(0), 1U);
  ours_->leave_seat();
  EXPECT_EQ(third->find_seat_after(0), 2U);
  theirs_.reset();
  EXPECT_EQ(third->find_seat_after(0), 0U);
  EXPECT_EQ(ours_->take_seat(), 1U) << "the lowest";
}

TEST_F(WalSignalsTest, OnlyOthersCountAsListeners) {
  ours_->listen();
  EXPECT_FALSE(ours_->has_listeners());
  EXPECT_TRUE(theirs_->has_listeners());
}

}  // namespace
}  // namespace warren
