#include "os/processes/supervised.h"

#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using std::chrono::milliseconds;

Supervision limits(milliseconds timeout, std::size_t bytes) {
  return {.timeout = timeout, .grace = milliseconds(500), .output_bytes_max = bytes, .is_cancelled = nullptr};
}

TEST(Supervised, BothStreamsAndTheStatusComeBack) {
  Supervised done =
      run_supervised({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, "/", limits(milliseconds(60'000), 100))
          .value();
  EXPECT_EQ(done.status, 3);
  EXPECT_EQ(done.output, "out\n");
  EXPECT_EQ(done.errors, "err\n");
  EXPECT_FALSE(done.is_cut);
  EXPECT_EQ(done.ended_by, EndedBy::kItself);
}

TEST(Supervised, OutputIsCutAndTheProgramStillEnds) {
  Supervised done =
      run_supervised({"/bin/sh", "-c", "yes | head -c 3000000"}, "/", limits(milliseconds(60'000), 1000)).value();
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.output.size(), 1000U);
  EXPECT_TRUE(done.is_cut);
}

TEST(Supervised, AProgramThatIgnoresTheEndIsKilled) {
  Supervised done = run_supervised({"/bin/sh", "-c", "trap '' TERM; echo up; while :; do :; done"}, "/",
                                   limits(milliseconds(300), 100))
                        .value();
  EXPECT_EQ(done.ended_by, EndedBy::kTimeout);
  EXPECT_EQ(done.status, 128 + 9);
  EXPECT_EQ(done.output, "up\n");
}

TEST(Supervised, ACancelledProgramEnds) {
  std::atomic<bool> is_cancelled = true;
  Supervision how = limits(milliseconds(600'000), 100);
  how.is_cancelled = &is_cancelled;
  Supervised done = run_supervised({"/bin/sleep", "1000"}, "/", how).value();
  EXPECT_EQ(done.ended_by, EndedBy::kCancelled);
}

TEST(Supervised, AChildThatKeepsThePipesIsNotWaitedFor) {
  Supervised done =
      run_supervised({"/bin/sh", "-c", "sleep 1000 & echo $!"}, "/", limits(milliseconds(600'000), 100)).value();
  EXPECT_EQ(done.status, 0);
  pid_t left = std::stoi(done.output);
  EXPECT_EQ(::kill(left, SIGKILL), 0);
}

TEST(Supervised, AMissingProgramIsStatus127) {
  EXPECT_EQ(run_supervised({"/no/such/program"}, "/", limits(milliseconds(60'000), 100)).value().status, 127);
}

}  // namespace
}  // namespace warren
