#include "changes/linked_names.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "testing/temp_dir.h"

namespace warren {
namespace {

class LinkedNamesTest : public ::testing::Test {
 protected:
  LinkedNamesTest() { std::filesystem::create_directories(base_ + "/sub/deep"); }

  void link(const std::string& target, const std::string& path) {
    std::filesystem::create_symlink(target, base_ + path);
  }
  void make_dir(const std::string& path) { std::filesystem::create_directories(base_ + path); }
  void make_file(const std::string& path) {
    make_dir(std::filesystem::path(path).parent_path().string());
    std::FILE* file = std::fopen((base_ + path).c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fclose(file);
  }
  bool runs(const std::string& path) const { return runs_through_link(base_, path).has_value(); }

  testing::TempDir dir_;
  std::string base_ = std::filesystem::canonical(dir_.path()).string() + "/base";
};

TEST_F(LinkedNamesTest, AFileRunsByTheNameOfALinkToIt) {
  make_file("/env.sh");
  make_file("/build.mk");
  link("env.sh", "/.envrc");
  link("../build.mk", "/sub/Makefile");
  EXPECT_EQ(runs_through_link(base_, "/env.sh"), "direnv runs it, by its other name '/.envrc'");
  EXPECT_FALSE(runs("/build.mk"));  // only directories above the file are looked into
  link("build.mk", "/Makefile");
  EXPECT_TRUE(runs("/build.mk"));
  EXPECT_FALSE(runs("/other.mk"));
}

TEST_F(LinkedNamesTest, AFolderRunsByTheNameOfALinkToIt) {
  make_file("/ide/tasks.json");
  make_file("/sub/deep/hooks/pre-push");
  link("ide", "/.vscode");
  link("sub/deep/hooks", "/.husky");
  EXPECT_TRUE(runs("/ide/tasks.json"));
  EXPECT_FALSE(runs("/ide/notes.txt"));
  EXPECT_FALSE(runs("/ideas/tasks.json"));
  EXPECT_TRUE(runs("/sub/deep/hooks/pre-push"));
}

TEST_F(LinkedNamesTest, ALinkInsideOfSuchAFolderCounts) {
  make_file("/ide.json");
  make_dir("/.vscode");
  link("../ide.json", "/.vscode/tasks.json");
  EXPECT_TRUE(runs("/ide.json"));
}

TEST_F(LinkedNamesTest, LinksThatAreMadeLaterCount) {
  make_file("/sub/env.sh");
  make_dir("/.vscode");
  EXPECT_FALSE(runs("/sub/env.sh"));
  link("../sub/env.sh", "/.vscode/tasks.json");
  EXPECT_TRUE(runs("/sub/env.sh"));
}

TEST_F(LinkedNamesTest, ALinkToNothingYetCounts) {
  link("env.local", "/.envrc");
  link("sub/none/../ide", "/.vscode");
  link(base_ + "/first", "/Makefile");
  link("sub/second", "/first");
  EXPECT_EQ(runs_through_link(base_, "/env.local"), "direnv runs it, by its other name '/.envrc'");
  EXPECT_TRUE(runs("/sub/ide/tasks.json"));
  EXPECT_TRUE(runs("/sub/second"));
  EXPECT_FALSE(runs("/sub/none/tasks.json"));
}

TEST_F(LinkedNamesTest, LinksOutOfTheBaseAndInCirclesAreNone) {
  link("/etc/hostname", "/.envrc");
  link("../../../../../../../../../../../../nothing", "/Justfile");
  link("Makefile", "/circle");
  link("circle", "/Makefile");
  EXPECT_FALSE(runs("/hostname"));
  EXPECT_FALSE(runs("/nothing"));
  EXPECT_FALSE(runs("/circle"));
}

}  // namespace
}  // namespace warren
