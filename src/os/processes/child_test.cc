#include "os/processes/child.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using testing::TempDir;

class ChildTest : public ::testing::Test {
 protected:
  Result<int> run_shell(const std::string& script) { return run_child({"sh", "-c", script}, directory_.path()); }

  std::string read(const std::string& name) {
    std::ifstream file(directory_.file(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TempDir directory_;
};

TEST_F(ChildTest, TheExitStatusIsReturned) {
  EXPECT_EQ(run_shell("exit 0").value(), 0);
  EXPECT_EQ(run_shell("exit 7").value(), 7);
}

TEST_F(ChildTest, DeathByASignalIsStatus128PlusItsNumber) {
  EXPECT_EQ(run_shell("kill -KILL $$").value(), 128 + 9);
  EXPECT_EQ(run_shell("kill -INT $$").value(), 128 + 2) << "what we ignore meanwhile is not ignored by it";
}

TEST_F(ChildTest, AMissingProgramFailsWithNotFoundAndItsName) {
  Result<int> missing = run_child({"no-such-program"}, directory_.path());
  ASSERT_EQ(error_of(missing), Code::kNotFound);
  EXPECT_EQ(missing.error().message(), "no program 'no-such-program'");
}

TEST_F(ChildTest, AFileThatIsNotExecutableFailsWithDenied) {
  std::ofstream(directory_.file("text")) << "text";
  EXPECT_EQ(error_of(run_child({directory_.file("text")}, directory_.path())), Code::kDenied);
}

TEST_F(ChildTest, TheChildRunsInTheGivenDirectoryAndPwdNamesIt) {
  std::filesystem::path before = std::filesystem::current_path();
  ASSERT_EQ(run_shell("pwd -P > here; printenv PWD >> here").value(), 0);
  std::string path = std::filesystem::canonical(directory_.path());
  EXPECT_EQ(read("here"), path + "\n" + directory_.path() + "\n");
  EXPECT_EQ(std::filesystem::current_path(), before);
}

TEST_F(ChildTest, ArgumentsArePassedUnchanged) {
  ASSERT_EQ(run_child({"sh", "-c", "printf '%s|' \"$@\" > words", "sh", "a b", "", "$HOME"}, directory_.path()).value(),
            0);
  EXPECT_EQ(read("words"), "a b||$HOME|");
}

TEST_F(ChildTest, ATerminationSignalIsForwardedToTheChild) {
  EXPECT_EQ(run_shell("kill -TERM $PPID; exec sleep 20").value(), 128 + 15);
}

}  // namespace
}  // namespace warren
