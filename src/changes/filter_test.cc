#include "changes/filter.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

std::vector<std::string> resolved_in(const std::string& here, const std::vector<std::string>& patterns) {
  Result<std::vector<std::string>> all = resolve_patterns(patterns, "/home/u/project", here);
  return all.ok() ? *all : std::vector<std::string>{"error: " + all.error().message()};
}

using Patterns = std::vector<std::string>;

TEST(ChangePatterns, RelativeOnesAreMeantFromTheCurrentDirectoryInTheBase) {
  EXPECT_EQ(resolved_in("/home/u/project/src", {"a", "./b/../c", "..", "../x", "*.cc"}),
            (Patterns{"/src/a", "/src/c", "/", "/x", "/src/*.cc"}));
  EXPECT_EQ(resolved_in("/home/u/project", {"a", "."}), (Patterns{"/a", "/"}));
}

TEST(ChangePatterns, ElsewhereTheyAreMeantFromTheTop) {
  EXPECT_EQ(resolved_in("/home/u", {"a", "/b"}), (Patterns{"a", "/b"}));
  EXPECT_EQ(resolved_in("/home/u/project2", {"a"}), (Patterns{"a"}));
}

TEST(ChangePatterns, AbsoluteOnesAreMeantFromTheTopOrOnTheHost) {
  EXPECT_EQ(resolved_in("/home/u/project/src", {"/a", "/home/u/project/src/x", "/home/u/project"}),
            (Patterns{"/a", "/src/x", "/"}));
}

TEST(ChangePatterns, OutsideOfTheBaseIsAnError) {
  EXPECT_EQ(resolved_in("/home/u/project/src", {"../../x"}),
            (Patterns{"error: '../../x' is outside of the base '/home/u/project'"}));
}

TEST(ChangePatterns, AWayAroundThroughTheDirectoryAboveTheBaseIsFollowed) {
  EXPECT_EQ(resolved_in("/home/u/project", {"../project/a", "../../u/project", "../project2/a"}),
            (Patterns{"error: '../project2/a' is outside of the base '/home/u/project'"}));
  EXPECT_EQ(resolved_in("/home/u/project", {"../project/a", "../../u/project"}), (Patterns{"/a", "/"}));
  EXPECT_EQ(resolved_in("/home/u/project/src", {"../../project/*.cc"}), (Patterns{"/*.cc"}));
}

TEST(ChangePatterns, WhatIsExcludedIsNotSelected) {
  ChangeFilter filter = filter_of({}, {"*.log", "node_modules", "/docs/old"});
  EXPECT_TRUE(filter("/a"));
  EXPECT_FALSE(filter("/a.log"));
  EXPECT_FALSE(filter("/deep/in/a.log"));
  EXPECT_FALSE(filter("/web/node_modules"));
  EXPECT_FALSE(filter("/web/node_modules/x/y"));
  EXPECT_FALSE(filter("/docs/old/x"));
  EXPECT_TRUE(filter("/docs/older"));
  EXPECT_TRUE(filter("/deep/docs/old"));
  EXPECT_FALSE(filter_of({"/src"}, {"*.log"})("/src/a.log"));
  EXPECT_FALSE(filter_of({"/src"}, {"*.log"})("/b"));
}

TEST(ChangePatterns, AnExactNameWinsOverAPattern) {
  std::vector<TreeChange> changes(3);
  changes[0].path = "/[a]";
  changes[1].path = "/d/x*";
  changes[2].kind = TreeChangeKind::kRenamed;
  changes[2].path = "/new";
  changes[2].base_path = "/o\\ld";
  EXPECT_TRUE(check_patterns({"[a]", "/d/x*", "o\\ld"}, changes).ok());
  ChangeFilter filter = filter_of(with_exact_names({"[a]", "/d/x*", "o\\ld"}, changes));
  for (const char* path : {"/[a]", "/[a]/below", "/d/x*", "/o\\ld"}) EXPECT_TRUE(filter(path)) << path;
  for (const char* path : {"/a", "/d/xy", "/old", "/[a]b"}) EXPECT_FALSE(filter(path)) << path;
  EXPECT_TRUE(filter_of(with_exact_names({"/d/*"}, changes))("/d/xy"));  // no change has that name
}

}  // namespace
}  // namespace warren
