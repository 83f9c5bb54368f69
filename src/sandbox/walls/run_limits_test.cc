#include "sandbox/walls/run_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(RunLimits, OurCgroupIsFoundOnlyInVersion2) {
  EXPECT_EQ(parse_own_cgroup("0::/user.slice/app.slice/x.scope\n"), "/user.slice/app.slice/x.scope");
  EXPECT_EQ(parse_own_cgroup("9:pids:/\n1:cpu:/\n0::/\n"), "/");
  EXPECT_EQ(parse_own_cgroup("9:pids:/a\n1:cpu:/\n"), std::nullopt);
  EXPECT_EQ(parse_own_cgroup(""), std::nullopt);
}

TEST(RunLimits, SurviveAMessage) {
  LimitsInForce limits{.limits = {.memory_bytes = 5, .processes = 7, .cpu_seconds = std::nullopt, .disk_bytes = 9},
                       .counts_in_namespace = true,
                       .cgroup = "/sys/fs/cgroup/x y"};
  std::vector<std::string> fields = limits.fields();
  ASSERT_EQ(fields.size(), LimitsInForce::kFields);
  LimitsInForce again = LimitsInForce::from_fields(fields.data());
  EXPECT_EQ(again.limits, limits.limits);
  EXPECT_TRUE(again.counts_in_namespace);
  EXPECT_EQ(again.cgroup, limits.cgroup);
}

TEST(RunLimits, SayHowTheyAreEnforced) {
  LimitsInForce limits{
      .limits = {.memory_bytes = std::uint64_t{3} << 29, .processes = 100, .cpu_seconds = 60, .disk_bytes = {}},
      .counts_in_namespace = true,
      .cgroup = ""};
  EXPECT_THAT(limits.lines(), ::testing::ElementsAre("memory: 1.5 GiB for each process (rlimit)",
                                                     "processes: 100 for the whole run (pid namespace)",
                                                     "cpu time: 60 s for each process (rlimit)"));
  limits.cgroup = "/x";
  EXPECT_EQ(limits.lines().front(), "memory: 1.5 GiB for the whole run (cgroup)");
}

}  // namespace
}  // namespace warren
