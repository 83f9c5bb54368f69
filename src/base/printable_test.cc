#include "base/printable.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace warren {
namespace {

TEST(Printable, CharactersThatControlATerminalAreEscaped) {
  EXPECT_EQ(printable("a\x1b[31mb\x7f"), "a\\x1b[31mb\\x7f");
  EXPECT_EQ(printable("\u009b31m\u0085"), "\\u009b31m\\u0085");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, CharactersThatReorderOrHideTextAreEscaped) {
  EXPECT_EQ(printable("gpj.\u202eexe"), "gpj.\\u202eexe");
  EXPECT_EQ(printable("\u2066\u2069\u200e\u061c"), "\\u2066\\u2069\\u200e\\u061c");
  EXPECT_EQ(printable("a\u200bb\u200d\ufeff\u00ad"), "a\\u200bb\\u200d\\ufeff\\u00ad");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");
}

TEST(Printable, BytesThatAreNotUtf8AreEscapedOneByOne) {
  EXPECT_EQ(printable("\xff\x9b"), "\\xff\\x9b");
  EXPECT_EQ(printable("ab\xc3"), "ab\\xc3");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // an overlong ESC-like byte
}

TEST(Printable, WritingOfEveryLanguageStaysAsItIs) {
  for (std::string_view text :
       {"plain", "späße", "日本語", "שלום", "مرحبا", "😀", "e\u0301", "\u00a0", "\u2026", "\ufffd"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, LineEndsPassOnlyInTextOfSeveralLines) {
  EXPECT_EQ(printable("a\nb\tc\r"), "a\\x0ab\\x09c\\x0d");
  EXPECT_EQ(printable_text("a\nb\tc\r\x1b"), "a\nb\tc\\x0d\\x1b");
  EXPECT_EQ(printable_text("a\u2028b"), "a\\u2028b");
}

TEST(Printable, JsonStaysTheSameJson) {
  Json value{{"name", "a\u202eb\u009b\x7f\U000e0041"}, {"list", {1, "é"}}};
  for (const std::string& text : {dump_json(value), dump_json_pretty(value)}) {
    std::string safe = printable_json(text);
    EXPECT_EQ(Json::parse(safe), value);
    EXPECT_EQ(printable_text(safe), safe);
  }
}

}  // namespace
}  // namespace warren
