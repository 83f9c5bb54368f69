#include "relay/operation_trials.h"

#include <gtest/gtest.h>

namespace warren::relay {
namespace {

class OperationTrialsTest : public ::testing::Test {
 protected:
  void fail(std::vector<OperationEnd> operations, Code code, bool is_trial) {
    Plan plan;
    plan.operations = std::move(operations);
    plan.is_trial = is_trial;
    trials.note_failure(plan, Error(code, "why"), false);
  }

  OperationTrials trials;
};

TEST_F(OperationTrialsTest, EachIsTriedAloneAndEverythingElseHasItsTurnInBetween) {
  EXPECT_FALSE(trials.begin(0));
  fail({{7}, {8}}, Code::kConflict, false);
  EXPECT_TRUE(trials.begin(0));
  EXPECT_TRUE(trials.is_tried(7));
  EXPECT_FALSE(trials.begin(0));
  EXPECT_TRUE(trials.begin(0));
  EXPECT_TRUE(trials.is_tried(8));
  EXPECT_FALSE(trials.has_suspects());
}

TEST_F(OperationTrialsTest, OneThatIsRefusedAloneIsGivenUp) {
  fail({{7}, {8}}, Code::kConflict, false);
  ASSERT_TRUE(trials.begin(0));
  fail({{7}}, Code::kConflict, true);
  ASSERT_NE(trials.find_given_up(7), nullptr);
  EXPECT_EQ(*trials.find_given_up(7), "why");
  EXPECT_EQ(trials.find_given_up(8), nullptr);
  trials.pause_until(1000);
  EXPECT_EQ(trials.at_ns(), 0);  // the next one need not wait
  trials.note_recorded(7);
  EXPECT_EQ(trials.find_given_up(7), nullptr);
}

TEST_F(OperationTrialsTest, OtherFailuresSayNothingAboutAnOperation) {
  for (Code code : {Code::kIo, Code::kNoSpace, Code::kLimit, Code::kBusy, Code::kUnavailable, Code::kInternal}) {
    fail({{7}}, code, false);
    EXPECT_FALSE(trials.has_suspects());
  }
  fail({{7}}, Code::kConflict, false);
  ASSERT_TRUE(trials.begin(0));
  fail({{7}}, Code::kIo, true);
  EXPECT_EQ(trials.find_given_up(7), nullptr);
  trials.pause_until(1000);
  EXPECT_FALSE(trials.begin(0));
  EXPECT_FALSE(trials.begin(999));
  EXPECT_TRUE(trials.begin(1000));
  EXPECT_TRUE(trials.is_tried(7));
}

}  // namespace
}  // namespace warren::relay
