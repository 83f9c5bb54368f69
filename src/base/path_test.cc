#include "base/path.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

TEST(Path, ExtraSlashesAndDotsDisappear) {
  EXPECT_EQ(*normalise_path("//a/./b//"), "/a/b");
  EXPECT_EQ(*normalise_path("a/b"), "/a/b");
  EXPECT_EQ(*normalise_path("/"), "/");
  EXPECT_EQ(*normalise_path("/a/../b"), "/a/../b");
}

TEST(Path, HostilePathsAreRefused) {
  EXPECT_EQ(error_of(split_path("")), Code::kNotFound);
  EXPECT_EQ(error_of(split_path(std::string_view("a\0b", 3))), Code::kInvalid);
  EXPECT_EQ(error_of(split_path("/" + std::string(256, 'x'))), Code::kNameTooLong);
  EXPECT_EQ(error_of(split_path(std::string(4097, '/'))), Code::kNameTooLong);
  EXPECT_OK(split_path("/" + std::string(255, 'x')));
}

TEST(Path, NamesAreBytes) {
  EXPECT_OK(check_name("\xff\xfe\n"));
  EXPECT_EQ(error_of(check_name("a/b")), Code::kInvalid);
  EXPECT_EQ(error_of(check_name("..")), Code::kInvalid);
}

TEST(Path, QuoteShowsWhatATerminalMustNotSee) {
  EXPECT_EQ(quote("a\n\x1b\xff"), "'a\\x0a\\x1b\\xff'");
  EXPECT_EQ(quote("grün"), "'grün'");
  EXPECT_EQ(quote("\xed\xa0\x80"), "'\\xed\\xa0\\x80'");
}

TEST(Path, ParentAndNameSplitAndJoin) {
  EXPECT_EQ(split_parent("/a/b").parent, "/a");
  EXPECT_EQ(split_parent("/a").parent, "/");
  EXPECT_EQ(split_parent("/a").name, "a");
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(join_path("/a", "b"), "/a/b");
}

TEST(Path, ANormalPathMayBeLongerThanOneThatACallerGives) {
  EXPECT_TRUE(is_normal_path("/"));
  EXPECT_TRUE(is_normal_path("/a/...b/\n"));
  for (std::string_view path : {"", "a", "//", "/a/", "/a//b", "/.", "/a/./b", "/..", "/a/..", "/a/../b"}) {
    EXPECT_FALSE(is_normal_path(path)) << path;
  }
  EXPECT_FALSE(is_normal_path(std::string_view("/a\0b", 4)));
  std::string deep;
  while (deep.size() < 2 * limits::kPathBytes) deep += "/" + std::string(limits::kNameBytes, 'd');
  EXPECT_TRUE(is_normal_path(deep));
  EXPECT_FALSE(is_normal_path(deep + "d"));
  std::string names;
  for (int i = 0; i < limits::kTreeDepth; ++i) names += "/d";
  EXPECT_TRUE(is_normal_path(names));
  EXPECT_FALSE(is_normal_path(names + "/d"));
}

TEST(Path, AHostPathHasADirectoryAndABaseName) {
  EXPECT_EQ(directory_of("/a/b"), "/a");
  EXPECT_EQ(directory_of("a/b"), "a");
  EXPECT_EQ(directory_of("/a"), "/");
  EXPECT_EQ(directory_of("a"), ".");
  EXPECT_EQ(base_name("/a/b"), "b");
  EXPECT_EQ(base_name("b"), "b");
  EXPECT_EQ(base_name("/"), "");
}

}  // namespace
}  // namespace warren
