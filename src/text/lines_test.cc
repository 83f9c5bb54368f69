#include "text/lines.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Lines, AreCountedByTheirEndsAndAnUnendedLastOneCounts) {
  EXPECT_EQ(count_lines(""), 0U);
  EXPECT_EQ(count_lines("a"), 1U);
  EXPECT_EQ(count_lines("a\n"), 1U);
  EXPECT_EQ(count_lines("\n\n"), 2U);
  EXPECT_EQ(count_lines("a\r\nb"), 2U);
}

TEST(Lines, ACursorTakesWhatLiesBetween) {
  LineCursor cursor("one\ntwo\r\n\nlast");
  EXPECT_EQ(cursor.take_until(0), "");
  EXPECT_EQ(cursor.take_until(2), "one\ntwo\r\n");
  EXPECT_EQ(cursor.take_until(1), "") << "never back";
  EXPECT_EQ(cursor.take_until(3), "\n");
  EXPECT_EQ(cursor.take_until(99), "last");
  EXPECT_EQ(cursor.line(), 4U);
  EXPECT_EQ(cursor.take_until(SIZE_MAX), "");
}

}  // namespace
}  // namespace warren
