#include "sandbox/walls/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warren {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

EnvironmentChoice chosen(const Words& outside, const Words& words, const std::vector<AskedVariable>& asked = {},
                         EnvironmentBasis basis = EnvironmentBasis::kListed) {
  Result<EnvironmentChoice> choice = choose_environment(outside, words, asked, basis);
  EXPECT_TRUE(choice.ok());
  return choice.ok() ? *choice : EnvironmentChoice{};
}

TEST(RunEnvironment, OnlyListedVariablesArePassed) {
  EnvironmentChoice choice = chosen({"PATH=/bin", "LC_ALL=C", "CARGO_HOME=/c", "http_proxy=http://p", "ZEBRA=1",
                                     "AWS_SECRET_ACCESS_KEY=x", "PGPASSWORD=x", "GOPROXY=https://u:p@h", "_=/bin/sh"},
                                    {"sh"});
  EXPECT_THAT(choice.variables, ElementsAre("CARGO_HOME=/c", "LC_ALL=C", "PATH=/bin", "http_proxy=http://p"));
  EXPECT_THAT(choice.held_back, ElementsAre("AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "GOPROXY", "ZEBRA"));
}

TEST(RunEnvironment, AnAgentGetsItsOwnSignInVariables) {
  Words outside{"ANTHROPIC_API_KEY=a", "OPENAI_API_KEY=o", "GH_TOKEN=g"};
  EXPECT_THAT(chosen(outside, {"/usr/local/bin/claude", "-p", "hello"}).variables, ElementsAre("ANTHROPIC_API_KEY=a"));
  EXPECT_THAT(chosen(outside, {"codex"}).variables, ElementsAre("OPENAI_API_KEY=o"));
  EXPECT_THAT(chosen(outside, {"npx", "-y", "@anthropic-ai/claude-code@2.0"}).variables,
              ElementsAre("ANTHROPIC_API_KEY=a"));
  EXPECT_THAT(chosen(outside, {"env", "A=1", "codex"}).variables, ElementsAre("OPENAI_API_KEY=o"));
  EXPECT_THAT(chosen(outside, {"cat", "claude"}).variables, ElementsAre());
  EXPECT_THAT(chosen(outside, {"sh", "-c", "claude"}).variables, ElementsAre());
}

TEST(RunEnvironment, AskedVariablesArePassedAndOverride) {
  EnvironmentChoice choice = chosen({"TOKEN=t", "PATH=/bin", "DISPLAY=:0"}, {"sh"},
                                    {{"TOKEN", std::nullopt}, {"PATH", "/opt"}, {"NEW", "a=b"}, {"PATH", "/last"}});
  EXPECT_THAT(choice.variables, ElementsAre("NEW=a=b", "PATH=/last", "TOKEN=t"));
  EXPECT_THAT(choice.held_back, ElementsAre("DISPLAY"));
  Result<EnvironmentChoice> missing = choose_environment(
      Words{}, Words{"sh"}, std::vector<AskedVariable>{{"NONE", std::nullopt}}, EnvironmentBasis::kListed);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message(), "--env: NONE is not set");
}

TEST(RunEnvironment, EverythingIsStillWithoutDeadSockets) {
  EnvironmentChoice choice =
      chosen({"A=1", "SSH_AUTH_SOCK=/x", "WARREN_SESSION=no", "PWD=/"}, {"sh"}, {}, EnvironmentBasis::kEverything);
  EXPECT_THAT(choice.variables, ElementsAre("A=1"));
  EXPECT_THAT(choice.held_back, ElementsAre("SSH_AUTH_SOCK"));
}

TEST(RunEnvironment, KeysOfAuditTrailsAndAgentFilesAreNeverPassed) {
  EnvironmentChoice choice = chosen({"A=1", "WARREN_AUDIT_KEY=secret", "WARREN_AUDIT_KEY_COMMAND=print it",
                                     "WARREN_KEY=secret", "WARREN_KEY_FILE=/key", "WARREN_KEY_COMMAND=print it"},
                                    {"sh"}, {}, EnvironmentBasis::kEverything);
  EXPECT_THAT(choice.variables, ElementsAre("A=1"));
  EXPECT_FALSE(parse_variable("WARREN_AUDIT_KEY").ok());
}

TEST(RunEnvironment, NoSecretOfOursIsPassedWhateverItIsCalled) {
  EnvironmentChoice choice = chosen({"WARREN_EMBED_KEY=secret", "WARREN_NEW_TOKEN=secret", "WARREN_MODELS=/m"}, {"sh"},
                                    {}, EnvironmentBasis::kEverything);
  EXPECT_THAT(choice.variables, ElementsAre("WARREN_MODELS=/m"));
  EXPECT_FALSE(parse_variable("WARREN_EMBED_KEY").ok());
}

TEST(RunEnvironment, TheVariableWithAKeyIsHeldBackAndCannotBeAskedFor) {
  Words outside{"MINE=secret", "PATH=/bin"};
  Words secrets{"MINE", "PATH"};
  auto choose = [&](const std::vector<AskedVariable>& asked) {
    return choose_environment(outside, Words{"sh"}, asked, EnvironmentBasis::kEverything, secrets);
  };
  EXPECT_THAT(choose({})->variables, ElementsAre());
  EXPECT_THAT(choose({})->held_back, ElementsAre("MINE", "PATH"));
  EXPECT_THAT(choose({{"MINE", "other"}})->variables, ElementsAre("MINE=other"));
  Result<EnvironmentChoice> asked = choose({{"MINE", std::nullopt}});
  ASSERT_FALSE(asked.ok());
  EXPECT_EQ(asked.error().code(), Code::kInvalid);
  EXPECT_THAT(asked.error().message(), Not(HasSubstr("secret")));
}

TEST(RunEnvironment, ABadNameIsRefused) {
  for (const char* bad : {"", "=x", "1A", "A B=c", "A-B", "WARREN_SANDBOX=0"}) {
    EXPECT_FALSE(parse_variable(bad).ok()) << bad;
  }
  EXPECT_EQ(*parse_variable("A="), (AskedVariable{"A", ""}));
  EXPECT_EQ(*parse_variable("A"), (AskedVariable{"A", std::nullopt}));
}

TEST(RunEnvironment, AFileHasOneVariableInALine) {
  Result<std::vector<AskedVariable>> all =
      parse_environment_file("# keys\n\nA=1\r\nexport B='two words'\nC=\"\"\nD\nE=a\"b\n", "f");
  ASSERT_TRUE(all.ok());
  EXPECT_THAT(*all, ElementsAre(AskedVariable{"A", "1"}, AskedVariable{"B", "two words"}, AskedVariable{"C", ""},
                                AskedVariable{"D", std::nullopt}, AskedVariable{"E", "a\"b"}));
  Result<std::vector<AskedVariable>> bad = parse_environment_file("A=1\nsecret text\n", "f");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message(), HasSubstr("'f' line 2"));
  EXPECT_THAT(bad.error().message(), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace warren
