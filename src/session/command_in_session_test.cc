#include "session/command_in_session.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

using CommandWords = std::vector<std::string>;

TEST(WordsInside, FishGetsItsPromptBeforeItsOtherWords) {
  CommandInSession command{.session = "t", .marks_prompt = true};
  for (const CommandWords& given :
       {CommandWords{"fish"}, {"/usr/bin/fish", "-N"}, {"fish", "--"}, {"fish", "-N", "--"}}) {
    CommandWords inside = words_inside(command, given);
    ASSERT_EQ(inside.size(), given.size() + 2) << testing::PrintToString(inside);
    EXPECT_EQ(inside[1], "--init-command");
    EXPECT_NE(inside[2].find("(t) "), std::string::npos);
    inside.erase(inside.begin() + 1, inside.begin() + 3);
    EXPECT_EQ(inside, given);
  }
}

TEST(WordsInside, OtherCommandsStayAsTheyAre) {
  EXPECT_EQ(words_inside({.session = "t", .marks_prompt = true}, {"zsh", "--"}), (CommandWords{"zsh", "--"}));
  EXPECT_EQ(words_inside({.session = "t"}, {"fish", "--", "script"}), (CommandWords{"fish", "--", "script"}));
}

}  // namespace
}  // namespace warren
