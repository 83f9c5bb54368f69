#include "changes/git/git_log.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(GitLog, EntriesAreReadAndOtherLinesAreSkipped) {
  const std::string one(40, '1');
  const std::string two(40, '2');
  std::string who = " A B <a@example.org> 1700000000 +0100";
  std::vector<LogEntry> entries = parse_git_log(one + " " + two + who + "\tcommit (amend): text\nrubbish\n\n" + one +
                                                "\n" + one + " x" + who + "\tno\n" + two + " " + one + who);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].from, one);
  EXPECT_EQ(entries[0].to, two);
  EXPECT_EQ(entries[0].message, "commit (amend): text");
  EXPECT_EQ(entries[1].to, one);
  EXPECT_EQ(entries[1].message, "");
}

}  // namespace
}  // namespace warren
