#include "fs/overlay/base_moves.h"

#include <gtest/gtest.h>

#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren {
namespace {

class BaseMovesTest : public ::testing::Test {
 protected:
  void make(std::string_view dir) { ASSERT_OK(make_dir(base_, dir)); }
  // A directory that the agent has copied from one path and moved so that another one corresponds to it.
  MovedCopy moved(const std::string& from, const std::string& to) {
    Attributes seen = find_in_tree(base_, from)->value();
    copied_.insert(from);
    return {from, to, seen};
  }
  std::map<std::string, std::string, std::less<>> find(const std::vector<MovedCopy>& copies) {
    return find_base_moves(base_, copies, copied_).all();
  }
  using Moves = std::map<std::string, std::string, std::less<>>;

  testing::FakeClock clock_;
  MemoryFs base_{clock_, 4096, 1 << 20};
  std::set<std::string, std::less<>> copied_;
};

TEST(BaseMoves, WhatIsBelowAMovedDirectoryMovesWithIt) {
  BaseMoves moves;
  moves.add("/src", "/lib");
  moves.add("/src/core", "/core");
  EXPECT_EQ(moves.find("/src"), "/lib");
  EXPECT_EQ(moves.find("/src/a/b"), "/lib/a/b");
  EXPECT_EQ(moves.find("/src/core/c"), "/core/c");
  EXPECT_EQ(moves.find("/srcs/a"), std::nullopt);
  EXPECT_EQ(moves.find("/"), std::nullopt);
}

TEST(BaseMoves, LaterMovesAreOfThePathsAfterTheEarlierOnes) {
  BaseMoves moves;
  moves.add("/src", "/lib");
  BaseMoves later;
  later.add("/lib/core", "/core");
  later.add("/a", "/b");
  moves.add_later(later);
  EXPECT_EQ(moves.find("/src/core/c"), "/core/c");
  EXPECT_EQ(moves.find("/src/d"), "/lib/d");
  EXPECT_EQ(moves.find("/a"), "/b");
}

TEST_F(BaseMovesTest, ADirectoryThatTheBaseHasRenamedTooHasMoved) {
  make("/src");
  MovedCopy copy = moved("/src", "/lib");
  EXPECT_EQ(find({copy}), Moves{});
  ASSERT_OK(rename(base_, "/src", "/lib"));
  EXPECT_EQ(find({copy}), (Moves{{"/src", "/lib"}}));
}

TEST_F(BaseMovesTest, SoHasOneThatTheBaseMadeAgainUnderTheNewName) {
  make("/src");
  MovedCopy copy = moved("/src", "/lib");
  ASSERT_OK(remove_dir(base_, "/src"));
  EXPECT_EQ(find({copy}), Moves{});
  make("/lib");
  EXPECT_EQ(find({copy}), (Moves{{"/src", "/lib"}}));
  ASSERT_OK(write_file(base_, "/src", as_bytes("a file")));
  EXPECT_EQ(find({copy}), (Moves{{"/src", "/lib"}}));
}

TEST_F(BaseMovesTest, AnotherDirectoryOfThatNameIsNotTheOneThatMoved) {
  make("/src");
  MovedCopy copy = moved("/src", "/lib");
  make("/lib");
  EXPECT_EQ(find({copy}), Moves{});
  ASSERT_OK(remove_dir(base_, "/lib"));
  ASSERT_OK(remove_dir(base_, "/src"));
  ASSERT_OK(write_file(base_, "/lib", as_bytes("a file")));
  EXPECT_EQ(find({copy}), Moves{});
}

TEST_F(BaseMovesTest, NamesThatWereHandedOnAreToldApartByTheDirectoriesThemselves) {
  make("/src");
  make("/lib");
  std::vector<MovedCopy> copies{moved("/lib", "/old"), moved("/src", "/lib")};
  EXPECT_EQ(find(copies), Moves{});
  ASSERT_OK(rename(base_, "/lib", "/old"));
  ASSERT_OK(rename(base_, "/src", "/lib"));
  EXPECT_EQ(find(copies), (Moves{{"/lib", "/old"}, {"/src", "/lib"}}));
}

TEST_F(BaseMovesTest, NoTwoCopiesShowTheSameDirectory) {
  make("/src");
  make("/lib");
  std::vector<MovedCopy> copies{moved("/lib", "/old"), moved("/src", "/lib")};
  ASSERT_OK(remove_dir(base_, "/src"));  // the base's own /lib is the one that the agent shows at /old
  EXPECT_EQ(find(copies), Moves{});
}

TEST_F(BaseMovesTest, LinksAreNotFollowed) {
  make("/a");
  make("/a/b");
  ASSERT_OK(make_symlink(base_, "/a", "/link"));
  EXPECT_TRUE(find_in_tree(base_, "/a/b")->has_value());
  EXPECT_FALSE(find_in_tree(base_, "/link/b")->has_value());
  EXPECT_TRUE((*find_in_tree(base_, "/link"))->is_symlink());
}

}  // namespace
}  // namespace warren
