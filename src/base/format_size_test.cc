#include "base/format_size.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(FormatSize, ASizeHasTheUnitInWhichItIsShort) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1536), "1.5 KiB");
  EXPECT_EQ(format_size(std::uint64_t{5} << 40), "5.0 TiB");
}

}  // namespace
}  // namespace warren
