#include "changes/git/scratch_dir.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "testing/temp_dir.h"

namespace warren {
namespace {

class ScratchDirTest : public ::testing::Test {
 protected:
  ScratchDirTest() { ::setenv("TMPDIR", dir_.path().c_str(), 1); }
  ~ScratchDirTest() override {
    if (before_.empty()) ::unsetenv("TMPDIR");
    else ::setenv("TMPDIR", before_.c_str(), 1);
  }

  // What a process leaves that is killed while it has one.
  void interrupt() {
    pid_t child = ::fork();
    if (child == 0) {
      Result<ScratchDir> made = ScratchDir::make("killed");
      if (made.ok()) std::ofstream(made->path() + "/objects") << "many";
      ::_exit(made.ok() ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }

  std::set<std::string> names() {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
      found.insert(entry.path().filename().string());
    return found;
  }

  std::string before_ = std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "";
  testing::TempDir dir_;
};

TEST_F(ScratchDirTest, WhatAnInterruptedCommandLeftIsRemovedByTheNext) {
  interrupt();
  ASSERT_EQ(names().size(), 1U);
  std::string left = *names().begin();
  ScratchDir next = ScratchDir::make("next").value();
  EXPECT_FALSE(names().contains(left));
  EXPECT_TRUE(std::filesystem::is_directory(next.path()));
}

TEST_F(ScratchDirTest, OneInUseAndDirectoriesOfOthersStay) {
  std::filesystem::create_directory(dir_.path() + "/warren-of-others");
  std::ofstream(dir_.path() + "/warren-file") << "1";
  {
    ScratchDir one = ScratchDir::make("one").value();
    ScratchDir moved = std::move(one);
    ScratchDir two = ScratchDir::make("two").value();
    EXPECT_TRUE(std::filesystem::is_directory(moved.path()));
    EXPECT_EQ(names().size(), 4U);
  }
  EXPECT_EQ(names(), (std::set<std::string>{"warren-file", "warren-of-others"}));
}

}  // namespace
}  // namespace warren
