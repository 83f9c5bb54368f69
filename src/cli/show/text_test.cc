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

}  // namespace
}  // namespace warren::cli
