#include "changes/git/git_tree.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

using namespace std::string_literals;

TEST(GitTree, EntriesAreParsed) {
  std::string text = "100755 blob 1111\ta\tb\nc\0"s + "160000 commit 2222\tsub\0"s + "040000 tree 3333\tdir\0"s;
  std::vector<GitTreeEntry> found = parse_git_tree(text);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].mode, "100755");
  EXPECT_EQ(found[0].id, "1111");
  EXPECT_EQ(found[0].path, "a\tb\nc");
  EXPECT_TRUE(found[0].is_file());
  EXPECT_FALSE(found[1].is_file());
  EXPECT_FALSE(found[2].is_file());
}

TEST(GitTree, WhatIsNotAnEntryIsSkipped) {
  EXPECT_TRUE(parse_git_tree("").empty());
  EXPECT_TRUE(parse_git_tree("rubbish").empty());
  EXPECT_TRUE(parse_git_tree("rubbish\tx"s + "\0"s).empty());
}

}  // namespace
}  // namespace warren
