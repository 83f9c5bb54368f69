#include "agent/locate.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

// Agents are looked for in the current directory, so each test has its own.
class LocateTest : public ::testing::Test {
 protected:
  LocateTest() : before_(std::filesystem::current_path()) { std::filesystem::current_path(dir_.path()); }
  ~LocateTest() override { std::filesystem::current_path(before_); }

  void make_file(const std::string& path) {
    if (path.find('/') != path.npos) std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << "x";
  }

  testing::TempDir dir_;
  std::filesystem::path before_;
};

TEST(AgentId, HasLettersDigitsDashesAndUnderscores) {
  EXPECT_TRUE(is_agent_id("My_agent-1"));
  for (const char* bad : {"", ".", "..", "a.b", "a/b", "a b", "ä", "a\n"}) EXPECT_FALSE(is_agent_id(bad)) << bad;
  EXPECT_TRUE(is_agent_id(std::string(200, 'a')));
  EXPECT_FALSE(is_agent_id(std::string(201, 'a')));
}

TEST_F(LocateTest, AnIdTakesPrecedenceOverAFileOfThatName) {
  make_file("one");
  EXPECT_EQ(*locate_agent("one"), "one");
  make_file(".agentfs/one.db");
  EXPECT_EQ(*locate_agent("one"), ".agentfs/one.db");
  EXPECT_EQ(*locate_agent("./one"), "./one");
}

TEST_F(LocateTest, ASessionAndAFileOfOneNameAreRefused) {
  ::setenv("HOME", (dir_.path() + "/home").c_str(), 1);
  make_file("home/.agentfs/run/fix/delta.db");
  EXPECT_EQ(*locate_agent("fix"), dir_.path() + "/home/.agentfs/run/fix/delta.db");
  for (const char* file : {".agentfs/fix.db", "fix"}) {
    make_file(file);
    Result<std::string> found = locate_agent("fix");
    ASSERT_EQ(error_of(found), Code::kConflict);
    EXPECT_NE(found.error().message().find(file), std::string::npos);
    EXPECT_NE(found.error().message().find("run/fix/delta.db"), std::string::npos);
    EXPECT_EQ(*locate_agent("session:fix"), dir_.path() + "/home/.agentfs/run/fix/delta.db");
    EXPECT_EQ(*locate_agent("./" + std::string(file)), "./" + std::string(file));
    std::filesystem::remove(file);
  }
  EXPECT_EQ(error_of(locate_agent("session:none")), Code::kNotFound);
  EXPECT_EQ(error_of(locate_agent("session:../fix")), Code::kInvalid);
}

TEST_F(LocateTest, MemoryIsItself) { EXPECT_EQ(*locate_agent(":memory:"), ":memory:"); }

TEST_F(LocateTest, AMissingAgentIsNotFoundAndTheHintNamesExistingOnes) {
  make_file(".agentfs/one.db");
  make_file(".agentfs/one-b.db");
  Result<std::string> missing = locate_agent("two");
  ASSERT_EQ(error_of(missing), Code::kNotFound);
  EXPECT_EQ(missing.error().hint(), "`warren init two` creates it; agents here: one, one-b");
  EXPECT_EQ(error_of(locate_agent("no/such.db")), Code::kNotFound);
  EXPECT_EQ(error_of(locate_agent("")), Code::kNotFound);
  EXPECT_EQ(error_of(locate_agent(".")), Code::kIsDirectory);
}

TEST_F(LocateTest, OnlyAgentFilesAreListed) {
  for (const char* name : {"b.db", "a.db", "a.index.db", "a.db-wal", "notes.txt", "bad id.db"}) {
    make_file(std::string(".agentfs/") + name);
  }
  EXPECT_EQ(*list_agents(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(LocateTest, WithoutTheFolderThereAreNoAgents) { EXPECT_TRUE(list_agents()->empty()); }

}  // namespace
}  // namespace warren
