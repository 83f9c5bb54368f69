#include "changes/selection.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

Attributes of_mode(std::uint32_t mode) {
  Attributes node;
  node.mode = mode;
  return node;
}

TreeChange change(TreeChangeKind kind, std::string path, std::string base_path, std::uint32_t type = S_IFREG) {
  TreeChange made;
  made.kind = kind;
  made.path = std::move(path);
  made.base_path = std::move(base_path);
  made.place = made.path;
  if (kind != TreeChangeKind::kAdded) made.before = of_mode(type);
  if (kind != TreeChangeKind::kDeleted) made.after = of_mode(type);
  return made;
}

std::vector<std::string> paths_of(const Selection& chosen) {
  std::vector<std::string> paths;
  for (const TreeChange& each : chosen.list()) paths.push_back(std::string(1, each.letter()) + each.path);
  return paths;
}

using Paths = std::vector<std::string>;
ChangeFilter only(std::string path) {
  return [path = std::move(path)](std::string_view each) { return each == path; };
}

TEST(Selection, ApplyTakesTheNewDirectoriesAboveAndNotTheirOtherContent) {
  std::vector<TreeChange> all{change(TreeChangeKind::kAdded, "/d", "", S_IFDIR),
                              change(TreeChangeKind::kAdded, "/d/a", ""), change(TreeChangeKind::kAdded, "/d/b", "")};
  Selection chosen(all);
  chosen.take_if(only("/d/b"));
  chosen.complete_for_apply();
  EXPECT_EQ(paths_of(chosen), (Paths{"A/d", "A/d/b"}));
}

TEST(Selection, WhatWasLeftTakesNothingWithIt) {
  std::vector<TreeChange> all{change(TreeChangeKind::kAdded, "/d", "", S_IFDIR),
                              change(TreeChangeKind::kAdded, "/d/a", ""), change(TreeChangeKind::kAdded, "/e", "")};
  Selection chosen(all);
  chosen.take_if({});
  chosen.leave(0);
  chosen.leave(1);
  chosen.complete_for_apply();
  EXPECT_EQ(paths_of(chosen), (Paths{"A/e"}));
  chosen.take(1);
  chosen.complete_for_apply();
  EXPECT_EQ(paths_of(chosen), (Paths{"A/d", "A/d/a", "A/e"}));
}

TEST(Selection, ApplyTakesWhatIsBelowADeletedDirectory) {
  std::vector<TreeChange> all{change(TreeChangeKind::kDeleted, "/d", "/d", S_IFDIR),
                              change(TreeChangeKind::kDeleted, "/d/a", "/d/a"),
                              change(TreeChangeKind::kDeleted, "/d0", "/d0")};
  Selection chosen(all);
  chosen.take_if(only("/d"));
  chosen.complete_for_apply();
  EXPECT_EQ(paths_of(chosen), (Paths{"D/d", "D/d/a"}));
}

TEST(Selection, ApplyIncludesTheChainOfRenamesThatIsInTheWay) {
  std::vector<TreeChange> all{change(TreeChangeKind::kRenamed, "/b", "/a"),
                              change(TreeChangeKind::kRenamed, "/c", "/b"),
                              change(TreeChangeKind::kRenamed, "/z", "/y")};
  Selection first(all);
  first.take_if(only("/c"));
  first.complete_for_apply();
  EXPECT_EQ(paths_of(first), (Paths{"R/c"}));
  Selection second(all);
  second.take_if(only("/a"));
  second.complete_for_apply();
  EXPECT_EQ(paths_of(second), (Paths{"R/b", "R/c"}));
}

TEST(Selection, DiscardTakesTheNodeAtTheOldName) {
  std::vector<TreeChange> all{change(TreeChangeKind::kAdded, "/a", ""), change(TreeChangeKind::kRenamed, "/b", "/a")};
  Selection chosen(all);
  chosen.take_if(only("/b"));
  chosen.complete_for_discard();
  EXPECT_EQ(paths_of(chosen), (Paths{"A/a", "R/b"}));
}

TEST(Selection, DiscardTakesTheFileThatCoversADeletedDirectory) {
  std::vector<TreeChange> all{change(TreeChangeKind::kDeleted, "/p", "/p", S_IFDIR),
                              change(TreeChangeKind::kAdded, "/p", ""),
                              change(TreeChangeKind::kDeleted, "/p/x", "/p/x")};
  Selection chosen(all);
  chosen.take_if(only("/p/x"));
  chosen.complete_for_discard();
  EXPECT_EQ(paths_of(chosen), (Paths{"D/p", "A/p", "D/p/x"}));
}

}  // namespace
}  // namespace warren
