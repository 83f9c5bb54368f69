#include "changes/review/overview.h"

#include <sys/stat.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace warren {
namespace {

TreeChange overview_change(TreeChangeKind kind, std::string path, std::uint32_t mode, std::uint64_t size = 0) {
  TreeChange change;
  change.kind = kind;
  change.path = path;
  change.base_path = kind == TreeChangeKind::kAdded ? "" : path;
  Attributes node;
  node.mode = mode;
  node.size = size;
  if (kind != TreeChangeKind::kDeleted) change.after = node;
  if (kind != TreeChangeKind::kAdded) change.before = node;
  return change;
}

// A new directory with files in it, and a modified file before and after.
std::vector<TreeChange> changes_with_dir(TreeChangeKind kind, std::size_t files) {
  std::vector<TreeChange> all{overview_change(TreeChangeKind::kModified, "/a", S_IFREG)};
  all.push_back(overview_change(kind, "/dir", S_IFDIR));
  for (std::size_t i = 0; i < files; ++i)
    all.push_back(overview_change(kind, fmt::format("/dir/f{:03}", i), S_IFREG, 100));
  all.push_back(overview_change(TreeChangeKind::kModified, "/z", S_IFREG));
  return all;
}

std::vector<std::string> overview_of(const std::vector<TreeChange>& changes, const OverviewOptions& options = {}) {
  std::vector<std::string> lines;
  for (const OverviewLine& line : make_overview(changes, options)) {
    lines.push_back(line.folded.empty() ? fmt::format("{} {}", line.letter, line.change->path)
                                        : fmt::format("{} {}/ {} {}{}", line.letter, line.folded, line.changes,
                                                      line.bytes, line.is_ignored ? " ignored" : ""));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Overview, ALargeNewOrDeletedDirectoryIsOneLine) {
  EXPECT_EQ(overview_of(changes_with_dir(TreeChangeKind::kAdded, 20)), (Lines{"M /a", "A /dir/ 20 2000", "M /z"}));
  EXPECT_EQ(overview_of(changes_with_dir(TreeChangeKind::kDeleted, 20)), (Lines{"M /a", "D /dir/ 20 2000", "M /z"}));
}

TEST(Overview, ASmallDirectoryIsListed) {
  EXPECT_EQ(overview_of(changes_with_dir(TreeChangeKind::kAdded, kFoldedNodes)).size(), kFoldedNodes + 3);
}

TEST(Overview, WhatMustNotBeOverlookedIsListed) {
  std::vector<TreeChange> changes = changes_with_dir(TreeChangeKind::kAdded, 20);
  OverviewOptions options;
  options.notable.resize(changes.size());
  options.notable[5] = true;
  EXPECT_EQ(overview_of(changes, options), (Lines{"M /a", "A /dir/ 19 1900", "A /dir/f003", "M /z"}));
}

TEST(Overview, AnotherKindOfChangeInsideIsListed) {
  std::vector<TreeChange> changes = changes_with_dir(TreeChangeKind::kAdded, 20);
  changes[5].kind = TreeChangeKind::kRenamed;
  changes[5].before = changes[5].after;
  EXPECT_EQ(overview_of(changes), (Lines{"M /a", "A /dir/ 19 1900", "R /dir/f003", "M /z"}));
}

TEST(Overview, ANamedDirectoryIsOpen) {
  std::vector<TreeChange> changes = changes_with_dir(TreeChangeKind::kAdded, 20);
  EXPECT_EQ(overview_of(changes, {.notable = {}, .named = {"/dir"}, .ignored = {}}).size(), changes.size());
  EXPECT_EQ(overview_of(changes, {.notable = {}, .named = {"/dir/f001"}, .ignored = {}}).size(), changes.size());
  EXPECT_EQ(overview_of(changes, {.notable = {}, .named = {"/dirt"}, .ignored = {}}).size(), 3U);
}

TEST(Overview, WhatGitIgnoresIsOneLineForEachIgnoredDirectory) {
  std::vector<TreeChange> changes{overview_change(TreeChangeKind::kModified, "/build/a/x.o", S_IFREG, 10),
                                  overview_change(TreeChangeKind::kAdded, "/build/y.o", S_IFREG, 5),
                                  overview_change(TreeChangeKind::kAdded, "/one.log", S_IFREG, 5),
                                  overview_change(TreeChangeKind::kModified, "/src", S_IFREG, 5)};
  OverviewOptions options;
  options.ignored = {{"/build/a/x.o", "/build"}, {"/build/y.o", "/build"}, {"/one.log", "/one.log"}};
  EXPECT_EQ(overview_of(changes, options), (Lines{"M /build/ 2 15 ignored", "A /one.log", "M /src"}));
}

TEST(Overview, ANeighbourWithALongerNameIsNotInside) {
  std::vector<TreeChange> changes = changes_with_dir(TreeChangeKind::kAdded, 20);
  changes.insert(changes.begin() + 2, overview_change(TreeChangeKind::kAdded, "/dir-b", S_IFREG));
  EXPECT_EQ(overview_of(changes), (Lines{"M /a", "A /dir/ 20 2000", "A /dir-b", "M /z"}));
}

}  // namespace
}  // namespace warren
