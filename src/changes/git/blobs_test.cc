#include "changes/git/blobs.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

class BlobsTest : public ::testing::Test {
 protected:
  BlobsTest() : git_(std::filesystem::canonical(dir_.path())) { EXPECT_OK(git_.ask({"init", "-q", "."})); }

  std::string put(std::string_view content) { return git_.ask_with({"hash-object", "-w", "--stdin"}, content).value(); }

  // Each set's texts, joined; "-" for one that is missing.
  std::vector<std::string> read(const std::vector<std::vector<std::string>>& sets, std::uint64_t bytes_max = 100) {
    std::vector<std::string> found;
    EXPECT_OK(visit_blobs(git_, sets, bytes_max, [&](std::size_t set, const BlobTexts& texts) -> Status {
      EXPECT_EQ(set, found.size());
      std::string all;
      for (const std::optional<std::string_view>& text : texts) all += std::string(text.value_or("-")) + "|";
      found.push_back(all);
      return Ok{};
    }));
    return found;
  }

  testing::TempDir dir_;
  Git git_;
};

TEST_F(BlobsTest, EachSetGetsItsTextsInItsOrder) {
  std::string one = put("one\n");
  std::string two = put("blob 3\nx");
  std::string none = put("");
  EXPECT_EQ(read({{two, one}, {}, {none, two, two}}),
            (std::vector<std::string>{"blob 3\nx|one\n|", "", "|blob 3\nx|blob 3\nx|"}));
  EXPECT_EQ(read({}), std::vector<std::string>{});
}

TEST_F(BlobsTest, WhatIsMissingTooLargeOrNoBlobHasNoText) {
  std::string tree = git_.ask({"write-tree"}).value();
  std::string large = put(std::string(101, 'x'));
  EXPECT_EQ(read({{"", std::string(40, '0'), tree, large, "HEAD", "a b"}}), std::vector<std::string>{"-|-|-|-|-|-|"});
}

TEST_F(BlobsTest, MoreThanIsReadAtOnceIsReadInParts) {
  constexpr std::size_t kBytes = std::size_t{9} << 20;
  std::vector<std::vector<std::string>> sets;
  std::vector<std::string> expected;
  for (char c : {'a', 'b', 'c'}) {
    sets.push_back({put(std::string(kBytes, c))});
    expected.push_back(std::string(kBytes, c) + "|");
  }
  EXPECT_EQ(read(sets, kBytes), expected);
}

}  // namespace
}  // namespace warren
