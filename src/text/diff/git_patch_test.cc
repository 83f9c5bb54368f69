#include "text/diff/git_patch.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

std::string patch_of(std::optional<PatchSide> before, std::optional<PatchSide> after) {
  return git_patch({.before = std::move(before), .after = std::move(after)});
}

constexpr std::uint32_t kFile = 0100644;
constexpr std::uint32_t kProgram = 0100755;
constexpr std::uint32_t kLink = 0120777;

TEST(GitPatch, AChangedFileHasItsNamesAndAHunk) {
  EXPECT_EQ(patch_of(PatchSide{"/d/x", kFile, "a\n"}, PatchSide{"/d/x", kFile, "b\n"}),
            "diff --git a/d/x b/d/x\n--- a/d/x\n+++ b/d/x\n@@ -1 +1 @@\n-a\n+b\n");
}

TEST(GitPatch, AnUnchangedFileHasNoPatch) {
  EXPECT_EQ(patch_of(PatchSide{"x", kFile, "a\n"}, PatchSide{"x", 0100600, "a\n"}), "") << "git keeps no such mode";
  EXPECT_EQ(patch_of(std::nullopt, std::nullopt), "");
}

TEST(GitPatch, AModeChangeHasNoHunks) {
  EXPECT_EQ(patch_of(PatchSide{"x", kFile, "a\n"}, PatchSide{"x", kProgram, "a\n"}),
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n");
}

TEST(GitPatch, NewAndDeletedFilesAreDiffsAgainstDevNull) {
  EXPECT_EQ(patch_of(std::nullopt, PatchSide{"x", kProgram, "a\n"}),
            "diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n");
  EXPECT_EQ(patch_of(PatchSide{"x", kFile, "a\n"}, std::nullopt),
            "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
  EXPECT_EQ(patch_of(std::nullopt, PatchSide{"x", kFile, ""}), "diff --git a/x b/x\nnew file mode 100644\n");
}

TEST(GitPatch, ARenameHasHunksOnlyIfTheContentChanged) {
  EXPECT_EQ(patch_of(PatchSide{"x", kFile, "a\n"}, PatchSide{"y", kFile, "a\n"}),
            "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n");
  EXPECT_EQ(patch_of(PatchSide{"x", kFile, "a\nb\n"}, PatchSide{"y", kProgram, "a\nc\n"}),
            "diff --git a/x b/y\nold mode 100644\nnew mode 100755\nsimilarity index 50%\nrename from x\nrename to y\n"
            "--- a/x\n+++ b/y\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
}

TEST(GitPatch, BinaryFilesAreIncludedOrOnlyReportedToDiffer) {
  std::string_view zero("\0", 1);
  FilePatch changed{PatchSide{"x", kFile, zero}, PatchSide{"x", kFile, "b\n"}};
  EXPECT_EQ(git_patch(changed, {}, BinaryContent::kMentioned), "diff --git a/x b/x\nBinary files a/x and b/x differ\n");
  EXPECT_EQ(git_patch({std::nullopt, PatchSide{"x", kFile, zero}}, {}, BinaryContent::kMentioned),
            "diff --git a/x b/x\nnew file mode 100644\nBinary files /dev/null and b/x differ\n");
  EXPECT_TRUE(
      git_patch(changed).starts_with("diff --git a/x b/x\nindex f76dd238ade08917e6712764a16a22005a50573d.."
                                     "61780798228d17af2d34fce4cfbdf35556832472 100644\nGIT binary patch\nliteral 2\n"))
      << git_patch(changed);
  EXPECT_EQ(patch_of(PatchSide{"x", kFile, zero}, PatchSide{"x", kProgram, zero}),
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n");
}

TEST(GitPatch, ASymlinkIsAFileThatContainsItsTarget) {
  EXPECT_EQ(patch_of(PatchSide{"l", kLink, "a"}, PatchSide{"l", kLink, "b"}),
            "diff --git a/l b/l\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n"
            "-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n");
}

TEST(GitPatch, AFileThatBecomesASymlinkIsDeletedAndCreated) {
  EXPECT_EQ(patch_of(PatchSide{"x", kFile, ""}, PatchSide{"x", kLink, "t"}),
            "diff --git a/x b/x\ndeleted file mode 100644\n"
            "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n"
            "+t\n\\ No newline at end of file\n");
}

TEST(GitPatch, NamesAreQuotedAsGitDoes) {
  EXPECT_EQ(git_quote("a/", "plain name"), "a/plain name");
  EXPECT_EQ(git_quote("a/", "tab\tquote\"back\\nl\n"), "\"a/tab\\tquote\\\"back\\\\nl\\n\"");
  EXPECT_EQ(git_quote("", "\a\b\v\f\r\x01\x1F\x7F"), "\"\\a\\b\\v\\f\\r\\001\\037\\177\"");
  EXPECT_EQ(git_quote("b/", "\xC3\xA9\xFF"), "\"b/\\303\\251\\377\"");
}

TEST(GitPatch, ATabFollowsANameWithASpace) {
  EXPECT_EQ(patch_of(PatchSide{"a b", kFile, "1\n"}, PatchSide{"a b", kFile, "2\n"}),
            "diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n@@ -1 +1 @@\n-1\n+2\n");
}

TEST(GitPatch, ModesAreReducedToThoseThatGitStores) {
  EXPECT_EQ(git_mode(0100600), 0100644U);
  EXPECT_EQ(git_mode(0104711), 0100755U);
  EXPECT_EQ(git_mode(0100655), 0100644U) << "the owner decides";
  EXPECT_EQ(git_mode(0120777), 0120000U);
}

}  // namespace
}  // namespace warren
