#include "cli/syntax/args.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::cli {
namespace {

Result<Exit> do_nothing(Context&, const Arguments&) { return Exit::kOk; }

std::optional<std::string> one_variable(std::string_view name) {
  if (name == "THE_KEY") return "from the environment";
  return std::nullopt;
}

// Whether there is an agent "twig", in the directory that was given.
bool is_named_twig(const Arguments& before, std::string_view word) {
  return word == "twig" && before.find("directory") == "forest";
}

Command table() {
  Command leaf{
      .name = "leaf",
      .summary = "",
      .details = "",
      .positionals = {{.name = "PATH", .help = "", .times = Times::kOnceOrMore}},
      .options =
          {{.name = "flag", .letter = 'f', .help = ""},
           {.name = "limit", .letter = 'n', .value = "N", .help = "", .kind = ValueKind::kInteger, .fallback = "7"},
           {.name = "key", .value = "KEY", .help = "", .environment = "THE_KEY"},
           {.name = "type", .value = "T", .help = "", .choices = {"file", "dir"}}},
      .subcommands = {},
      .handler = do_nothing};
  Command twig = leaf;
  twig.name = "twig";
  Command group{.name = "group",
                .summary = "",
                .details = "",
                .positionals = {{.name = "ID", .help = ""}},
                .options = {},
                .subcommands = {leaf},
                .handler = nullptr};
  Command maybe{.name = "maybe",
                .summary = "",
                .details = "",
                .positionals = {{.name = "ID", .help = "", .times = Times::kOptional, .is_known = is_named_twig}},
                .options = {},
                .subcommands = {leaf, twig},
                .handler = nullptr};
  return {.name = "program",
          .summary = "",
          .details = "",
          .positionals = {},
          .options = {{.name = "directory", .letter = 'C', .value = "DIR", .help = ""}},
          .subcommands = {group, maybe},
          .handler = nullptr};
}

class ArgsTest : public ::testing::Test {
 protected:
  Arguments parsed(const std::vector<std::string>& words) {
    outcome_ = parse(root_, words, one_variable);
    if (const auto* good = std::get_if<Parsed>(&outcome_)) return good->arguments;
    ADD_FAILURE() << "a usage error about '" << std::get<UsageError>(outcome_).subject << "'";
    return {};
  }
  UsageError mistake(const std::vector<std::string>& words) {
    outcome_ = parse(root_, words, one_variable);
    if (const auto* bad = std::get_if<UsageError>(&outcome_)) return *bad;
    ADD_FAILURE() << "no usage error";
    return {
        .mistake = Mistake::kUnexpected, .subject = "", .suggestion = "", .reason = "", .positionals = {}, .path = {}};
  }

  Command root_ = table();
  std::variant<Parsed, UsageError> outcome_;
};

TEST_F(ArgsTest, APositionalComesBeforeTheSubcommand) {
  Arguments args = parsed({"group", "me", "leaf", "a", "b"});
  EXPECT_EQ(args.get("ID"), "me");
  EXPECT_EQ(args.all("PATH"), (std::vector<std::string>{"a", "b"}));
}

TEST_F(ArgsTest, AnAgentMayHaveTheNameOfACommand) {
  EXPECT_EQ(parsed({"group", "leaf", "leaf", "a"}).get("ID"), "leaf");
}

TEST_F(ArgsTest, AValueIsAttachedOrFollows) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--limit", "5"}, {"--limit=5"}, {"-n", "5"}, {"-n5"}, {"-n=5"}, {"-fn5"}}) {
    std::vector<std::string> line{"group", "me", "leaf", "x"};
    line.insert(line.end(), words.begin(), words.end());
    EXPECT_EQ(parsed(line).integer("limit"), 5) << words[0];
  }
  EXPECT_EQ(parsed({"group", "me", "leaf", "x", "--limit=-5"}).integer("limit"), -5);
}

TEST_F(ArgsTest, DefaultsComeFromTheEnvironmentOrTheTable) {
  Arguments args = parsed({"group", "me", "leaf", "x"});
  EXPECT_EQ(args.get("key"), "from the environment");
  EXPECT_EQ(args.integer("limit"), 7);
  EXPECT_FALSE(args.has("flag"));
  EXPECT_EQ(parsed({"group", "me", "leaf", "x", "--key", "given"}).get("key"), "given");
}

TEST_F(ArgsTest, TwoDashesEndTheOptionsAndASingleDashIsAnArgument) {
  EXPECT_EQ(parsed({"group", "me", "leaf", "--", "-f", "--limit"}).all("PATH"),
            (std::vector<std::string>{"-f", "--limit"}));
  EXPECT_EQ(parsed({"group", "me", "leaf", "-"}).all("PATH"), std::vector<std::string>{"-"});
}

TEST_F(ArgsTest, OptionsOfTheProgramAreAcceptedEverywhere) {
  EXPECT_EQ(parsed({"-C", "d", "group", "me", "leaf", "x"}).get("directory"), "d");
  EXPECT_EQ(parsed({"group", "me", "leaf", "x", "-Cd"}).get("directory"), "d");
}

TEST_F(ArgsTest, HelpIsGivenWhateverElseIsWrong) {
  outcome_ = parse(root_, std::vector<std::string>{"group", "--help", "--nonsense"}, one_variable);
  ASSERT_TRUE(std::holds_alternative<Parsed>(outcome_));
  EXPECT_TRUE(std::get<Parsed>(outcome_).wants_help);
  EXPECT_EQ(std::get<Parsed>(outcome_).path.back()->name, "group");
}

TEST_F(ArgsTest, EachKindOfMistakeIsRecognised) {
  using Line = std::vector<std::string>;
  const std::vector<std::pair<Line, Mistake>> cases{
      {{}, Mistake::kMissingCommand},
      {{"grup"}, Mistake::kUnknownCommand},
      {{"group"}, Mistake::kMissingArgument},
      {{"group", "me"}, Mistake::kMissingCommand},
      {{"group", "me", "leaf"}, Mistake::kMissingArgument},
      {{"group", "me", "leaf", "x", "--flagg"}, Mistake::kUnknownOption},
      {{"group", "me", "leaf", "x", "-z"}, Mistake::kUnknownOption},
      {{"group", "me", "leaf", "x", "--limit"}, Mistake::kMissingValue},
      {{"group", "me", "leaf", "x", "--limit", "--flag"}, Mistake::kMissingValue},
      {{"group", "me", "leaf", "x", "--limit", "ten"}, Mistake::kBadValue},
      {{"group", "me", "leaf", "x", "--type", "fil"}, Mistake::kBadValue},
      {{"group", "me", "leaf", "x", "--flag=1"}, Mistake::kUnwantedValue},
      {{"group", "me", "leaf", "x", "-f", "--flag"}, Mistake::kRepeated},
  };
  for (const auto& [line, expected] : cases) {
    EXPECT_EQ(mistake(line).mistake, expected) << (line.empty() ? "" : line.back());
  }
}

TEST_F(ArgsTest, AMisspellingIsRecognised) {
  EXPECT_EQ(mistake({"gruop"}).suggestion, "group");
  EXPECT_EQ(mistake({"group", "me", "leaf", "x", "--lmit", "5"}).suggestion, "--limit");
  EXPECT_EQ(mistake({"group", "me", "leaf", "x", "--type", "fil"}).suggestion, "file");
  EXPECT_EQ(mistake({"something"}).suggestion, "");
  EXPECT_EQ(mistake({std::string(100000, 'x')}).suggestion, "");
}

TEST_F(ArgsTest, AnOptionalIdIsLeftOutIfACommandIsInItsPlace) {
  Arguments without = parsed({"maybe", "leaf", "a"});
  EXPECT_FALSE(without.has("ID"));
  EXPECT_EQ(without.all("PATH"), std::vector<std::string>{"a"});
  EXPECT_EQ(parsed({"maybe", "notes", "leaf", "a"}).get("ID"), "notes");
  EXPECT_EQ(parsed({"maybe", "twig", "leaf", "a"}).get("PATH"), "a") << "two paths of twig";
}

TEST_F(ArgsTest, AKnownIdComesBeforeACommandOfThatName) {
  Arguments args = parsed({"-C", "forest", "maybe", "twig", "leaf", "a"});
  EXPECT_EQ(args.get("ID"), "twig");
  EXPECT_EQ(args.all("PATH"), std::vector<std::string>{"a"});
}

TEST_F(ArgsTest, AMistakeAfterAVerbWithoutAnIdNamesTheVerb) {
  EXPECT_EQ(mistake({"-C", "forest", "group", "leaf", "/notes"}).verb_at, 3U);
  EXPECT_EQ(mistake({"group", "leaf", "-f"}).verb_at, 1U);
  EXPECT_EQ(mistake({"group", "leaf"}).verb_at, 1U);
  EXPECT_EQ(mistake({"group", "notes", "laef"}).verb_at, std::nullopt);
  EXPECT_EQ(mistake({"group", "leaf", "leaf"}).verb_at, std::nullopt) << "the agent 'leaf'; a path is missing";
}

}  // namespace
}  // namespace warren::cli
