#include "base/percent.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Percent, TwoHexadecimalDigitsAreAByte) {
  EXPECT_EQ(decode_percent_bytes("a%2Fb%c3%a4"), "a/b\xc3\xa4");
  EXPECT_EQ(decode_percent_bytes("%00"), std::string(1, '\0'));
  EXPECT_EQ(decode_percent_bytes(""), "");
}

TEST(Percent, AnythingElseAfterThePercentIsRefused) {
  for (std::string_view bad : {"%", "%4", "%zz", "a%-1", "%%41"}) EXPECT_EQ(decode_percent_bytes(bad), std::nullopt);
}

}  // namespace
}  // namespace warren
