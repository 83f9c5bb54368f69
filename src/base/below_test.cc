#include "base/below.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(IsAtOrBelow, WholeNamesCount) {
  EXPECT_TRUE(is_at_or_below("/a/b", "/a"));
  EXPECT_TRUE(is_at_or_below("/a", "/a"));
  EXPECT_FALSE(is_at_or_below("/ab", "/a"));
  EXPECT_FALSE(is_at_or_below("/a", "/a/b"));
  EXPECT_TRUE(is_at_or_below("/a", "/"));
  EXPECT_TRUE(is_at_or_below("/", "/"));
}

}  // namespace
}  // namespace warren
