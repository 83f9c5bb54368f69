#include "base/ascii.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Ascii, TrimmedDropsOnlyWhatIsNamedAndOnlyAtTheEnds) {
  EXPECT_EQ(trimmed(" \ta b\t "), "a b");
  EXPECT_EQ(trimmed("a\n"), "a\n");
  EXPECT_EQ(trimmed("\r\na\n", kWhitespace), "a");
  EXPECT_EQ(trimmed(" \t "), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Ascii, ToLowerLeavesOtherBytesAlone) { EXPECT_EQ(to_lower("aBZ-\xc3\x84"), "abz-\xc3\x84"); }

TEST(Ascii, ParseNumberTakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_EQ(parse_number<int>("-1"), -1);
  EXPECT_EQ(parse_number<std::uint8_t>("256"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint64_t>("-1"), std::nullopt);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1"}) EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
}

}  // namespace
}  // namespace warren
