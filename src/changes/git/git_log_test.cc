#include "changes/git/git_log.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/path.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"

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

TEST(GitLog, OfAllBranchesOnlySoManyBytesAreRead) {
  SystemClock clock;
  MemoryFs fs{clock};
  constexpr const char* kDir = "/.git/logs/refs/heads";
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(write_file(fs, join_path(kDir, name), as_bytes("1\n")).ok());
  ASSERT_TRUE(truncate(fs, join_path(kDir, "b"), limits::kGitBranchLogsBytes).ok());
  EXPECT_EQ(list_branch_logs(fs), (std::vector<std::string>{join_path(kDir, "a"), join_path(kDir, "c")}));
}

}  // namespace
}  // namespace warren
