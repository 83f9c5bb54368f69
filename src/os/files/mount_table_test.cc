#include "os/files/mount_table.h"

#include <algorithm>

#include <sys/sysmacros.h>

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(MountTable, FieldsAreReadWithTheirEscapes) {
  std::vector<MountEntry> mounts = parse_mount_table(
      "36 35 98:0 /of\\040the\\134disk /mnt/two\\012lines rw,noatime master:1 shared:7 - ext4 /dev/a\\040b rw\n"
      "37 36 0:45 / /x rw - fuse.warren src rw\n");
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].id, 36U);
  EXPECT_EQ(mounts[0].device, makedev(98, 0));
  EXPECT_EQ(mounts[0].root, "/of the\\disk");
  EXPECT_EQ(mounts[0].dir, "/mnt/two\nlines");
  EXPECT_EQ(mounts[0].type, "ext4");
  EXPECT_EQ(mounts[0].source, "/dev/a b");
  EXPECT_EQ(mounts[1].type, "fuse.warren");
  EXPECT_EQ(mounts[1].dir, "/x");
}

TEST(MountTable, ABackslashThatBeginsNoNumberStaysOne) {
  std::vector<MountEntry> mounts = parse_mount_table("1 0 8:1 /a\\9b /c\\04 rw - ext4 \\ rw");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].root, "/a\\9b");
  EXPECT_EQ(mounts[0].dir, "/c\\04");
  EXPECT_EQ(mounts[0].source, "\\");
}

TEST(MountTable, AnEmptySourceIsOne) {
  std::vector<MountEntry> mounts = parse_mount_table("1 0 8:1 / /a rw - tmpfs  rw\n");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].source, "");
}

TEST(MountTable, MalformedLinesAreSkipped) {
  for (const char* line : {"", "\n\n", "x 0 8:1 / /a rw - ext4 s rw", "1 0 8 / /a rw - ext4 s rw",
                           "1 0 8:1:1 / /a rw - ext4 s rw", "1 0 8:x / /a rw - ext4 s rw", "1 0 8:1 / /a rw ext4 s rw",
                           "1 0 8:1 / /a - ext4 s", "1 0 8:1 / /a rw -", "- - - - - - - - -"}) {
    EXPECT_TRUE(parse_mount_table(line).empty()) << line;
  }
}

TEST(MountTable, TheMachinesOwnHasARoot) {
  Result<std::vector<MountEntry>> mounts = read_mount_table();
  ASSERT_TRUE(mounts.ok());
  EXPECT_TRUE(std::any_of(mounts->begin(), mounts->end(), [](const MountEntry& m) { return m.dir == "/"; }));
}

}  // namespace
}  // namespace warren
