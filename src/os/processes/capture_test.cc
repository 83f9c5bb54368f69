#include "os/processes/capture.h"

#include <array>
#include <csignal>
#include <cstdlib>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/processes/signals.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

TEST(Capture, AProgramThatRunsTooLongIsKilled) {
  EXPECT_EQ(error_of(run_captured({"sleep", "600"}, "/", -1, std::chrono::milliseconds(50))), Code::kTimeout);
}

TEST(Capture, AProgramThatPrintsWithoutEndIsKilled) {
  Result<Captured> endless = run_captured_group({"sh", "-c", "yes; true"}, "/", std::chrono::minutes(10));
  EXPECT_EQ(error_of(endless), Code::kTooLarge);
}

TEST(Capture, AGroupIsKilledWithTheProgramsThatItStarted) {
  Fd ends[2];
  int raw[2];
  ASSERT_EQ(::pipe(raw), 0);
  ends[0] = Fd(raw[0]);
  ends[1] = Fd(raw[1]);  // the programs inherit it, so the other end closes when the last of them has ended
  std::vector<std::string> words{"sh", "-c", "sleep 600 & sleep 600"};
  EXPECT_EQ(error_of(run_captured_group(words, "/", std::chrono::milliseconds(100))), Code::kTimeout);
  ends[1] = Fd();
  std::array<std::byte, 1> nothing{};
  EXPECT_EQ(read_some(ends[0].get(), nothing).take_value(), 0U);
}

TEST(Capture, AProgramThatEndsInTimeIsNot) {
  Captured done =
      run_captured({"sh", "-c", "echo out; echo err >&2; exit 3"}, "/", -1, std::chrono::minutes(1)).take_value();
  EXPECT_EQ(done.status, 3);
  EXPECT_EQ(done.output, "out\n");
  EXPECT_EQ(done.errors, "err\n");
}

TEST(Capture, AProgramGetsOnlyTheEnvironmentThatItIsGiven) {
  ASSERT_EQ(::setenv("WARREN_CAPTURE_TEST", "secret", 1), 0);
  std::vector<std::string> given{"A=1"};
  EXPECT_EQ(run_captured({"env"}, "/", -1, std::chrono::minutes(1), &given)->output, "A=1\n");
  EXPECT_THAT(run_captured({"env"}, "/")->output, ::testing::HasSubstr("WARREN_CAPTURE_TEST=secret"));
  ::unsetenv("WARREN_CAPTURE_TEST");
}

TEST(Capture, AProgramThatCannotStartIsAnError) {
  EXPECT_EQ(error_of(run_captured({"no-such-program"}, "/")), Code::kNotFound);
  EXPECT_EQ(error_of(run_captured({"true"}, "/no-such-directory")), Code::kNotFound);
  EXPECT_EQ(error_of(run_captured_group({"/"}, "/", std::chrono::minutes(1))), Code::kDenied);
}

TEST(Capture, AProgramBlocksNoSignals) {
  SignalMask mask;
  DeferredSignals blocked({SIGINT, SIGTERM});
  EXPECT_EQ(run_captured({"grep", "SigBlk", "/proc/self/status"}, "/")->output, "SigBlk:\t0000000000000000\n");
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  EXPECT_EQ(::sigismember(&now, SIGINT), 1);
}

TEST(Capture, ASignalThatEndsAProgramIsKnown) {
  Captured done = run_captured({"sh", "-c", "kill -INT $$"}, "/").take_value();
  EXPECT_EQ(done.signal, SIGINT);
  EXPECT_EQ(done.status, 128 + SIGINT);
  EXPECT_EQ(run_captured({"sh", "-c", "exit 130"}, "/")->signal, 0);
}

TEST(Capture, TheMemoryOfAProgramIsLimitedFromItsBeginning) {
  Captured done = run_captured({"sh", "-c", "ulimit -d"}, "/", -1, std::nullopt, nullptr, 64 << 20).take_value();
  EXPECT_EQ(done.output, "65536\n");
}

}  // namespace
}  // namespace warren
