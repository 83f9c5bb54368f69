#include "base/shell_word.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(ShellWord, APlainNameStaysAsItIs) {
  EXPECT_EQ(shell_word("warren/fix-1_a.b"), "warren/fix-1_a.b");
  EXPECT_EQ(shell_word(":/src/a.cc"), ":/src/a.cc");
}

TEST(ShellWord, WhateverAShellCouldTakeForSomethingElseIsQuoted) {
  for (const char* text : {"a b", "x;touch${IFS}y", "$(x)", "a|b", "a&b", "`x`", "~", "*", "#a", "!", "=x"})
    EXPECT_EQ(shell_word(text), "'" + std::string(text) + "'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(ShellWord, AQuoteInItEndsAndBeginsTheQuotedPart) { EXPECT_EQ(shell_word("it's"), "'it'\\''s'"); }

}  // namespace
}  // namespace warren
