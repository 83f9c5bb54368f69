#include "text/diff/diff.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "text/diff/random_text_testing.h"

namespace warren {

// For the messages of failed tests.
static std::ostream& operator<<(std::ostream& out, const Hunk& hunk) {
  return out << "-" << hunk.before.begin << "," << hunk.before.count << " +" << hunk.after.begin << ","
             << hunk.after.count;
}

namespace {

using testing::apply_hunks;
using testing::LineStyle;
using testing::RandomText;
using Hunks = std::vector<Hunk>;

Hunk hunk(std::size_t old_begin, std::size_t old_count, std::size_t new_begin, std::size_t new_count) {
  return {.before = {.begin = old_begin, .count = old_count}, .after = {.begin = new_begin, .count = new_count}};
}

TEST(Diff, EqualTextsHaveNoHunks) {
  EXPECT_EQ(diff_lines("", ""), Hunks{});
  EXPECT_EQ(diff_lines("a\nb", "a\nb"), Hunks{});
}

TEST(Diff, AHunkNamesTheLinesOfBothSides) {
  EXPECT_EQ(diff_lines("a\nb\nc\n", "a\nX\nY\nc\n"), (Hunks{hunk(1, 1, 1, 2)}));
  EXPECT_EQ(diff_lines("a\nc\n", "a\nb\nc\n"), (Hunks{hunk(1, 0, 1, 1)}));
  EXPECT_EQ(diff_lines("a\nb\nc\n", "a\nc\n"), (Hunks{hunk(1, 1, 1, 0)}));
  EXPECT_EQ(diff_lines("", "a\nb\n"), (Hunks{hunk(0, 0, 0, 2)}));
  EXPECT_EQ(diff_lines("a\n", ""), (Hunks{hunk(0, 1, 0, 0)}));
  EXPECT_EQ(diff_lines("a\nb\nc\nd\ne\n", "X\nb\nc\nd\nY\n"), (Hunks{hunk(0, 1, 0, 1), hunk(4, 1, 4, 1)}));
}

TEST(Diff, AMissingLastLineEndIsAChange) {
  EXPECT_EQ(diff_lines("a\nb", "a\nb\n"), (Hunks{hunk(1, 1, 1, 1)}));
  EXPECT_EQ(diff_lines("a", "b\na"), (Hunks{hunk(0, 0, 0, 1)}));
  EXPECT_EQ(diff_lines("xa", "a"), (Hunks{hunk(0, 1, 0, 1)})) << "a common end of bytes is not a common line";
  EXPECT_EQ(diff_lines("a\n\n", "a\n"), (Hunks{hunk(1, 1, 1, 0)}));
}

TEST(Diff, CarriageReturnsAndNulsAreBytes) {
  EXPECT_EQ(diff_lines("a\r\nb\r\n", "a\nb\r\n"), (Hunks{hunk(0, 1, 0, 1)}));
  std::string_view zero("a\0b\nx\n", 6);
  std::string_view one("a\0c\nx\n", 6);
  EXPECT_EQ(diff_lines(zero, one), (Hunks{hunk(0, 1, 0, 1)}));
}

TEST(Diff, ANewBlockEndsWithItsOwnClosingLine) {
  // Two changes, so that the common ends of the texts do not decide the result.
  EXPECT_EQ(diff_lines("1\nf\n}\ng\n}\n2\n", "one\nf\n}\nnew\n}\ng\n}\ntwo\n"),
            (Hunks{hunk(0, 1, 0, 1), hunk(3, 0, 3, 2), hunk(5, 1, 7, 1)}));
}

// Whether a run of added or removed lines could be placed one line further down.
bool can_move_down(const testing::Lines& lines, const LineRange& run) {
  return run.count > 0 && run.end() < lines.size() && lines[run.begin] == lines[run.end()];
}

TEST(Diff, OfEqualWaysToNameAChangeTheLastIsTaken) {
  for (std::uint64_t seed = 0; seed < 700; ++seed) {
    RandomText random(seed, LineStyle::kFew);
    testing::Lines before = random.lines(10 + random.below(30));
    testing::Lines after = random.edited(before, 4);
    Hunks hunks = diff_lines(testing::text_of(before), testing::text_of(after));
    // The last hunk ends at the common end of the texts and is not moved into it.
    for (std::size_t i = 0; i + 1 < hunks.size(); ++i) {
      bool deletes = hunks[i].after.count == 0;
      bool inserts = hunks[i].before.count == 0;
      ASSERT_FALSE(deletes && can_move_down(before, hunks[i].before)) << "seed " << seed;
      ASSERT_FALSE(inserts && can_move_down(after, hunks[i].after)) << "seed " << seed;
    }
  }
}

TEST(Diff, RandomEditsAreFoundWhateverTheLines) {
  for (LineStyle style : {LineStyle::kUnique, LineStyle::kFew, LineStyle::kBytes}) {
    for (std::uint64_t seed = 0; seed < 700; ++seed) {
      RandomText random(seed, style);
      testing::Lines lines = random.lines(random.below(40));
      std::string before = random.text(lines);
      std::string after = random.text(random.edited(lines, random.below(8)));
      Hunks hunks = diff_lines(before, after);
      ASSERT_EQ(apply_hunks(before, after, hunks), after) << "seed " << seed;
      for (std::size_t i = 1; i < hunks.size(); ++i) {
        ASSERT_GT(hunks[i].before.begin, hunks[i - 1].before.end()) << "seed " << seed;
      }
    }
  }
}

TEST(Diff, ShuffledLinesEndInABoundedTimeAndARightScript) {
  // The edit distance is of the order of the size: far more than limits::kDiffSteps allows.
  RandomText random(5, LineStyle::kUnique);
  testing::Lines lines = random.lines(60'000);
  std::string before = testing::text_of(lines);
  for (std::size_t i = lines.size() - 1; i > 0; --i) std::swap(lines[i], lines[random.below(i + 1)]);
  std::string after = testing::text_of(lines);
  EXPECT_EQ(apply_hunks(before, after, diff_lines(before, after)), after);
}

TEST(Diff, MoreLinesThanTheLimitAreOneHunk) {
  std::string before = "a\n" + std::string(limits::kDiffLines, '\n') + "b\n";
  std::string after = "A\n" + std::string(limits::kDiffLines, '\n') + "B\n";
  std::size_t lines = limits::kDiffLines + 2;
  EXPECT_EQ(diff_lines(before, after), (Hunks{hunk(0, lines, 0, lines)}));
  after = "a\n" + std::string(limits::kDiffLines, '\n') + "B\n";
  EXPECT_EQ(diff_lines(before, after), (Hunks{hunk(lines - 1, 1, lines - 1, 1)})) << "common ends do not count";
}

TEST(Diff, OneHugeLineIsOneLine) {
  std::string before(std::size_t{100} << 20, 'x');
  std::string after = before + "y";
  EXPECT_EQ(diff_lines(before, after), (Hunks{hunk(0, 1, 0, 1)}));
}

TEST(Diff, ChangesAreCounted) {
  EXPECT_EQ(count_changes(diff_lines("a\nb\nc\n", "a\nX\nY\nc\nd\n")), (LineCounts{.added = 3, .deleted = 1}));
  EXPECT_EQ(count_changes({}), LineCounts{});
}

TEST(Diff, SimilarityIsTheShareThatStaysAndHundredOnlyWhenEqual) {
  auto similarity = [](std::string_view a, std::string_view b) { return similarity_percent(a, b, diff_lines(a, b)); };
  EXPECT_EQ(similarity("a\nb\n", "a\nb\n"), 100);
  EXPECT_EQ(similarity("", ""), 100);
  EXPECT_EQ(similarity("", "a\n"), 0);
  EXPECT_EQ(similarity("a\nb\n", "a\nc\n"), 50);
  EXPECT_EQ(similarity(std::string(1000, '\n'), std::string(1001, '\n')), 99);
}

}  // namespace
}  // namespace warren
