#include "base/utf8.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Utf8, WellFormedSequencesHaveTheirLength) {
  EXPECT_EQ(utf8_length("ab"), 1U);
  EXPECT_EQ(utf8_length(std::string_view("\0", 1)), 1U);
  EXPECT_EQ(utf8_length("\xC3\xBC!"), 2U);
  EXPECT_EQ(utf8_length("\xE2\x82\xAC"), 3U);
  EXPECT_EQ(utf8_length("\xF4\x8F\xBF\xBF"), 4U);
}

TEST(Utf8, AnythingElseHasNone) {
  for (const char* bytes : {"", "\x80", "\xC0\x80", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
                            "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(utf8_length(bytes), 0U) << bytes;
  }
}

TEST(Utf8, TextIsUtf8IfAllOfItIs) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\xC3\xBC\xE2\x82\xAC"));
  EXPECT_FALSE(is_utf8("a\xC3\xBC\xE2\x82"));
  EXPECT_FALSE(is_utf8("\xFFz"));
}

}  // namespace
}  // namespace warren
