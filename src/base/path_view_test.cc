#include "base/path_view.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

using Others = PathView::Others;

TEST(PathView, TheDeepestRuleDecides) {
  PathView view(Others::kHidden);
  view.show("tools");
  view.show("config/git");
  view.hide("tools/secret");
  EXPECT_TRUE(view.shows("tools/a/b"));
  EXPECT_FALSE(view.shows("tools/secret/a"));
  EXPECT_TRUE(view.shows("config"));
  EXPECT_TRUE(view.shows("config/git/x"));
  EXPECT_FALSE(view.shows("config/other"));
  EXPECT_FALSE(view.shows("other"));
}

TEST(PathView, WhatIsShownInAHiddenDirectoryIsAllThatItShows) {
  PathView view(Others::kShown);
  view.hide("keys");
  view.show("keys/public");
  EXPECT_TRUE(view.shows("keys"));
  EXPECT_TRUE(view.shows("keys/public"));
  EXPECT_FALSE(view.shows("keys/private"));
}

TEST(PathView, HidingSomethingHiddenShowsNothingOnTheWay) {
  PathView view(Others::kHidden);
  view.hide("a/b");
  EXPECT_FALSE(view.shows("a"));
}

TEST(PathView, AMountPointIsEmpty) {
  PathView view(Others::kHidden);
  view.show_empty("work/project");
  EXPECT_TRUE(view.shows("work/project"));
  EXPECT_FALSE(view.shows("work/project/file"));
  EXPECT_FALSE(view.shows("work/other"));
}

TEST(PathView, SecretNamesAreHiddenUnlessARuleNamesThem) {
  PathView view(Others::kShown);
  view.show("shown/.env");
  view.hide_names([](std::string_view name) { return name == ".env"; }, {".env"});
  EXPECT_FALSE(view.shows(".env"));
  EXPECT_FALSE(view.shows("a/b/.env"));
  EXPECT_TRUE(view.shows("shown/.env"));
}

TEST(PathView, OnlyDirectoriesWithHiddenNamesAreFrozen) {
  PathView view(Others::kShown);
  view.hide("keys");
  view.hide("a/secret");
  view.show("b/c");
  std::vector<std::string> asked;
  view.freeze([&](const std::string& path) {
    asked.push_back(path);
    return std::optional(std::set<std::string, std::less<>>{"old", "a", "b"});
  });
  EXPECT_EQ(asked, (std::vector<std::string>{"", "a"}));
  EXPECT_TRUE(view.shows("old"));
  EXPECT_FALSE(view.shows("new"));
  EXPECT_FALSE(view.shows("a/new"));
  EXPECT_TRUE(view.shows("b/new"));
}

TEST(PathView, ARefusedNameIsHiddenAndKnownAsSuch) {
  PathView view(Others::kHidden);
  view.refuse("agents");
  EXPECT_FALSE(view.shows("agents"));
  EXPECT_TRUE(PathView::refuses(view.root(), "agents"));
  EXPECT_FALSE(PathView::refuses(view.root(), "other"));
}

}  // namespace
}  // namespace warren
