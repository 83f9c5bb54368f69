#include "cli/show/text.h"

#include <gtest/gtest.h>

namespace warren::cli {
namespace {

TEST(Text, Utf8IsDistinguishedFromOtherBytes) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("späße 日本\n\x1b"));
  EXPECT_FALSE(is_utf8("\xff"));
  EXPECT_FALSE(is_utf8("ab\xc3"));
  EXPECT_FALSE(is_utf8("\xc0\xaf"));  // an overlong '/'
}

TEST(Text, JsonGetsBytesThatAreNotUtf8InHexadecimal) {
  Json object;
  set_bytes(object, "name", "ok");
  EXPECT_EQ(dump_json(object), R"({"name":"ok"})");
  set_bytes(object, "name", "x\xff");
  EXPECT_EQ(object["name_hex"], "78ff");
}

TEST(Text, ColumnsAreCountedInCharacters) {
  EXPECT_EQ(columns_of("äöü"), 3U);
  EXPECT_EQ(pad_right("ä", 3), "ä  ");
  EXPECT_EQ(pad_left("ä", 3), "  ä");
  EXPECT_EQ(shorten("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(shorten("abcdefghi", 8), "abcde...");
  EXPECT_EQ(shorten("ääääääääää", 8), "äääää...");
}

TEST(Wrap, LinesBreakBetweenWordsAndAreIndented) {
  EXPECT_EQ(wrap("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrap("one two three", 8, 2), "one two\n  three");
  EXPECT_EQ(wrap("one two", 10, 4, 6), "one\n    two");
  EXPECT_EQ(wrap("short", 80, 4), "short");
  EXPECT_EQ(wrap("", 80), "");
}

TEST(Wrap, LineEndsStayAndLongWordsAreNotCut) {
  EXPECT_EQ(wrap("a b\nc", 80, 2), "a b\n  c");
  EXPECT_EQ(wrap("a incomprehensible b", 6), "a\nincomprehensible\nb");
  EXPECT_EQ(wrap("\u00e4\u00e4 \u00e4\u00e4", 5), "\u00e4\u00e4 \u00e4\u00e4");
}

}  // namespace
}  // namespace warren::cli
