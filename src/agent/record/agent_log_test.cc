#include "agent/record/agent_log.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/checkpoints/checkpoints.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AgentLogTest : public ::testing::Test {
 protected:
  AgentLogTest() {
    ::setenv("HOME", dir_.path().c_str(), 1);
    ::unsetenv("XDG_CONFIG_HOME");
    EXPECT_TRUE(Store::open(path_, {.mode = OpenMode::kCreate}, clock_).ok());
  }

  std::unique_ptr<Agent> open(OpenMode mode = OpenMode::kReadWrite) {
    return Agent::open({.id_or_path = path_, .mode = mode, .durability = Durability::kProcess}, clock_).take_value();
  }
  void write(Agent& agent, std::string_view path, std::string_view text) {
    clock_.advance_ns(1'000'000'000);
    ASSERT_OK(write_file(agent.fs(), path, as_bytes(text)));
  }
  std::vector<std::string> log(const LogFilter& filter = {}) {
    auto agent = open(OpenMode::kReadOnly);
    std::vector<std::string> lines;
    for (const LogEvent& event : read_log(*agent, filter, clock_).take_value()) {
      lines.push_back(event.verb + " " + event.subject);
    }
    return lines;
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::string path_ = dir_.file("a.db");
};

TEST_F(AgentLogTest, TheNewestChangeComesFirstAndSaysWhatIsThereNow) {
  auto agent = open();
  write(*agent, "/a", "1");
  write(*agent, "/a", "2");
  write(*agent, "/b", "1");
  ASSERT_OK(unlink(agent->fs(), "/b"));
  EXPECT_THAT(log(), ElementsAre("removed /b", "added /b", "wrote /a", "added /a"));
}

TEST_F(AgentLogTest, ARenamedFileHasItsHistoryUnderEachName) {
  auto agent = open();
  write(*agent, "/a", "1");
  write(*agent, "/a", "2");
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(rename(agent->fs(), "/a", "/b"));
  write(*agent, "/b", "3");
  EXPECT_THAT(log(), ElementsAre("wrote /b", "renamed /a", "wrote /a", "added /a"));
  EXPECT_THAT(log({.path = "/a"}), ElementsAre("renamed /a", "wrote /a", "added /a"));
  EXPECT_THAT(log({.path = "/b"}), ElementsAre("wrote /b", "renamed /a", "wrote /a", "added /a"));
}

TEST_F(AgentLogTest, WhatWasRemovedIsNamedByThePathThatItHad) {
  auto agent = open();
  write(*agent, "/a", "1");
  write(*agent, "/a", "2");
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(rename(agent->fs(), "/a", "/b"));
  write(*agent, "/b", "3");
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(unlink(agent->fs(), "/b"));
  EXPECT_THAT(log(), ElementsAre("removed /b", "wrote /b", "renamed /a", "wrote /a", "added /a"));
  EXPECT_THAT(log({.path = "/b"}), ElementsAre("removed /b", "wrote /b", "renamed /a", "wrote /a", "added /a"));
  std::vector<LogEvent> events = read_log(*open(OpenMode::kReadOnly), {}, clock_).take_value();
  EXPECT_EQ(events[1].detail, "removed since");
  EXPECT_EQ(events[2].to, "/b");
}

TEST_F(AgentLogTest, ANameThatComesAndGoesIsAddedAndRemovedInTurn) {
  auto agent = open();
  for (int i = 0; i < 2; ++i) {
    write(*agent, "/a", "1");
    write(*agent, "/a", "2");
    clock_.advance_ns(1'000'000'000);
    ASSERT_OK(unlink(agent->fs(), "/a"));
  }
  write(*agent, "/a", "3");
  EXPECT_THAT(log(),
              ElementsAre("added /a", "removed /a", "wrote /a", "added /a", "removed /a", "wrote /a", "added /a"));
}

TEST_F(AgentLogTest, WhatWasInARemovedDirectoryIsNamed) {
  auto agent = open();
  write(*agent, "/d/x", "1");
  write(*agent, "/d/x", "2");
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(remove(agent->fs(), "/d", {.recursive = Recursive::kYes}));
  std::vector<std::string> lines = log();
  ASSERT_GE(lines.size(), 4U);
  EXPECT_THAT(std::vector(lines.end() - 3, lines.end()), ElementsAre("wrote /d/x", "added /d/x", "added /d"));
  EXPECT_THAT(lines, ::testing::Contains("removed /d"));
  EXPECT_THAT(lines, ::testing::Contains("removed /d/x"));
}

TEST_F(AgentLogTest, AFileThatAnotherOneReplacedKeepsItsOwnHistory) {
  auto agent = open();
  write(*agent, "/a", "1");
  write(*agent, "/b", "1");
  write(*agent, "/a", "2");
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(rename(agent->fs(), "/b", "/a"));
  EXPECT_THAT(log(), ElementsAre("renamed /b", "wrote /a", "added /b", "added /a"));
}

TEST_F(AgentLogTest, WhatIsInARenamedDirectoryHadAnotherPathBefore) {
  auto agent = open();
  write(*agent, "/d/x", "1");
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(rename(agent->fs(), "/d", "/e"));
  write(*agent, "/e/x", "2");
  EXPECT_THAT(log(), ElementsAre("wrote /e/x", "renamed /d", "added /d/x", "added /d"));
}

TEST_F(AgentLogTest, ADraftIsNotShown) {
  auto agent = open();
  write(*agent, "/.warren-draft-1234", "1");
  write(*agent, "/.warren-draft-1234", "2");
  EXPECT_THAT(log(), IsEmpty());
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(rename(agent->fs(), "/.warren-draft-1234", "/a"));
  EXPECT_THAT(log(), ElementsAre("added /a", "wrote /a", "wrote /a"));
}

TEST_F(AgentLogTest, APathHasWhatIsBelowItAndNothingBesideIt) {
  auto agent = open();
  write(*agent, "/d/x", "1");
  write(*agent, "/dx", "1");
  EXPECT_THAT(log({.path = "/d"}), ElementsAre("added /d/x", "added /d"));
  EXPECT_THAT(log({.path = "/none"}), IsEmpty());
}

TEST_F(AgentLogTest, ACallOfAnotherProgramMayHaveAnyTime) {
  auto agent = open();
  ASSERT_OK(
      agent->store().database().execute("INSERT INTO tool_calls (name, status, started_at, completed_at, duration_ms) "
                                        "VALUES ('late', 'success', 9000000000000000000, 9000000000000000000, 0), "
                                        "('early', 'success', -9000000000000000000, -9000000000000000000, 0)"));
  EXPECT_THAT(log(), ElementsAre("called late", "called early"));
}

TEST_F(AgentLogTest, OnlyTheNewestAreReadFromALongJournal) {
  auto agent = open();
  for (int i = 0; i < 3000; ++i) write(*agent, "/a", std::to_string(i));
  write(*agent, "/last", "x");
  EXPECT_THAT(log({.limit = 2}), ElementsAre("added /last", "wrote /a"));
  EXPECT_EQ(log().size(), 3001U);
  EXPECT_EQ(log({.path = "/last"}).size(), 1U);
}

TEST_F(AgentLogTest, WhatIsOlderIsLeftOut) {
  auto agent = open();
  write(*agent, "/old", "1");
  write(*agent, "/new", "1");
  EXPECT_THAT(log({.since_us = clock_.now_us()}), ElementsAre("added /new"));
}

TEST_F(AgentLogTest, ACheckpointIsAnEventOfAPathOnlyIfThePathChanged) {
  auto agent = open();
  write(*agent, "/a", "1");
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(take_checkpoint(*agent, "one"));
  write(*agent, "/b", "1");
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(take_checkpoint(*agent, "two"));
  EXPECT_THAT(log({.path = "/a"}), ElementsAre("appeared in the checkpoint one@1", "added /a"));
  EXPECT_THAT(log({.limit = 1}), ElementsAre("took the checkpoint two@2"));
}

}  // namespace
}  // namespace warren
