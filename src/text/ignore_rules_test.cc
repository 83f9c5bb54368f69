#include "text/ignore_rules.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

using NodeKind = IgnoreRules::Kind;

bool ignores(std::string_view rules, std::string_view path, NodeKind kind = NodeKind::kFile) {
  return IgnoreRules(rules).judge(path, kind) == Ignore::kYes;
}

TEST(IgnoreRules, APatternWithoutASlashMatchesAtAnyDepth) {
  EXPECT_TRUE(ignores("*.o", "a.o"));
  EXPECT_TRUE(ignores("*.o", "src/deep/a.o"));
  EXPECT_FALSE(ignores("*.o", "a.oo"));
  EXPECT_TRUE(ignores("build", "x/build", NodeKind::kDirectory));
  EXPECT_FALSE(ignores("build", "x/builder"));
}

TEST(IgnoreRules, APatternWithASlashIsBoundToItsFolder) {
  EXPECT_TRUE(ignores("/todo", "todo"));
  EXPECT_FALSE(ignores("/todo", "x/todo"));
  EXPECT_TRUE(ignores("doc/*.txt", "doc/a.txt"));
  EXPECT_FALSE(ignores("doc/*.txt", "doc/x/a.txt"));
  EXPECT_FALSE(ignores("doc/*.txt", "x/doc/a.txt"));
  EXPECT_TRUE(ignores("**/foo/bar", "x/y/foo/bar"));
  EXPECT_TRUE(ignores("a/**", "a/b/c"));
  EXPECT_TRUE(ignores("a/**/b", "a/b"));
  EXPECT_TRUE(ignores("a/**/b", "a/x/y/b"));
}

TEST(IgnoreRules, ASlashAtTheEndMeansDirectories) {
  EXPECT_TRUE(ignores("out/", "x/out", NodeKind::kDirectory));
  EXPECT_FALSE(ignores("out/", "x/out", NodeKind::kFile));
}

TEST(IgnoreRules, TheLastPatternDecides) {
  EXPECT_FALSE(ignores("*.log\n!keep.log", "keep.log"));
  EXPECT_TRUE(ignores("!keep.log\n*.log", "keep.log"));
  EXPECT_EQ(IgnoreRules("!x").judge("x", NodeKind::kFile), Ignore::kNo);
  EXPECT_EQ(IgnoreRules("x").judge("y", NodeKind::kFile), Ignore::kUndecided);
}

TEST(IgnoreRules, CommentsBlanksAndEscapes) {
  EXPECT_TRUE(IgnoreRules("# note\n\n   \n/\n!\n").is_empty());
  EXPECT_TRUE(ignores("a  \r\n", "a"));
  EXPECT_TRUE(ignores("a\\ ", "a "));
  EXPECT_TRUE(ignores("\\#x", "#x"));
  EXPECT_TRUE(ignores("\\!x", "!x"));
  EXPECT_TRUE(ignores("\xef\xbb\xbfx", "x"));
}

TEST(IgnoreStack, TheInnermostFolderThatDecidesWins) {
  IgnoreStack stack;
  stack.add("", IgnoreRules("*.log\n*.tmp"));
  stack.add("a", IgnoreRules("!*.log"));
  stack.add("a/b", IgnoreRules("/x.log"));
  EXPECT_TRUE(stack.is_ignored("x.log", NodeKind::kFile));
  EXPECT_FALSE(stack.is_ignored("a/x.log", NodeKind::kFile));
  EXPECT_TRUE(stack.is_ignored("a/b/x.log", NodeKind::kFile));
  EXPECT_FALSE(stack.is_ignored("a/b/y.log", NodeKind::kFile));
  EXPECT_TRUE(stack.is_ignored("a/b/y.tmp", NodeKind::kFile));
  EXPECT_TRUE(stack.is_ignored("ab/y.log", NodeKind::kFile));
}

}  // namespace
}  // namespace warren
