#include "session/session_walls.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

class SessionWallsTest : public ::testing::Test {
 protected:
  std::string make_file(const std::string& name) {
    std::string path = dir_ + "/" + name;
    std::ofstream(path) << "x";
    return path;
  }
  RunOptions with_network(const std::string& word) {
    RunOptions options;
    options.network = parse_network(std::vector<std::string>{word}).value();
    options.has_asked_for_network = true;
    return options;
  }

  testing::TempDir temp_;
  std::string dir_ = std::filesystem::canonical(temp_.path()).string();
};

TEST_F(SessionWallsTest, AreTheSameAfterTheyWereStored) {
  SessionWalls walls{.net = std::vector<std::string>{"github", "a.example"},
                     .hide = {"/a b", "/c\xff\n"},
                     .shows_only_tools = true,
                     .has_default_allows = false};
  EXPECT_EQ(load_walls(dir_).value(), SessionWalls{});
  ASSERT_OK(store_walls(dir_, walls));
  EXPECT_EQ(load_walls(dir_).value(), walls);
  std::ofstream(dir_ + "/walls") << "something else";
  EXPECT_EQ(testing::error_of(load_walls(dir_)), Code::kCorrupt);
}

TEST_F(SessionWallsTest, ARunHasTheNetworkOfTheLastOneThatSaidSo) {
  RunOptions first = with_network("none");
  TakenWalls kept = take_walls({}, first).value();
  EXPECT_TRUE(kept.taken.empty());
  RunOptions second;
  kept = take_walls(kept.walls, second).value();
  EXPECT_EQ(second.network.access, NetworkAccess::kNone);
  EXPECT_EQ(kept.taken, std::vector<std::string>{"network none (--net all lifts it)"});
  RunOptions third = with_network("all");
  kept = take_walls(kept.walls, third).value();
  EXPECT_EQ(third.network.access, NetworkAccess::kAll);
  EXPECT_EQ(kept.walls, SessionWalls{});
}

TEST_F(SessionWallsTest, HiddenPathsStayHiddenUntilTheyAreNamedByRead) {
  std::string secret = make_file("secret");
  RunOptions first;
  first.hide = {secret};
  TakenWalls kept = take_walls({}, first).value();
  RunOptions second;
  kept = take_walls(kept.walls, second).value();
  EXPECT_EQ(second.hide, std::vector<std::string>{secret});
  RunOptions again;
  again.hide = {secret};
  kept = take_walls(kept.walls, again).value();
  EXPECT_EQ(again.hide, std::vector<std::string>{secret});
  RunOptions opening;
  opening.read = {secret};
  kept = take_walls(kept.walls, opening).value();
  EXPECT_TRUE(opening.hide.empty());
  EXPECT_TRUE(kept.walls.hide.empty());
}

TEST_F(SessionWallsTest, AHiddenPathThatIsGoneIsKeptAndNamed) {
  std::string secret = make_file("secret");
  std::filesystem::remove(secret);
  RunOptions options;
  TakenWalls kept = take_walls({.hide = {secret}}, options).value();
  EXPECT_TRUE(options.hide.empty());
  EXPECT_EQ(kept.missing, std::vector<std::string>{secret});
  EXPECT_EQ(kept.walls.hide, std::vector<std::string>{secret});
}

TEST_F(SessionWallsTest, AllowingAHiddenPathHoldsForOneRun) {
  std::string secret = make_file("secret");
  RunOptions allowing;
  allowing.allow = {secret};
  TakenWalls kept = take_walls({.hide = {secret}}, allowing).value();
  EXPECT_TRUE(allowing.hide.empty());
  EXPECT_EQ(kept.walls.hide, std::vector<std::string>{secret});
}

TEST_F(SessionWallsTest, ANetworkThatIsKeptDoesNotWidenWhatTheUserPrefers) {
  auto network_of = [](std::vector<std::string> kept, std::vector<std::string> preferred) {
    RunOptions options;
    options.network = parse_network(preferred).value();
    TakenWalls taken = take_walls({.net = std::move(kept)}, options).value();
    return std::pair(options.network.words, taken.taken.size());
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(network_of({"github"}, {"none"}), std::pair(Words{"none"}, std::size_t{0}));
  EXPECT_EQ(network_of({"github", "npm"}, {"npm"}), std::pair(Words{"npm"}, std::size_t{0}));
  EXPECT_EQ(network_of({"npm"}, {"github", "npm"}), std::pair(Words{"npm"}, std::size_t{1}));
  EXPECT_EQ(network_of({"none"}, {"npm"}), std::pair(Words{"none"}, std::size_t{1}));
  EXPECT_EQ(network_of({"npm"}, {"all"}), std::pair(Words{"npm"}, std::size_t{1}));
}

TEST_F(SessionWallsTest, SignInsAndTheHomeStayAsTheyWereRestricted) {
  RunOptions first;
  first.default_allows = DefaultAllows::kNone;
  first.home_view = HomeView::kTools;
  first.has_asked_for_view = true;
  TakenWalls kept = take_walls({}, first).value();
  RunOptions second;
  second.home_view = HomeView::kAll;  // by preference
  kept = take_walls(kept.walls, second).value();
  EXPECT_EQ(second.default_allows, DefaultAllows::kNone);
  EXPECT_EQ(second.home_view, HomeView::kTools);
  RunOptions third;
  third.home_view = HomeView::kAll;
  third.has_asked_for_view = true;
  third.has_asked_for_default_allows = true;
  kept = take_walls(kept.walls, third).value();
  EXPECT_EQ(third.default_allows, DefaultAllows::kSignIns);
  EXPECT_EQ(third.home_view, HomeView::kAll);
  EXPECT_EQ(kept.walls, SessionWalls{});
}

TEST_F(SessionWallsTest, OfTwoSessionsTheNarrowerCounts) {
  SessionWalls first{.net = std::vector<std::string>{"github", "npm"}, .hide = {"/a"}};
  SessionWalls second{.net = std::vector<std::string>{"npm"}, .hide = {"/a", "/b"}, .has_default_allows = false};
  SessionWalls both = join_walls(first, second);
  EXPECT_EQ(both.net, std::vector<std::string>{"npm"});
  EXPECT_EQ(both.hide, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_FALSE(both.has_default_allows);
  EXPECT_EQ(join_walls(first, {.net = std::vector<std::string>{"none"}}).net, std::vector<std::string>{"none"});
  EXPECT_EQ(join_walls({}, second).net, second.net);
}

}  // namespace
}  // namespace warren
