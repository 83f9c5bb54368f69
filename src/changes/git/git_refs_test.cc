#include "changes/git/git_refs.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

const std::string kOne(40, '1');
const std::string kTwo(40, '2');

class GitRefsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(write_file(fs_, path, as_bytes(text)).ok()) << path;
  }
  std::optional<GitHeads> heads() {
    Result<std::optional<GitHeads>> found = find_git_heads(fs_, "/.git");
    EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message());
    return found.ok() ? *found : std::nullopt;
  }

  SystemClock clock_;
  MemoryFs fs_{clock_};
};

TEST(GitRefNames, OnlyNamesThatGitAcceptsAreBranches) {
  for (const char* name : {"main", "fix/parser", "a.b", "a-b", "\xc3\xa9", "a@b"})
    EXPECT_TRUE(is_branch_name(name)) << name;
  for (const char* name :
       {"",    "/",  "a/",  "/a", "a//b", "..", "a/../b", "a..b", ".a",   "a/.b", "a.lock", "a.lock/b", "a b", "a\n",
        "a~1", "a^", "a:b", "a?", "a*",   "a[", "a\\b",   "@",    "a@{1", "-a",   "HEAD",   "a.",       "\x7f"})
    EXPECT_FALSE(is_branch_name(name)) << name;
}

TEST(GitRefNames, TheFullNameOfAReferenceIsRefusedAsABranch) {
  EXPECT_TRUE(check_is_not_full_name("refs").ok());
  EXPECT_TRUE(check_is_not_full_name("a/refs/heads/b").ok());
  Status refused = check_is_not_full_name("refs/heads/b");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
}

TEST(GitRefNames, AnObjectIdHas40Or64LowerCaseHexadecimalDigits) {
  EXPECT_TRUE(is_object_id(kOne));
  EXPECT_TRUE(is_object_id(std::string(64, 'f')));
  EXPECT_FALSE(is_object_id(std::string(40, 'F')));
  EXPECT_FALSE(is_object_id(std::string(39, '1')));
  EXPECT_FALSE(is_object_id(std::string(39, '1') + " "));
}

TEST(GitRefNames, PackedBranchesAreReadAndOtherLinesSkipped) {
  GitBranches found =
      parse_packed_branches("# pack-refs with: peeled\n" + kOne + " refs/heads/main\n" + kTwo + " refs/tags/v1\n^" +
                            kOne + "\n" + kTwo + " refs/heads/../../x\nrubbish\n" + kTwo + " refs/heads/fix/a");
  EXPECT_EQ(found, (GitBranches{{"fix/a", kTwo}, {"main", kOne}}));
}

TEST_F(GitRefsTest, ALooseBranchReplacesAPackedOne) {
  write("/.git/HEAD", "ref: refs/heads/main\n");
  write("/.git/packed-refs", kOne + " refs/heads/main\n" + kOne + " refs/heads/other\n");
  write("/.git/refs/heads/main", kTwo + "\n");
  write("/.git/refs/heads/fix/deep", kTwo + "\n");
  std::optional<GitHeads> found = heads();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->branch, "main");
  EXPECT_EQ(found->commit, kTwo);
  EXPECT_EQ(found->branches, (GitBranches{{"fix/deep", kTwo}, {"main", kTwo}, {"other", kOne}}));
}

TEST_F(GitRefsTest, ADetachedHeadHasNoBranch) {
  write("/.git/HEAD", kOne + "\n");
  std::optional<GitHeads> found = heads();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->branch, "");
  EXPECT_EQ(found->commit, kOne);
}

TEST_F(GitRefsTest, AHeadThatLeadsElsewhereIsNotFollowed) {
  write("/secret", kOne + "\n");
  for (const char* head :
       {"ref: refs/heads/../../../secret\n", "ref: ../secret\n", "ref: refs/tags/x\n", "rubbish", ""}) {
    write("/.git/HEAD", head);
    EXPECT_FALSE(heads()) << head;
  }
}

TEST_F(GitRefsTest, LinksAndOtherNodesAreNotReferences) {
  write("/.git/HEAD", "ref: refs/heads/main\n");
  write("/secret", kOne + "\n");
  ASSERT_TRUE(make_dirs(fs_, "/.git/refs/heads").ok());
  ASSERT_TRUE(make_symlink(fs_, "/secret", "/.git/refs/heads/main").ok());
  write("/.git/refs/heads/long", std::string(5000, '1'));
  write("/.git/refs/heads/symbolic", "ref: refs/heads/main\n");
  std::optional<GitHeads> found = heads();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->commit, "");
  EXPECT_EQ(found->branches, GitBranches{});
}

TEST_F(GitRefsTest, WithoutADirectoryThereIsNothing) {
  EXPECT_FALSE(heads());
  write("/.git", "gitdir: /elsewhere\n");
  EXPECT_FALSE(heads());
}

TEST_F(GitRefsTest, TheCommitOfHeadIsFoundThroughItsBranchLoosePackedOrSymbolic) {
  auto commit = [&] { return find_head_commit(fs_, fs_).value(); };
  EXPECT_EQ(commit(), "");
  write("/HEAD", "ref: refs/heads/main\n");
  EXPECT_EQ(commit(), "");
  write("/packed-refs", "# pack-refs\n" + kTwo + " refs/heads/a/refs/heads/main\n" + kOne + " refs/heads/main\n");
  EXPECT_EQ(commit(), kOne);
  write("/refs/heads/main", kTwo + "\n");
  EXPECT_EQ(commit(), kTwo);
  write("/refs/heads/main", "ref: refs/heads/main\n");
  EXPECT_EQ(commit(), "");
  write("/refs/heads/other", kOne + "\n");
  write("/refs/heads/main", "ref: refs/heads/other\n");
  EXPECT_EQ(commit(), kOne);
  write("/HEAD", kTwo + "\n");
  EXPECT_EQ(commit(), kTwo);
  write("/secret", kOne + "\n");
  write("/HEAD", "ref: refs/heads/../../secret\n");
  EXPECT_EQ(commit(), "");
}

TEST_F(GitRefsTest, HeadOfALinkedWorktreeNamesABranchOfTheCommonDirectory) {
  MemoryFs own(clock_);
  ASSERT_TRUE(write_file(own, "/HEAD", as_bytes("ref: refs/heads/linked\n")).ok());
  write("/HEAD", kTwo + "\n");
  write("/refs/heads/linked", kOne + "\n");
  EXPECT_EQ(find_head_commit(own, fs_).value(), kOne);
}

}  // namespace
}  // namespace warren
