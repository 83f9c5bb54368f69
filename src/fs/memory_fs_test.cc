#include "fs/memory_fs.h"

#include <string>

#include <gtest/gtest.h>

#include "fs/path_ops.h"
#include "testing/fake_clock.h"

namespace warren {
namespace {

Code code_of(const Status& status) { return status.ok() ? Code::kInternal : status.error().code(); }

TEST(MemoryFs, ALimitCountsContentNamesAndAttributesAndIsFreedAgain) {
  testing::FakeClock clock;
  MemoryFs fs(clock, 4096, 64 * 1024);
  std::string big(40'000, 'x');
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(write_file(fs, "/a", as_bytes(big)).ok()) << round;
    EXPECT_EQ(code_of(write_file(fs, "/b", as_bytes(big))), Code::kNoSpace);
    EXPECT_TRUE(write_file(fs, "/a", as_bytes(big)).ok()) << "overwriting takes no more";
    Inode a = lstat(fs, "/a").value().inode;
    EXPECT_EQ(code_of(fs.set_xattr(a, "user.x", as_bytes(big), XattrMode::kAny)), Code::kNoSpace);
    ASSERT_TRUE(remove(fs, "/a").ok());
    ASSERT_TRUE(remove(fs, "/b").ok());
  }
  int made = 0;
  while (made < 1000 && write_file(fs, "/" + std::to_string(made), {}).ok()) ++made;
  EXPECT_GT(made, 50);
  EXPECT_LT(made, 200);
  EXPECT_LE(fs.stats(kRootInode).value().used_bytes, 64U * 1024);
}

TEST(MemoryFs, WhatIsRemovedWhileItIsOpenCountsUntilItIsReleased) {
  testing::FakeClock clock;
  MemoryFs fs(clock, 4096, 64 * 1024);
  Attributes open = fs.create(kRootInode, "a", {.mode = 0644}).value();
  std::string big(40'000, 'x');
  ASSERT_TRUE(fs.write(open.inode, 0, as_bytes(big)).ok());
  ASSERT_TRUE(fs.unlink(kRootInode, "a").ok());
  EXPECT_EQ(code_of(write_file(fs, "/b", as_bytes(big))), Code::kNoSpace);
  fs.release(open.inode);
  EXPECT_TRUE(write_file(fs, "/b", as_bytes(big)).ok());
}

}  // namespace
}  // namespace warren
