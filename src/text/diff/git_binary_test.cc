#include "text/diff/git_binary.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(GitBinary, BlobIdsAreThoseOfGit) {
  EXPECT_EQ(git_blob_id(""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(git_blob_id("hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
}

// The ids were printed by `git hash-object` for that many bytes 'x'; the sizes are around the ends of blocks.
TEST(GitBinary, BlobIdsAtTheEndsOfBlocks) {
  EXPECT_EQ(git_blob_id(std::string(47, 'x')), "719ddd7888a02660234770b651274214ff7df239");
  EXPECT_EQ(git_blob_id(std::string(48, 'x')), "3b3abca28de4b8ce6ea9dac5da512120ed7c5a0c");
  EXPECT_EQ(git_blob_id(std::string(56, 'x')), "355e203863c368f0404d7fc7ae4761122c117dd2");
  EXPECT_EQ(git_blob_id(std::string(57, 'x')), "f32768e30e0507780e5b9edc8afa9d3f1009926c");
  EXPECT_EQ(git_blob_id(std::string(120, 'x')), "cb470da43c08b0274449cea06ef71c6e77359c30");
  EXPECT_EQ(git_blob_id(std::string(1000, 'x')), "14c7dfdd4258dec5c0e9d2e919bd249bd674be1f");
}

TEST(GitBinary, APatchHasBothContents) {
  // Stored: 78 01, 01 0100 feff 'a', adler32 00620062.
  EXPECT_EQ(git_binary_patch("", "a"),
            "GIT binary patch\nliteral 1\nLcmV+c0RI1B0Ac`Q\n\nliteral 0\nKcmV+b0RR6000031\n\n");
}

}  // namespace
}  // namespace warren
