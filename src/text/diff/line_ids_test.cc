#include "text/diff/line_ids.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(LineIds, EqualLinesShareANumberAndLinesOfOneSideHaveNone) {
  LineIds ids = number_lines("a\nb\na\nonly old\n", "b\nonly new\na\n");
  ASSERT_EQ(ids.old_ids.size(), 4U);
  ASSERT_EQ(ids.new_ids.size(), 3U);
  EXPECT_EQ(ids.old_ids[0], ids.old_ids[2]);
  EXPECT_EQ(ids.old_ids[0], ids.new_ids[2]);
  EXPECT_EQ(ids.old_ids[1], ids.new_ids[0]);
  EXPECT_NE(ids.old_ids[0], ids.old_ids[1]);
  EXPECT_EQ(ids.old_ids[3], kNoMatch);
  EXPECT_EQ(ids.new_ids[1], kNoMatch);
}

TEST(LineIds, ALineThatDoesNotEndIsAnotherLine) {
  LineIds ids = number_lines("a\nb", "b\na");
  EXPECT_EQ(ids.old_ids, (std::vector<std::uint32_t>{kNoMatch, kNoMatch}));
  EXPECT_EQ(ids.new_ids, (std::vector<std::uint32_t>{kNoMatch, kNoMatch}));
}

TEST(LineIds, LinesWhoseHashesCollideStayDistinct) {
  // The hashes have 32 bits: among this many lines some ten pairs collide.
  constexpr std::size_t lines = 300'000;
  std::string old_text;
  std::string new_text;
  for (std::size_t i = 0; i < lines; ++i) {
    old_text += fmt::format("{}\n", i);
    new_text += fmt::format("{}\n", lines - 1 - i);
  }
  LineIds ids = number_lines(old_text, new_text);
  EXPECT_EQ(std::unordered_set<std::uint32_t>(ids.old_ids.begin(), ids.old_ids.end()).size(), lines);
  std::reverse(ids.new_ids.begin(), ids.new_ids.end());
  EXPECT_EQ(ids.old_ids, ids.new_ids);
}

TEST(LineIds, NothingHasNoNumbers) {
  EXPECT_TRUE(number_lines("", "").old_ids.empty());
  EXPECT_EQ(number_lines("", "a").new_ids, (std::vector<std::uint32_t>{kNoMatch}));
}

}  // namespace
}  // namespace warren
