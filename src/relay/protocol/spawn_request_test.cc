#include "relay/protocol/spawn_request.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

TEST(SpawnRequest, TheSpecificationsExampleIsRead) {
  auto request = parse_spawn_request(
      "NAME: WorkerAgent\nCLI: claude\nPROMPT: You are a worker agent. Complete the assigned task.\n"
      "WORKING_DIR: /path/to/project\nENV: KEY1=value1,KEY2=value2\n");
  ASSERT_OK(request);
  EXPECT_EQ(request->name, "WorkerAgent");
  EXPECT_EQ(request->cli, "claude");
  EXPECT_EQ(request->prompt, "You are a worker agent. Complete the assigned task.");
  EXPECT_EQ(request->working_dir, "/path/to/project");
  ASSERT_EQ(request->env.size(), 2U);
  EXPECT_EQ(request->env[1].first + request->env[1].second, "KEY2value2");
}

TEST(SpawnRequest, APromptContinuesUntilAnotherKeyInCapitals) {
  auto request = parse_spawn_request("name: w\r\nPROMPT: one\n two\n\nname: not a key here\nCLI: c\r\n");
  ASSERT_OK(request);
  EXPECT_EQ(request->prompt, "one\n two\n\nname: not a key here");
  EXPECT_EQ(request->cli, "c");
}

TEST(SpawnRequest, APromptAfterABareLineIsTheRestOfTheBody) {
  auto request = parse_spawn_request("NAME: w\nCLI: c\nPROMPT:\nNAME: x\nENV: LD_PRELOAD=y\n\n");
  ASSERT_OK(request);
  EXPECT_EQ(request->prompt, "NAME: x\nENV: LD_PRELOAD=y");
  EXPECT_TRUE(request->env.empty());
}

TEST(SpawnRequest, AWrittenRequestIsReadBackEqual) {
  SpawnRequest request{"w", "c", "a\nCLI: b\n\nPROMPT: c", "/d", {{"A", "1=2"}, {"B", ""}}};
  auto read = parse_spawn_request(write_spawn_request(request));
  ASSERT_OK(read);
  EXPECT_EQ(read->prompt, request.prompt);
  EXPECT_EQ(read->env, request.env);
  EXPECT_EQ(read->working_dir, "/d");
}

TEST(SpawnRequest, AnInvalidRequestIsRefused) {
  for (std::string_view body :
       {"", "NAME: w\n", "CLI: c\n", "NAME: w\nCLI: c\nCLI: d\n", "NAME: w\nCLI: c\nX: y\n",
        "NAME: w\nCLI: c\nENV: A\n", "NAME: w\nCLI: c\nENV: 1A=b\n", "NAME: w\nCLI: c\nENV: A=1\nENV: A=2\n",
        "NAME:\rw\nCLI: c\n", "\rNAME: w\nCLI: c\n", "NAME: .\nCLI: c\n", "no colon\nNAME: w\n",
        "NAME: w\nCLI: c\nPROMPT: a\nPROMPT: b\n"}) {
    EXPECT_EQ(error_of(parse_spawn_request(body)), Code::kInvalid) << body;
  }
  using namespace std::string_view_literals;
  EXPECT_EQ(error_of(parse_spawn_request("NAME: w\nCLI: c\nPROMPT: a\0b\n"sv)), Code::kInvalid);
  EXPECT_EQ(error_of(parse_spawn_request("NAME: w\nCLI: c\0d\n"sv)), Code::kInvalid);
  EXPECT_EQ(error_of(parse_spawn_request("NAME: w\nCLI: c\nENV: A=\0\n"sv)), Code::kInvalid);
}

TEST(ReleaseRequest, NeedsAName) {
  auto request = parse_release_request("NAME: w\nREASON: done: all of it\n");
  ASSERT_OK(request);
  EXPECT_EQ(request->reason, "done: all of it");
  EXPECT_EQ(error_of(parse_release_request("REASON: x\n")), Code::kInvalid);
  EXPECT_EQ(error_of(parse_release_request("NAME: system\n")), Code::kInvalid);
  EXPECT_EQ(error_of(parse_release_request("NAME: w\nFORCE: yes\n")), Code::kInvalid);
}

TEST(ContinuityRequest, TheStateFollowsTheBlankLineOrIsTheWholeBody) {
  Message in_body{.to = "x", .body = "ACTION: save\n\nstate\n\nmore\n"};
  auto request = parse_continuity_request(in_body);
  ASSERT_OK(request);
  EXPECT_EQ(request->action, ContinuityAction::kSave);
  EXPECT_EQ(request->state, "state\n\nmore\n");
  Message in_header{.to = "x", .others = {{"action", "Save"}}, .body = "ACTION: load\n"};
  request = parse_continuity_request(in_header);
  ASSERT_OK(request);
  EXPECT_EQ(request->state, "ACTION: load\n");
  Message load{.to = "x", .body = "ACTION: load\nVERSION: 7"};
  request = parse_continuity_request(load);
  ASSERT_OK(request);
  EXPECT_EQ(request->version, 7);
  for (std::string body :
       {"", "ACTION: x\n", "VERSION: 1\n", "ACTION: load\nVERSION: 0\n", "ACTION: load\nVERSION: 1x\n"}) {
    EXPECT_EQ(error_of(parse_continuity_request(Message{.to = "x", .body = body})), Code::kInvalid) << body;
  }
}

}  // namespace
}  // namespace warren::relay
