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

// What each side of the parts gives.
std::string written(std::string_view ancestor, std::string_view ours, std::string_view theirs,
                    const std::vector<MergeSide>& sides) {
  std::vector<MergePart> parts = merge_parts(ancestor, ours, theirs);
  EXPECT_EQ(parts.size(), sides.size());
  for (std::size_t i = 0; i < std::min(parts.size(), sides.size()); ++i) parts[i].side = sides[i];
  return write_merge(ancestor, ours, theirs, parts);
}

TEST(MergeParts, SayWhoHasChangedWhat) {
  std::vector<MergePart> parts = merge_parts(kSix, "one\n2\n3\n4\n5\nours\n", "1\n2\nnew\n3\n4\n5\ntheirs\n");
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0], (MergePart{MergeSide::kOurs, {0, 1}, {0, 1}, {0, 1}}));
  EXPECT_EQ(parts[1], (MergePart{MergeSide::kTheirs, {2, 0}, {2, 0}, {2, 1}}));
  EXPECT_EQ(parts[2], (MergePart{MergeSide::kBoth, {5, 1}, {5, 1}, {6, 1}}));
}

TEST(MergeParts, EachIsWrittenAsOneSideOrBoth) {
  using enum MergeSide;
  std::string_view ours = "one\n2\n3\n4\n5\nours\n";
  std::string_view theirs = "1\n2\nnew\n3\n4\n5\ntheirs\n";
  EXPECT_EQ(written(kSix, ours, theirs, {kTheirs, kTheirs, kTheirs}), theirs);
  EXPECT_EQ(written(kSix, ours, theirs, {kOurs, kOurs, kOurs}), ours);
  EXPECT_EQ(written(kSix, ours, theirs, {kOurs, kTheirs, kTheirs}), "one\n2\nnew\n3\n4\n5\ntheirs\n");
  EXPECT_EQ(written(kSix, ours, theirs, {kTheirs, kTheirs, kOurs}), "1\n2\nnew\n3\n4\n5\nours\n");
  EXPECT_EQ(written(kSix, ours, theirs, {kTheirs, kTheirs, kBoth}),
            "1\n2\nnew\n3\n4\n5\n<<<<<<< ours\nours\n=======\ntheirs\n>>>>>>> theirs\n");
}

TEST(MergeParts, OfOneSideAloneAreItsHunks) {
  using enum MergeSide;
  EXPECT_EQ(written("a\nb\nc", "A\nb\nC", "a\nb\nc", {kOurs, kTheirs}), "A\nb\nc");
  EXPECT_EQ(written("a\nb\nc", "A\nb\nC", "a\nb\nc", {kTheirs, kOurs}), "a\nb\nC");
  EXPECT_EQ(written("", "a\n", "", {kTheirs}), "");
  EXPECT_EQ(written("a\n", "", "a\n", {kOurs}), "");
  EXPECT_TRUE(merge_parts("a\n", "a\n", "a\n").empty());
}

std::string shared(std::string_view ancestor, std::string_view ours, std::string_view theirs) {
  return with_shared_changes(ancestor, ours, merge_parts(ancestor, ours, theirs));
}

TEST(WithSharedChanges, IsTheAncestorWithWhatBothHaveChangedAlike) {
  EXPECT_EQ(shared(kSix, "one\n2\n3\n4\nfive\n6\n", "one\n2\nthree\n4\n5\n6\n"), "one\n2\n3\n4\n5\n6\n");
  EXPECT_EQ(shared(kSix, "1\nX\n3\n4\n5\n6\n", "1\nY\n3\n4\n5\n6\n"), kSix);
  EXPECT_EQ(shared(kSix, "0\n2\n", "0\n2\n"), "0\n2\n");
}

TEST(WithSharedChanges, LinesOfTheAncestorAreThereOnce) {
  std::string_view common = "s one\ns two\ns three\ns four\n";
  std::string ours = "a\n" + std::string(common) + "b\n";
  std::string theirs = "c\n" + std::string(common) + "d\n";
  EXPECT_EQ(shared("x\n", ours, theirs), "x\n" + std::string(common));
}

// Whatever is taken first, the rest is merged as before: nothing that was left is lost, nor what only theirs has.
TEST(MergeParts, TheRestMergesAsBefore) {
  RandomText random(7, LineStyle::kUnique);
  int clean = 0;
  for (int round = 0; round < 300; ++round) {
    testing::Lines start = random.lines(20);
    std::string ancestor = random.text(start);
    std::string ours = random.text(random.edited(start, 2));
    std::string theirs = random.text(random.edited(start, 2));
    Merged whole = merge3(ancestor, ours, theirs);
    clean += whole.is_clean() ? 1 : 0;
    std::vector<MergePart> parts = merge_parts(ancestor, ours, theirs);
    for (std::size_t taken = 0; taken < parts.size(); ++taken) {
      std::vector<MergePart> one = parts;
      for (std::size_t i = 0; i < one.size(); ++i) one[i].side = i == taken ? MergeSide::kOurs : MergeSide::kTheirs;
      std::string after = write_merge(ancestor, ours, theirs, one);
      if (parts[taken].side == MergeSide::kOurs) {
        EXPECT_EQ(merge3(ancestor, ours, after).text, whole.text) << ancestor << "\n" << ours << "\n" << theirs;
      }
      std::vector<MergePart> rest = merge_parts(ancestor, ours, after);
      std::vector<MergePart> at_once = parts;
      at_once[taken].side = MergeSide::kOurs;
      for (std::vector<MergePart>* each : {&rest, &at_once}) {
        for (MergePart& part : *each) part.side = part.side == MergeSide::kBoth ? MergeSide::kOurs : part.side;
      }
      EXPECT_EQ(write_merge(ancestor, ours, after, rest), write_merge(ancestor, ours, theirs, at_once));
    }
  }
  EXPECT_GT(clean, 50);
}

}  // namespace
}  // namespace warren
