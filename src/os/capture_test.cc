#include "os/capture.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

TEST(Capture, AProgramThatRunsTooLongIsKilled) {
  EXPECT_EQ(error_of(run_captured({"sleep", "600"}, "/", -1, std::chrono::milliseconds(50))), Code::kTimeout);
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

}  // namespace
}  // namespace warren
