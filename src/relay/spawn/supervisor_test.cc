#include "relay/spawn/supervisor.h"

#include <gtest/gtest.h>

#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

Life life(std::string name, std::string spawner, std::int64_t depth, LifeState state = LifeState::kRunning) {
  Life out;
  out.message_id = spawner + "/" + name;
  out.name = std::move(name);
  out.spawner = std::move(spawner);
  out.depth = depth;
  out.state = state;
  return out;
}

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    config.count_max = 4;
    config.depth_max = 2;
    config.per_minute = 3;
  }
  SpawnConfig config;
  testing::FakeClock clock;
  Supervisor supervisor{config, clock};
};

TEST_F(SupervisorTest, KnowsTheAncestors) {
  supervisor.apply(
      {life("top", "alice", 1), life("middle", "top", 2), life("bottom", "middle", 3), life("beside", "alice", 1)});
  EXPECT_TRUE(supervisor.is_ancestor("alice", "bottom"));
  EXPECT_TRUE(supervisor.is_ancestor("top", "bottom"));
  EXPECT_FALSE(supervisor.is_ancestor("bottom", "top"));
  EXPECT_FALSE(supervisor.is_ancestor("beside", "bottom"));
  EXPECT_FALSE(supervisor.is_ancestor("top", "top"));
  EXPECT_EQ(supervisor.list_descendants("top"), (std::vector<std::string>{"bottom", "middle"}));
  EXPECT_EQ(supervisor.depth_of("bottom"), 3);
  EXPECT_EQ(supervisor.depth_of("alice"), 0);
}

TEST_F(SupervisorTest, ACircularChainTerminates) {
  supervisor.apply({life("a", "b", 1), life("b", "a", 2)});
  EXPECT_TRUE(supervisor.is_ancestor("a", "a"));
  EXPECT_FALSE(supervisor.is_ancestor("c", "a"));
}

TEST_F(SupervisorTest, CountsRunningAndRequestedAgents) {
  supervisor.apply({life("a", "x", 1), life("b", "x", 1, LifeState::kAsked), life("c", "x", 1, LifeState::kExited)});
  EXPECT_OK(supervisor.check_limits("y", {life("d", "x", 1, LifeState::kAsked)}));
  std::vector<Life> planned = {life("d", "z", 1, LifeState::kAsked), life("e", "z", 1, LifeState::kAsked)};
  EXPECT_EQ(error_of(supervisor.check_limits("y", planned)), Code::kLimit);
  Life failed = life("b", "x", 1, LifeState::kFailed);
  supervisor.apply({failed});
  EXPECT_OK(supervisor.check_limits("y", planned));
  EXPECT_FALSE(supervisor.is_asked("b"));
}

TEST_F(SupervisorTest, DepthIsLimited) {
  supervisor.apply({life("a", "x", 1), life("b", "a", 2)});
  EXPECT_OK(supervisor.check_limits("a", {}));
  EXPECT_EQ(error_of(supervisor.check_limits("b", {})), Code::kLimit);
}

TEST_F(SupervisorTest, TheRateOfOneSpawnerIsLimitedByAClockThatDoesNotJump) {
  for (int number = 0; number < 3; ++number) {
    Life asked = life("w" + std::to_string(number), "x", 1, LifeState::kAsked);
    supervisor.apply({asked});
    asked.state = LifeState::kFailed;
    supervisor.apply({asked});
  }
  EXPECT_EQ(error_of(supervisor.check_limits("x", {})), Code::kLimit);
  EXPECT_OK(supervisor.check_limits("y", {}));
  clock.jump_ns(3'600'000'000'000);
  EXPECT_EQ(error_of(supervisor.check_limits("x", {})), Code::kLimit);
  clock.advance_ns(61'000'000'000);
  EXPECT_OK(supervisor.check_limits("x", {}));
}

TEST_F(SupervisorTest, AProcessFromAnotherBootHasEnded) {
  Life gone = life("a", "x", 1);
  gone.process = {"another boot", 1, 1, 1};
  supervisor.load({gone, life("b", "x", 1, LifeState::kReleased), life("c", "x", 1, LifeState::kAsked)});
  ASSERT_EQ(supervisor.ends().size(), 1U);
  EXPECT_EQ(supervisor.ends()[0].name, "a");
  EXPECT_FALSE(supervisor.ends()[0].end.code);
  EXPECT_EQ(supervisor.wake_at_ns(), 0);
  EXPECT_TRUE(supervisor.has_ended("b"));
  EXPECT_TRUE(supervisor.was_released("b"));
  EXPECT_NE(supervisor.find_asked("x/c"), nullptr);
  supervisor.forget_reported(1, 0);
  EXPECT_TRUE(supervisor.ends().empty());
}

TEST_F(SupervisorTest, AfterADoubtfulCommitTheLedgerDecides) {
  supervisor.apply({life("a", "x", 1, LifeState::kAsked), life("b", "x", 1, LifeState::kAsked)});
  Life started = life("a", "x", 1);
  started.process = {"another boot", 1, 1, 1};
  supervisor.reconcile({started, life("c", "x", 1, LifeState::kAsked), life("d", "x", 1, LifeState::kExited)});
  EXPECT_FALSE(supervisor.is_asked("a"));
  EXPECT_FALSE(supervisor.is_asked("b"));
  EXPECT_TRUE(supervisor.is_asked("c"));
  ASSERT_EQ(supervisor.ends().size(), 1U);  // recorded, but its gate was never opened
  EXPECT_EQ(supervisor.ends()[0].name, "a");
  EXPECT_TRUE(supervisor.has_ended("d"));
  supervisor.reconcile({started, life("c", "x", 1, LifeState::kAsked), life("d", "x", 1, LifeState::kExited)});
  EXPECT_EQ(supervisor.ends().size(), 1U);
}

TEST_F(SupervisorTest, OnlyRunningAgentsAreOverdueAndOnlyOnce) {
  supervisor.apply({life("a", "x", 1), life("b", "x", 1, LifeState::kExited)});
  supervisor.note_overdue("a", "why");
  supervisor.note_overdue("a", "why");
  supervisor.note_overdue("b", "why");
  supervisor.note_overdue("c", "why");
  ASSERT_EQ(supervisor.overdue().size(), 1U);
  EXPECT_EQ(supervisor.overdue()[0].name, "a");
}

}  // namespace
}  // namespace warren::relay
