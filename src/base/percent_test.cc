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

TEST(Percent, EncodingKeepsWhatNeedsNone) {
  EXPECT_EQ(encode_percent("aZ9-._~"), "aZ9-._~");
  EXPECT_EQ(encode_percent("a b/\xff%"), "a%20b%2F%FF%25");
  EXPECT_EQ(encode_percent("a b/\xff", "/"), "a%20b/%FF");
}

}  // namespace
}  // namespace warren
