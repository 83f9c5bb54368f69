#include "changes/commits/left_in_git.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

Attributes file_attributes() {
  Attributes file;
  file.mode = 0100644;
  return file;
}

std::string added(const std::string& path) {
  TreeChange change{.kind = TreeChangeKind::kAdded, .path = path, .after = file_attributes()};
  return describe_left_in_git(change);
}

std::string modified(const std::string& path) {
  TreeChange change{.path = path, .before = file_attributes(), .after = file_attributes(), .is_content_changed = true};
  return describe_left_in_git(change);
}

TEST(LeftInGit, ScratchIsNot) {
  for (const char* name : {"index", "HEAD", "ORIG_HEAD", "REBASE_HEAD", "COMMIT_EDITMSG", "logs/refs/heads/main",
                           "config.lock", "info/refs", "lfs/tmp/x", "worktrees/w/gitdir", "refs/remotes/origin/main"}) {
    EXPECT_EQ(added(std::string("/.git/") + name), "") << name;
    EXPECT_EQ(added(std::string("/.git/modules/lib/x/") + name), "") << name;
    EXPECT_EQ(modified(std::string("/nested/.git/") + name), "") << name;
  }
}

TEST(LeftInGit, EverythingElseIs) {
  EXPECT_EQ(added("/.git/refs/stash"), "the stash");
  EXPECT_EQ(added("/.git/hooks/pre-push"), "hooks");
  EXPECT_EQ(modified("/.git/config"), "git settings");
  EXPECT_EQ(added("/.git/mynotes.txt"), "'/.git/mynotes.txt'");
  EXPECT_EQ(modified("/.git/info/exclude"), "'/.git/info/exclude'");
  EXPECT_EQ(added("/.git/info/attributes"), "'/.git/info/attributes'");
  EXPECT_EQ(added("/.git/lfs/objects/ab/cd/abcd"), "files in '.git/lfs'");
  EXPECT_EQ(added("/.git/rebase-merge/todo"), "a merge or rebase under way");
  EXPECT_EQ(added("/.git/refs/notes/commits"), "references");
}

TEST(LeftInGit, AlsoInSubmodulesAndNestedRepositories) {
  EXPECT_EQ(added("/.git/modules/sm/refs/tags/index"), "tags of a submodule");
  EXPECT_EQ(added("/.git/modules/a/modules/b/refs/heads/x"), "branches of a submodule");
  EXPECT_EQ(added("/.git/modules/lib/x/objects/ab/cd"), "commits of a submodule");
  EXPECT_EQ(added("/.git/modules/refs/objects/ab/cd"), "commits of a submodule");
  EXPECT_EQ(added("/.git/modules/lib/x/config"), "git settings");
  EXPECT_EQ(added("/.git/modules/lib/x/lfs/objects/ab"), "files in '.git/lfs' of a submodule");
  EXPECT_EQ(added("/nested/.git/refs/tags/v1"), "tags in '/nested'");
  EXPECT_EQ(added("/nested/.git/objects/ab/cd"), "commits in '/nested'");
}

TEST(LeftInGit, ObjectsAndBranchesAtTheTopAreJudgedElsewhere) {
  EXPECT_EQ(added("/.git/objects/ab/cd"), "");
  EXPECT_EQ(added("/.git/refs/heads/fix"), "");
  EXPECT_EQ(modified("/.git/modules/sm/refs/heads/main"), "");
}

}  // namespace
}  // namespace warren
