#include "text/diff/unified.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

std::string unified(std::string_view a, std::string_view b, std::size_t context = 3) {
  return unified_hunks(a, b, diff_lines(a, b), {.context = context});
}

TEST(Unified, EqualTextsHaveNoDiff) {
  EXPECT_EQ(unified("", ""), "");
  EXPECT_EQ(unified("a\n", "a\n"), "");
}

TEST(Unified, AHunkHasThreeLinesOfContext) {
  EXPECT_EQ(unified("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nX\n6\n7\n8\n9\n"),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n");
}

TEST(Unified, ACountOfOneIsOmittedAndAnEmptyRangeStartsAtThePreviousLine) {
  EXPECT_EQ(unified("a\n", "b\n"), "@@ -1 +1 @@\n-a\n+b\n");
  EXPECT_EQ(unified("", "b\n"), "@@ -0,0 +1 @@\n+b\n");
  EXPECT_EQ(unified("a\nb\n", ""), "@@ -1,2 +0,0 @@\n-a\n-b\n");
  EXPECT_EQ(unified("a\nb\n", "a\nX\nb\n", 0), "@@ -1,0 +2 @@\n+X\n");
}

TEST(Unified, AMissingNewlineAtTheEndIsMarked) {
  EXPECT_EQ(unified("a\nb", "a\nb\n"), "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
  EXPECT_EQ(unified("a\nb\n", "a\nb"), "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n");
  EXPECT_EQ(unified("a\nb", "X\nb"), "@@ -1,2 +1,2 @@\n-a\n+X\n b\n\\ No newline at end of file\n");
}

TEST(Unified, HunksWithoutOmittedLinesBetweenThemAreJoined) {
  std::string before = "a\n1\n2\n3\n4\n5\n6\nb\n";
  std::string after = "A\n1\n2\n3\n4\n5\n6\nB\n";
  EXPECT_EQ(unified(before, after), "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
  before.insert(before.size() - 2, "7\n");
  after.insert(after.size() - 2, "7\n");
  EXPECT_EQ(unified(before, after), "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}

TEST(Unified, AnyAmountOfContextWorks) {
  EXPECT_EQ(unified("a\nb\nc\n", "a\nX\nc\n", SIZE_MAX), "@@ -1,3 +1,3 @@\n a\n-b\n+X\n c\n");
  EXPECT_EQ(unified("a\nb\nc\n", "a\nX\nc\n", 0), "@@ -2 +2 @@\n-b\n+X\n");
}

}  // namespace
}  // namespace warren
