#include "relay/spawn/spawn_config.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

TEST(SpawnConfig, UnsafeVariablesAreRefusedEvenIfListed) {
  std::vector<std::string> all = {"*"};
  for (std::string_view name :
       {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "BASH_ENV", "ENV", "PYTHONPATH", "PYTHONSTARTUP",
        "PERL5OPT", "NODE_OPTIONS", "RUBYOPT", "JAVA_TOOL_OPTIONS", "IFS", "GIT_SSH_COMMAND", "AGENT_RELAY_TOKEN",
        "WARREN_RELAY_ROOT", "PWD"}) {
    EXPECT_FALSE(is_allowed_variable(all, name)) << name;
  }
  EXPECT_TRUE(is_allowed_variable(all, "TASK"));
  EXPECT_TRUE(is_allowed_variable({"MY_*"}, "MY_KEY"));
  EXPECT_FALSE(is_allowed_variable({"MY_*"}, "YOUR_KEY"));
  EXPECT_FALSE(is_allowed_variable({"TASK"}, "TASKS"));
  EXPECT_FALSE(is_allowed_variable({}, "TASK"));
}

TEST(SpawnConfig, VariableNames) {
  EXPECT_TRUE(is_variable_name("_a1"));
  for (std::string_view name : {"", "1a", "a-b", "a b", "a=b", "\xc3\xa4"})
    EXPECT_FALSE(is_variable_name(name)) << name;
}

TEST(SpawnConfig, PlaceholdersAreReplacedOnceAndLiterally) {
  auto value_of = [](std::string_view word) {
    return word == "prompt" ? std::string("{name} $(x)") : std::string("N");
  };
  EXPECT_EQ(fill_placeholders("{prompt}", value_of), "{name} $(x)");
  EXPECT_EQ(fill_placeholders("--p={prompt}{name}!", value_of), "--p={name} $(x)N!");
  EXPECT_EQ(fill_placeholders("{ {}} {\"a\":1} {Prompt}", value_of), "{ {}} {\"a\":1} {Prompt}");
  EXPECT_EQ(fill_placeholders("{{prompt}", value_of), "{{name} $(x)");
}

Result<SpawnConfig> parse(std::string_view text) { return parse_spawn_config(parse_json(text).take_value()); }

TEST(SpawnConfig, ACompleteConfigurationIsRead) {
  auto config = parse(R"({"clis": {"a": {"argv": ["p", "{prompt}"], "sandbox": true, "timeout_ms": 5}}, "roots": ["/w"],
      "env": ["A", "B_*", "*"], "count_max": 1, "depth_max": 2, "per_minute": 3, "require_token": true, "notice_ms": 4,
      "grace_ms": 6, "orphan_ms": 7})");
  ASSERT_OK(config);
  EXPECT_TRUE(config->clis.at("a").is_sandboxed);
  EXPECT_EQ(config->clis.at("a").timeout.count(), 5);
  EXPECT_EQ(config->count_max + config->depth_max + config->per_minute, 6);
  EXPECT_EQ(config->notice.count() + config->grace.count() + config->orphan.count(), 17);
  EXPECT_TRUE(config->requires_token);
}

TEST(SpawnConfig, ErrorsNameTheKey) {
  for (std::string_view text :
       {"[]", R"({"x": 1})", R"({"clis": []})", R"({"clis": {"a": []}})", R"({"clis": {"a": {"argv": []}}})",
        R"({"clis": {"a": {"argv": [1]}}})", R"({"clis": {"a": {"argv": [""]}}})",
        R"({"clis": {"a": {"argv": ["-x"]}}})", R"({"clis": {"a": {"argv": ["a/b"]}}})",
        R"({"clis": {"a": {"argv": ["{name}"]}}})", R"({"clis": {"a": {"argv": ["p", "{nme}"]}}})",
        R"({"clis": {"a": {"argv": ["p", "a\u0000b"]}}})", R"({"clis": {"a": {"argv": ["p"], "sandbox": 1}}})",
        R"({"roots": ["w"]})", R"({"env": ["LD_X"]})", R"({"env": ["A=B"]})", R"({"count_max": "1"})",
        R"({"grace_ms": -1})"}) {
    EXPECT_EQ(error_of(parse(text)), Code::kInvalid) << text;
  }
  EXPECT_EQ(error_of(parse_continuity_config(parse_json(R"({"versions": 0})").take_value())), Code::kInvalid);
}

}  // namespace
}  // namespace warren::relay
