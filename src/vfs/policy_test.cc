#include "vfs/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vfs/path_table.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Caller user(std::string agent = "a1") {
  return {.agent = std::move(agent), .space = Space::kUser, .door = {}, .session = {}};
}

Policy must_parse(std::string_view text) {
  Result<Policy> parsed = Policy::parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  return std::move(parsed).take_value();
}

TEST(Policy, TheFirstMatchingRuleDecides) {
  Policy policy = must_parse(R"({"version": 1, "rules": [
    {"path": "/data/open/**", "operation": "write", "effect": "allow"},
    {"path": "/data", "operation": "write", "effect": "deny"}
  ]})");
  EXPECT_TRUE(policy.rights(user(), "/data/open/x").has(Rights::kOverwrite));
  EXPECT_FALSE(policy.rights(user(), "/data/x").has(Rights::kCreate));
  EXPECT_TRUE(policy.rights(user(), "/data/x").has(Rights::kRead));
  Verdict verdict = policy.judge(user(), Rights::kAppend, "/data/x");
  EXPECT_EQ(verdict.effect, Effect::kDeny);
  EXPECT_EQ(policy.rules()[*verdict.rule].line, 3U);
}

TEST(Policy, ARuleCannotAllowWhatTheTableRefuses) {
  Policy policy = must_parse(R"({"version": 1, "rules": [{"path": "/policy/**", "effect": "allow"}]})");
  EXPECT_FALSE(policy.rights(user(), "/policy/x").has(Rights::kOverwrite));
  EXPECT_EQ(policy.judge(user(), Rights::kCreate, "/policy/x").region, Region::kPolicy);
}

TEST(Policy, RulesAreForAgentsAndSpaces) {
  Policy policy = must_parse(R"({"version": 1, "default": "deny", "rules": [
    {"agent": "build-*", "path": "/out/**", "effect": "allow"},
    {"space": "kernel", "path": "/", "effect": "allow"}
  ]})");
  EXPECT_TRUE(policy.rights(user("build-7"), "/out/x").has(Rights::kCreate));
  EXPECT_TRUE(policy.rights(user("test-7"), "/out/x").is_empty());
  Caller kernel{.agent = "x", .space = Space::kKernel, .door = {}, .session = {}};
  EXPECT_TRUE(policy.rights(kernel, "/any").has(Rights::kDelete));
}

TEST(Policy, WhatIsWrongIsNamedWithItsPlace) {
  auto problem = [](std::string_view text) {
    Result<Policy> parsed = Policy::parse(text);
    return parsed.ok() ? std::string("none") : parsed.error().message();
  };
  EXPECT_THAT(problem("{}"), HasSubstr("'version'"));
  EXPECT_THAT(problem("[]"), HasSubstr("JSON object"));
  EXPECT_THAT(problem("{"), HasSubstr("byte 2"));
  EXPECT_THAT(problem(R"({"version": 1, "rule": []})"), HasSubstr("unknown member 'rule'"));
  EXPECT_THAT(problem("{\"version\": 1,\n \"rules\": [\n {\"path\": \"/a\", \"effect\": \"deny\"},\n {\"path\": \"a\", "
                      "\"effect\": \"deny\"}]}"),
              HasSubstr("rule 2, line 4: 'path' 'a' does not begin with '/'"));
  EXPECT_THAT(problem(R"({"version": 1, "rules": [{"path": "/a"}]})"), HasSubstr("'effect' is missing"));
  EXPECT_THAT(problem(R"({"version": 1, "rules": [{"path": "/a/../b", "effect": "deny"}]})"), HasSubstr("'..'"));
  EXPECT_THAT(problem(R"({"version": 1, "rules": [{"path": "/a", "effect": "deny", "operation": "wirte"}]})"),
              HasSubstr("no operation 'wirte'; it is one of read, list"));
  EXPECT_THAT(problem(R"({"version": 1, "limits": {"file_bytes": -1}})"), HasSubstr("whole number"));
  EXPECT_THAT(problem(R"({"version": 1, "default": "deny", "default": "allow"})"),
              HasSubstr("'default' is there twice"));
  EXPECT_THAT(problem(R"({"version": 1, "rules": [{"path": "/a", "effect": "deny", "effect": "allow"}]})"),
              HasSubstr("'effect' is there twice"));
  EXPECT_THAT(problem(std::string(Policy::kBytesMax + 1, ' ')), HasSubstr("at most"));
  std::string many = R"({"version": 1, "rules": [)";
  for (int i = 0; i < 1001; ++i) many += R"({"path": "/a", "effect": "deny"},)";
  many.back() = ']';
  EXPECT_THAT(problem(many + "}"), HasSubstr("at most 1000 rules"));
}

TEST(Policy, OfContradictoryRulesTheFirstDecides) {
  Policy policy = must_parse(R"({"version": 1,
  "comment": "rules", "rules": [
    {"path": "/a", "effect": "allow"},
    {"path": "/a", "effect": "deny"}
  ]})");
  Verdict verdict = policy.judge(user(), Rights::kRead, "/a");
  EXPECT_EQ(verdict.effect, Effect::kAllow);
  ASSERT_EQ(policy.rules().size(), 2U);
  EXPECT_THAT(policy.idle_rules(), ElementsAre(1));
  EXPECT_EQ(policy.rules()[*verdict.rule].line, 3U);
}

TEST(Policy, RulesThatNeverDecideAreRecognised) {
  Policy policy = must_parse(R"({"version": 1, "rules": [
    {"path": "/a", "operation": "read", "effect": "allow"},
    {"path": "/a", "operation": ["write", "list", "delete"], "effect": "allow"},
    {"path": "/a/b", "effect": "deny"},
    {"path": "/ab", "effect": "deny"},
    {"path": "/c", "space": "user", "effect": "deny"},
    {"path": "/c", "effect": "deny"},
    {"path": "/c/*", "space": "user", "effect": "allow"},
    {"path": "/", "agent": "x", "effect": "deny"},
    {"path": "/d", "effect": "deny"},
    {"path": "/d", "agent": "x", "effect": "deny"}
  ]})");
  EXPECT_THAT(policy.idle_rules(), ElementsAre(2, 6, 9));
}

TEST(PathTable, KnowsWhereNodesAre) {
  PathTable table;
  table.learn(Inode{2}, kRootInode, "dir", true, false);
  table.learn(Inode{3}, Inode{2}, "file", false, false);
  EXPECT_THAT(table.paths_of(Inode{3}).value(), ElementsAre("/dir/file"));
  table.moved(Inode{2}, kRootInode, "dir", kRootInode, "other");
  EXPECT_THAT(table.paths_of(Inode{3}).value(), ElementsAre("/other/file"));
  EXPECT_EQ(table.paths_of(Inode{9}).error().code(), Code::kStale);
}

TEST(PathTable, SeveralNamesHaveTheirCommonRights) {
  PathTable table;
  table.learn(Inode{2}, kRootInode, "a", false, true);
  table.learn(Inode{2}, kRootInode, "b", false, true);
  auto decide = [](std::string_view path) { return path == "/a" ? kAllRights : Rights(Rights::kRead); };
  EXPECT_EQ(table.rights_of(Inode{2}, 1, decide).value(), Rights(Rights::kRead));
  table.removed(Inode{2}, kRootInode, "b");
  EXPECT_EQ(table.rights_of(Inode{2}, 1, decide).value(), kAllRights);
}

TEST(PathTable, ForgetsWhatIsNotInUse) {
  PathTable table(100);
  table.learn(Inode{2}, kRootInode, "dir", true, false);
  table.learn(Inode{3}, Inode{2}, "held", false, false);
  table.retain(Inode{3});
  for (std::uint64_t i = 10; i < 100'000; ++i) table.learn(Inode{i}, Inode{2}, "f" + std::to_string(i), false, false);
  EXPECT_LT(table.size(), 5000U);
  EXPECT_THAT(table.paths_of(Inode{3}).value(), ElementsAre("/dir/held"));
}

}  // namespace
}  // namespace warren
