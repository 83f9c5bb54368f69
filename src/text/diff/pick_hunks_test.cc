#include "text/diff/pick_hunks.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

std::string picked(std::string_view before, std::string_view after, const std::vector<bool>& is_taken) {
  std::vector<Hunk> hunks = diff_lines(before, after);
  EXPECT_EQ(hunks.size(), is_taken.size());
  return pick_hunks(before, after, hunks, is_taken);
}

TEST(PickHunks, OnlyTakenHunksAreChanged) {
  std::string before = "1\n2\n3\n4\n5\n";
  std::string after = "one\n2\n4\n5\nsix\n";
  EXPECT_EQ(picked(before, after, {true, false, false}), "one\n2\n3\n4\n5\n");
  EXPECT_EQ(picked(before, after, {false, true, false}), "1\n2\n4\n5\n");
  EXPECT_EQ(picked(before, after, {false, false, true}), "1\n2\n3\n4\n5\nsix\n");
  EXPECT_EQ(picked(before, after, {true, true, true}), after);
  EXPECT_EQ(picked(before, after, {false, false, false}), before);
}

TEST(PickHunks, ALastLineWithoutItsEndIsKept) {
  EXPECT_EQ(picked("a\nb\nc", "A\nb\nC", {true, false}), "A\nb\nc");
  EXPECT_EQ(picked("a\nb\nc", "A\nb\nC", {false, true}), "a\nb\nC");
}

TEST(PickHunks, EmptyTexts) {
  EXPECT_EQ(picked("", "a\n", {true}), "a\n");
  EXPECT_EQ(picked("", "a\n", {false}), "");
  EXPECT_EQ(picked("a\n", "", {true}), "");
  EXPECT_EQ(picked("", "", {}), "");
}

}  // namespace
}  // namespace warren
