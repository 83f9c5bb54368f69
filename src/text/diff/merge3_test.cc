#include "text/diff/merge3.h"

#include <gtest/gtest.h>

#include "text/diff/random_text_testing.h"

namespace warren {
namespace {

using testing::LineStyle;
using testing::RandomText;

constexpr std::string_view kSix = "1\n2\n3\n4\n5\n6\n";

TEST(Merge3, ChangesOfDifferentPlacesAreBothTaken) {
  Merged merged = merge3(kSix, "one\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\nsix\nseven\n");
  EXPECT_TRUE(merged.is_clean());
  EXPECT_EQ(merged.text, "one\n2\n3\n4\n5\nsix\nseven\n");
}

TEST(Merge3, TheSameChangeOnBothSidesIsTakenOnce) {
  Merged merged = merge3(kSix, "1\n2\nX\n4\n5\n6\n", "1\n2\nX\n4\n5\nY\n");
  EXPECT_TRUE(merged.is_clean());
  EXPECT_EQ(merged.text, "1\n2\nX\n4\n5\nY\n");
  EXPECT_EQ(merge3("", "a\n", "a\n").text, "a\n");
  EXPECT_EQ(merge3("a\n", "", "").text, "");
}

TEST(Merge3, DifferentChangesOfALineConflict) {
  Merged merged = merge3(kSix, "1\n2\nX\n4\n5\n6\n", "1\n2\nY\n4\n5\n6\n");
  ASSERT_EQ(merged.conflicts.size(), 1U);
  EXPECT_EQ(merged.conflicts[0], (Conflict{.ancestor = {2, 1}, .ours = {2, 1}, .theirs = {2, 1}}));
  EXPECT_EQ(merged.text, "1\n2\n<<<<<<< ours\nX\n=======\nY\n>>>>>>> theirs\n4\n5\n6\n");
}

TEST(Merge3, ChangesThatTouchConflictAndOneLineBetweenIsEnough) {
  EXPECT_FALSE(merge3(kSix, "1\n2\nX\n4\n5\n6\n", "1\n2\n3\nY\n5\n6\n").is_clean());
  EXPECT_TRUE(merge3(kSix, "1\n2\nX\n4\n5\n6\n", "1\n2\n3\n4\nY\n6\n").is_clean());
  EXPECT_FALSE(merge3("a\n", "a\nb\n", "a\nc\n").is_clean());
}

TEST(Merge3, ADeletionAgainstAChangeConflicts) {
  Merged merged = merge3(kSix, "1\n2\n4\n5\n6\n", "1\n2\nY\n4\n5\n6\n", {.ours = "here", .theirs = "there"});
  EXPECT_EQ(merged.text, "1\n2\n<<<<<<< here\n=======\nY\n>>>>>>> there\n4\n5\n6\n");
}

TEST(Merge3, WhatBothSidesHaveInCommonIsOutsideTheMarkers) {
  Merged merged = merge3("old\n", "same\nX\n", "same\nY\n");
  EXPECT_EQ(merged.text, "same\n<<<<<<< ours\nX\n=======\nY\n>>>>>>> theirs\n");
}

TEST(Merge3, MarkersStandOnLinesOfTheirOwn) {
  Merged merged = merge3("a", "X", "Y");
  EXPECT_EQ(merged.text, "<<<<<<< ours\nX\n=======\nY\n>>>>>>> theirs\n");
  merged = merge3("1\r\na\r\n", "1\r\nX", "1\r\nY\r\n");
  EXPECT_EQ(merged.text, "1\r\n<<<<<<< ours\r\nX\r\n=======\r\nY\r\n>>>>>>> theirs\r\n");
}

TEST(Merge3, AMissingLastLineEndIsMergedLikeAnyChange) {
  Merged merged = merge3("1\n2\n3\n4", "1\n2\n3\n4\n", "one\n2\n3\n4");
  EXPECT_TRUE(merged.is_clean());
  EXPECT_EQ(merged.text, "one\n2\n3\n4\n");
}

TEST(Merge3, ASideThatChangedNothingGivesTheOther) {
  for (LineStyle style : {LineStyle::kUnique, LineStyle::kFew, LineStyle::kBytes}) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      RandomText random(seed, style);
      testing::Lines lines = random.lines(random.below(30));
      std::string ancestor = random.text(lines);
      std::string changed = random.text(random.edited(lines, random.below(6)));
      ASSERT_EQ(merge3(ancestor, changed, ancestor).text, changed) << "seed " << seed;
      ASSERT_EQ(merge3(ancestor, ancestor, changed).text, changed) << "seed " << seed;
      Merged twice = merge3(ancestor, changed, changed);
      ASSERT_EQ(twice.text, changed) << "seed " << seed;
      ASSERT_TRUE(twice.is_clean()) << "seed " << seed;
    }
  }
}

TEST(Merge3, SidesCanBeExchanged) {
  for (LineStyle style : {LineStyle::kUnique, LineStyle::kFew}) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      RandomText random(seed, style);
      testing::Lines lines = random.lines(30);
      std::string ancestor = random.text(lines);
      std::string ours = random.text(random.edited(lines, 2));
      std::string theirs = random.text(random.edited(lines, 2));
      Merged there = merge3(ancestor, ours, theirs);
      Merged back = merge3(ancestor, theirs, ours);
      ASSERT_EQ(there.is_clean(), back.is_clean()) << "seed " << seed;
      if (!there.is_clean()) continue;
      ASSERT_EQ(there.text, back.text) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace warren
