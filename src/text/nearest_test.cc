#include "text/nearest.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Nearest, AMisspelledWordIsRecognised) {
  EXPECT_EQ(nearest("dif", {"diff", "apply"}), "diff");
  EXPECT_EQ(nearest("aplpy", {"diff", "apply"}), "apply");
  EXPECT_EQ(nearest("swift-foz-12ab", {"swift-fox-12ab", "calm-owl-0000"}), "swift-fox-12ab");
}

TEST(Nearest, AnotherWordIsNot) {
  EXPECT_EQ(nearest("mount", {"diff", "apply"}), "");
  EXPECT_EQ(nearest(std::string(100, 'a'), {std::string(99, 'a')}), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest("11", {"1", "12", "fix"}), "");
}

}  // namespace
}  // namespace warren
