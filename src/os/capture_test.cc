#include "os/capture.h"

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

}  // namespace
}  // namespace warren
