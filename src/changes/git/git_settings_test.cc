#include "changes/git/git_settings.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "changes/git/git.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

class GitSettingsTest : public ::testing::Test {
 protected:
  GitSettingsTest() {
    std::filesystem::create_directory(top_);
    git({"init", "-q", "."});
    git({"config", "core.hooksPath", "sub/hooks"});
  }

  void git(const std::vector<std::string>& words) {
    Git git(top_);
    git.set_author("a", "a@example.org");
    EXPECT_TRUE(git.ask(words).ok()) << words.front();
  }

  testing::TempDir dir_;
  std::string top_ = std::filesystem::canonical(dir_.path()).string() + "/top";
};

TEST_F(GitSettingsTest, AreThoseOfTheRepository) {
  EXPECT_TRUE(is_named_by_git(top_, "/sub/hooks/pre-commit"));
  EXPECT_FALSE(is_named_by_git(top_, "/sub/other"));
  EXPECT_FALSE(is_named_by_git(std::filesystem::path(top_).parent_path(), "/sub/hooks"));
}

TEST_F(GitSettingsTest, HoldInALinkedWorktreeToo) {
  git({"commit", "-q", "--allow-empty", "-m", "first"});
  git({"worktree", "add", "-q", "../linked"});
  std::string linked = std::filesystem::path(top_).parent_path() / "linked";
  EXPECT_TRUE(is_named_by_git(linked, "/sub/hooks/pre-commit"));
  EXPECT_FALSE(is_named_by_git(linked, "/hooks/pre-commit"));
  git({"config", "core.hooksPath", "others"});
  EXPECT_TRUE(is_named_by_git(linked, "/others/pre-commit"));
}

TEST_F(GitSettingsTest, HoldBelowTheTopToo) {
  std::filesystem::create_directory(top_ + "/sub");
  EXPECT_TRUE(is_named_by_git(top_ + "/sub", "/hooks/pre-commit"));
  EXPECT_FALSE(is_named_by_git(top_ + "/sub", "/sub/hooks/pre-commit"));
}

}  // namespace
}  // namespace warren
