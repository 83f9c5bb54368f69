#include "text/diff/myers.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace warren {
namespace {

using Ids = std::vector<std::uint32_t>;

constexpr EditEffort kPlenty = {.steps = 1U << 30, .cost = 1000};

Ids kept(const Ids& ids, const std::vector<bool>& changed) {
  Ids out;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!changed[i]) out.push_back(ids[i]);
  }
  return out;
}

// The longest common subsequence, by the table that takes quadratic time.
std::size_t longest_common(const Ids& a, const Ids& b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      table[i][j] = a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1 : std::max(table[i - 1][j], table[i][j - 1]);
    }
  }
  return table[a.size()][b.size()];
}

Ids random_ids(std::mt19937& random, std::size_t size_max, std::uint32_t kinds) {
  Ids ids(random() % (size_max + 1));
  for (std::uint32_t& id : ids) id = static_cast<std::uint32_t>(random() % kinds);
  return ids;
}

TEST(Myers, WithEnoughEffortTheScriptIsTheShortest) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    Ids a = random_ids(random, 24, 1 + round % 6);
    Ids b = random_ids(random, 24, 1 + round % 6);
    EditMarks marks = find_edits(a, b, kPlenty);
    Ids common = kept(a, marks.removed);
    ASSERT_EQ(common, kept(b, marks.added)) << "round " << round;
    ASSERT_EQ(common.size(), longest_common(a, b)) << "round " << round;
  }
}

TEST(Myers, WithAnyEffortTheScriptIsRight) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    Ids a = random_ids(random, 60, 1 + round % 9);
    Ids b = random_ids(random, 60, 1 + round % 9);
    EditEffort effort{.steps = random() % 200, .cost = 1 + static_cast<int>(random() % 6)};
    EditMarks marks = find_edits(a, b, effort);
    ASSERT_EQ(kept(a, marks.removed), kept(b, marks.added)) << "round " << round;
  }
}

TEST(Myers, CutShortItStillKeepsMostOfWhatStays) {
  // Every third element differs: 20,000 edits, found 50 at a time.
  Ids a(30'000);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::uint32_t>(i);
  Ids b = a;
  for (std::size_t i = 0; i < b.size(); i += 3) b[i] += 1'000'000;
  EditMarks marks = find_edits(a, b, {.steps = 1U << 30, .cost = 50});
  Ids common = kept(a, marks.removed);
  EXPECT_EQ(common, kept(b, marks.added));
  EXPECT_GT(common.size(), 19'000U);
}

TEST(Myers, WithoutStepsEverythingBetweenTheEndsChanges) {
  EditMarks marks = find_edits(Ids{1, 2, 3, 4, 9}, Ids{1, 3, 2, 5, 9}, {.steps = 0, .cost = 1});
  EXPECT_EQ(marks.removed, (std::vector<bool>{false, true, true, true, false}));
  EXPECT_EQ(marks.added, (std::vector<bool>{false, true, true, true, false}));
}

TEST(Myers, AnEmptySideIsAllOneChange) {
  EXPECT_EQ(find_edits(Ids{}, Ids{1, 2}, kPlenty).added, (std::vector<bool>{true, true}));
  EXPECT_EQ(find_edits(Ids{1}, Ids{}, kPlenty).removed, (std::vector<bool>{true}));
  EXPECT_TRUE(find_edits(Ids{}, Ids{}, kPlenty).removed.empty());
}

}  // namespace
}  // namespace warren
