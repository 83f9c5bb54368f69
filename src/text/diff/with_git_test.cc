// Patches and merges checked with the programs they are made for: git, and patch if it is installed.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/wait.h>

#include <gtest/gtest.h>

#include "testing/temp_dir.h"
#include "text/diff/git_patch.h"
#include "text/diff/merge3.h"
#include "text/diff/random_text_testing.h"

namespace warren {
namespace {

using testing::LineStyle;
using testing::RandomText;
using testing::TempDir;

struct TreeFile {
  std::uint32_t mode = 0100644;
  std::string content;

  bool operator==(const TreeFile&) const = default;
};
using Tree = std::map<std::string, TreeFile>;

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_tree(const std::string& root, const Tree& tree) {
  std::filesystem::create_directories(root);
  for (const auto& [name, file] : tree) {
    std::filesystem::path path = std::filesystem::path(root) / name;
    std::filesystem::create_directories(path.parent_path());
    if (file.mode == 0120000) {
      std::filesystem::create_symlink(file.content, path);
      continue;
    }
    write_file(path, file.content);
    std::filesystem::permissions(path, std::filesystem::perms(file.mode & 0777));
  }
}

Tree read_tree(const std::string& root) {
  Tree tree;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    std::string name = entry.path().lexically_relative(root).string();
    if (entry.is_symlink()) {
      tree[name] = {.mode = 0120000, .content = std::filesystem::read_symlink(entry.path()).string()};
    } else if (entry.is_regular_file()) {
      auto mode = static_cast<std::uint32_t>(entry.status().permissions());
      tree[name] = {.mode = git_mode(0100000 | mode), .content = read_file(entry.path())};
    }
  }
  return tree;
}

// Runs a shell command in `dir`, isolated from the user's configuration and repositories. Its output is in ../said.
int run_in(const std::string& dir, const std::string& command) {
  std::string line = "cd '" + dir + "' && umask 022 && unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE && export HOME='" +
                     dir + "' LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_CEILING_DIRECTORIES='" +
                     std::filesystem::path(dir).parent_path().string() + "' && " + command + " >../said 2>&1";
  int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class WithGit : public ::testing::Test {
 protected:
  // Applies the patch to `before` with the command and returns the resulting tree.
  Tree applied(const Tree& before, const std::string& patch, const std::string& command) {
    TempDir dir;
    write_tree(dir.file("tree"), before);
    write_file(dir.file("the.patch"), patch);
    EXPECT_EQ(run_in(dir.file("tree"), command), 0) << read_file(dir.file("said"));
    return read_tree(dir.file("tree"));
  }

  void expect_patch_leads(const Tree& before, const Tree& after, const std::string& patch) {
    EXPECT_EQ(applied(before, patch, "git apply --whitespace=nowarn ../the.patch"), after) << patch;
  }

  static std::string patch_between(const Tree& before, const Tree& after,
                                   BinaryContent binary = BinaryContent::kIncluded) {
    Tree all = before;
    all.insert(after.begin(), after.end());
    std::string patch;
    for (const auto& [name, unused] : all) {
      patch += git_patch({.before = side(before, name), .after = side(after, name)}, {}, binary);
    }
    return patch;
  }

  static std::optional<PatchSide> side(const Tree& tree, const std::string& name) {
    auto found = tree.find(name);
    if (found == tree.end()) return std::nullopt;
    return PatchSide{.path = name, .mode = found->second.mode, .content = found->second.content};
  }
};

TEST_F(WithGit, GitAppliesEveryKindOfChange) {
  Tree before = {{"changed", {.content = "1\n2\n3\n"}},
                 {"mode", {.content = "x\n"}},
                 {"both", {.content = "x"}},
                 {"gone", {.content = "a\nb"}},
                 {"gone empty", {.content = ""}},
                 {"link", {.mode = 0120000, .content = "old target"}},
                 {"to link", {.content = "text\n"}},
                 {"to file", {.mode = 0120000, .content = "t"}},
                 {"emptied", {.content = "all\n"}}};
  Tree after = {{"changed", {.content = "1\n2\n3"}},
                {"mode", {.mode = 0100755, .content = "x\n"}},
                {"both", {.mode = 0100755, .content = "y\r\nz"}},
                {"d/e/new", {.content = "n"}},
                {"d/new empty", {.content = ""}},
                {"new program", {.mode = 0100755, .content = "#!\n"}},
                {"new link", {.mode = 0120000, .content = "../t"}},
                {"link", {.mode = 0120000, .content = "new target"}},
                {"to link", {.mode = 0120000, .content = "text"}},
                {"to file", {.content = "t\n"}},
                {"emptied", {.content = ""}}};
  expect_patch_leads(before, after, patch_between(before, after));
}

TEST_F(WithGit, GitAppliesRenamesWithTheirChanges) {
  Tree before = {{"a b", {.content = "1\n2\n"}}, {"x\n\"y\xFF", {.content = "p\nq\nr\n"}}, {"l", {0120000, "t"}}};
  Tree after = {{"d/c", {.content = "1\n2\n"}}, {"q\t\\\xC3\xA9", {0100755, "p\nQ\nr"}}, {"m n", {0120000, "t"}}};
  std::string patch = git_patch({.before = side(before, "a b"), .after = side(after, "d/c")}) +
                      git_patch({.before = side(before, "x\n\"y\xFF"), .after = side(after, "q\t\\\xC3\xA9")}) +
                      git_patch({.before = side(before, "l"), .after = side(after, "m n")});
  expect_patch_leads(before, after, patch);
}

TEST_F(WithGit, GitAppliesPatchesWithHostileNames) {
  Tree before;
  Tree after;
  for (const char* name :
       {"new\nline", "quo\"te", "back\\slash", "tab\there", "\xFF\xFE", "caf\xC3\xA9", " lead", "trail ", "a b/c d",
        "-dash", "a/b/a/b", "b/x b/x", "\x7F\x01", "'", "/dev/null", "$HOME", "--- a"}) {
    std::string relative = name[0] == '/' ? name + 1 : name;
    before[relative + ".changed"] = {.content = "1\n"};
    after[relative + ".changed"] = {.content = "2\n"};
    before[relative + "gone"] = {.content = "1\n"};
    after[relative] = {.content = "1\n"};
    after[relative + ".empty"] = {.content = ""};
    before[relative + ".mode"] = {.content = ""};
    after[relative + ".mode"] = {.mode = 0100755, .content = ""};
  }
  expect_patch_leads(before, after, patch_between(before, after));
}

TEST_F(WithGit, GitAppliesBinaryContentAndReversesIt) {
  std::string large(200'000, '\0');
  for (std::size_t i = 0; i < large.size(); i += 7) large[i] = static_cast<char>(i * 31);
  Tree before = {{"binary", {.content = std::string("\0a", 2)}},
                 {"gone", {.content = std::string("\0gone", 5)}},
                 {"grows", {.content = "text\n"}},
                 {"mode", {.content = std::string("\0m", 2)}},
                 {"text", {.content = "1\n"}}};
  Tree after = {{"binary", {.content = std::string("\0b", 2)}},
                {"grows", {.content = large}},
                {"mode", {.mode = 0100755, .content = std::string("\0M", 2)}},
                {"new", {.content = std::string(52, '\0')}},
                {"text", {.content = "2\n"}}};
  std::string patch = patch_between(before, after);
  EXPECT_EQ(applied(before, patch, "git apply ../the.patch"), after);
  EXPECT_EQ(applied(after, patch, "git apply --reverse ../the.patch"), before);
}

TEST_F(WithGit, ABinaryPatchForOtherContentIsRefusedAsAWhole) {
  Tree before = {{"binary", {.content = std::string("\0a", 2)}}, {"text", {.content = "1\n"}}};
  Tree after = {{"binary", {.content = std::string("\0b", 2)}}, {"text", {.content = "2\n"}}};
  std::string patch = patch_between(before, after);
  Tree other = {{"binary", {.content = std::string("\0c", 2)}}, {"text", {.content = "1\n"}}};
  EXPECT_EQ(applied(other, patch, "! git apply ../the.patch"), other);
}

TEST_F(WithGit, ANulAfterTheFirst8000BytesIsText) {
  std::string start(9000, 'x');
  Tree before = {{"f", {.content = start + "\n" + std::string("a\0b\nc\n", 6)}}};
  Tree after = {{"f", {.content = start + "\n" + std::string("a\0B\nc\0", 6)}}};
  expect_patch_leads(before, after, patch_between(before, after));
}

// The whole tree in git's own words.
std::string patch_by_git(const Tree& before, const Tree& after) {
  TempDir dir;
  write_tree(dir.file("tree"), before);
  std::string commit = "git -c user.name=n -c user.email=e commit -q --allow-empty -m m";
  EXPECT_EQ(run_in(dir.file("tree"), "git init -q . && git add -A . && " + commit), 0) << read_file(dir.file("said"));
  for (const auto& [name, file] : before) std::filesystem::remove(dir.file("tree") + "/" + name);
  write_tree(dir.file("tree"), after);
  std::string diff = "git diff --cached --no-renames --diff-algorithm=minimal --no-indent-heuristic --output=../out";
  EXPECT_EQ(run_in(dir.file("tree"), "git add -A . && " + diff), 0);
  return read_file(dir.file("out"));
}

TEST_F(WithGit, HeadersAndHunksEqualThoseOfGit) {
  Tree before = {{"a b", {.content = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"}},
                 {"caf\xC3\xA9 x", {.content = "1\n"}},
                 {"gone", {.content = "1\n2"}},
                 {"link", {.mode = 0120000, .content = "t"}},
                 {"mode", {.content = "x"}},
                 {"n\nl", {.content = std::string("\0b", 2)}}};
  Tree after = {{"a b", {.content = "1\n3\n4\n5\n6\n7\n8\n9\nX"}},
                {"caf\xC3\xA9 x", {.content = "2\n"}},
                {"empty", {.content = ""}},
                {"link", {.content = "f\n"}},
                {"mode", {.mode = 0100755, .content = "y"}},
                {"n\nl", {.content = std::string("\0c", 2)}},
                {"new", {.content = std::string("\0", 1)}}};
  testing::Lines expected;
  for (const std::string& line : testing::lines_of(patch_by_git(before, after))) {
    if (line.starts_with("index ")) continue;
    expected.push_back(line);  // no line starts with a letter, so git finds no function name to put after "@@"
  }
  EXPECT_EQ(patch_between(before, after, BinaryContent::kMentioned), testing::text_of(expected));
}

Tree random_tree(RandomText& random, std::vector<testing::Lines>& sources) {
  Tree tree;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (!random.one_in(8)) tree["file " + std::to_string(i)] = {.content = random.text(sources[i])};
  }
  return tree;
}

struct Pair {
  Tree before;
  Tree after;
};

Pair random_pair(std::uint64_t seed, LineStyle style) {
  RandomText random(seed, style);
  std::vector<testing::Lines> sources(40);
  for (testing::Lines& lines : sources) lines = random.lines(random.below(60));
  Pair pair{.before = random_tree(random, sources)};
  for (testing::Lines& lines : sources) lines = random.edited(lines, random.below(10));
  pair.after = random_tree(random, sources);
  return pair;
}

// patch(1) cannot write binary content.
void drop_binary(Tree& tree) {
  for (auto& [name, file] : tree) std::replace(file.content.begin(), file.content.end(), '\0', '0');
}

TEST_F(WithGit, GitAppliesRandomEditsExactly) {
  for (LineStyle style : {LineStyle::kUnique, LineStyle::kFew, LineStyle::kBytes}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      Pair pair = random_pair(seed, style);
      std::string patch = patch_between(pair.before, pair.after);
      ASSERT_EQ(applied(pair.before, patch, "git apply --whitespace=nowarn ../the.patch"), pair.after) << seed;
    }
  }
}

TEST_F(WithGit, PatchAppliesRandomEditsExactly) {
  ASSERT_EQ(std::system("command -v patch >/dev/null"), 0) << "tools/setup installs patch";
  for (LineStyle style : {LineStyle::kUnique, LineStyle::kFew, LineStyle::kBytes}) {
    for (std::uint64_t seed = 100; seed < 108; ++seed) {
      Pair pair = random_pair(seed, style);
      drop_binary(pair.before);
      drop_binary(pair.after);
      std::string patch = patch_between(pair.before, pair.after);
      ASSERT_EQ(applied(pair.before, patch, "patch -p1 --binary --batch -i ../the.patch"), pair.after) << seed;
    }
  }
}

// The result of `git merge-file`; its exit status is the number of conflicts.
struct GitMerge {
  std::string text;
  int conflicts = 0;
};

GitMerge merge_by_git(const TempDir& dir, std::string_view ancestor, std::string_view ours, std::string_view theirs) {
  std::filesystem::create_directories(dir.file("m"));
  write_file(dir.file("m/ancestor"), ancestor);
  write_file(dir.file("m/ours"), ours);
  write_file(dir.file("m/theirs"), theirs);
  int status = run_in(dir.file("m"), "git merge-file -L ours -L base -L theirs ours ancestor theirs");
  return {.text = read_file(dir.file("m/ours")), .conflicts = status};
}

TEST_F(WithGit, RandomMergesEqualThoseOfGit) {
  TempDir dir;
  int clean = 0;
  int in_conflict = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    RandomText random(seed, LineStyle::kUnique);
    testing::Lines lines = random.lines(10 + random.below(40));
    // Some lines without a word, which join conflicts; all of different lengths, so that the script stays unique.
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (random.one_in(3)) lines[i] = std::string(i + 1, '-') + "\n";
    }
    std::string ancestor = random.text(lines);
    testing::Lines shared = random.edited(lines, random.below(2));
    std::string ours = random.text(random.edited(shared, 1 + random.below(4)));
    std::string theirs = random.text(random.edited(shared, 1 + random.below(4)));
    GitMerge expected = merge_by_git(dir, ancestor, ours, theirs);
    Merged merged = merge3(ancestor, ours, theirs);
    ASSERT_EQ(static_cast<int>(merged.conflicts.size()), expected.conflicts) << "seed " << seed;
    ASSERT_EQ(merged.text, expected.text) << "seed " << seed;
    ++(merged.is_clean() ? clean : in_conflict);
  }
  EXPECT_GT(clean, 40);
  EXPECT_GT(in_conflict, 40);
}

TEST_F(WithGit, ConflictsSeparatedOnlyByLinesWithoutWordsAreJoinedAsInGit) {
  TempDir dir;
  for (const char* gap : {"-\n{\n}\n\n;\n", "-\n{\n}\nword\n;\n", "a\nb\nc\n", "a\nb\nc\nd\n"}) {
    std::string ancestor = std::string("1\n") + gap + "2\n";
    std::string ours = std::string("ours 1\n") + gap + "ours 2\n";
    std::string theirs = std::string("theirs 1\n") + gap + "theirs 2\n";
    GitMerge expected = merge_by_git(dir, ancestor, ours, theirs);
    Merged merged = merge3(ancestor, ours, theirs);
    EXPECT_EQ(merged.text, expected.text);
    EXPECT_EQ(static_cast<int>(merged.conflicts.size()), expected.conflicts) << gap;
  }
}

TEST_F(WithGit, ConflictMarkersHaveTheLineEndsThatGitUses) {
  TempDir dir;
  struct Case {
    std::string ancestor, ours, theirs;
  };
  for (const Case& each : {Case{"1\r\n2\r\n", "1\r\nX\r\n", "1\r\nY\r\n"}, Case{"1\r\n2\r\n", "1\r\nX", "1\r\nY"},
                           Case{"1\n2\r\n", "1\nX\r\n", "1\nY\r\n"}, Case{"a", "X", "Y"}, Case{"a\r\n", "X\r\n", "Y"},
                           Case{"a\n", "X\r\n", "Y\r\n"}, Case{"", "X\n", "Y\n"}, Case{"a\nb", "a\nX", "a\nY\n"}}) {
    EXPECT_EQ(merge3(each.ancestor, each.ours, each.theirs).text,
              merge_by_git(dir, each.ancestor, each.ours, each.theirs).text);
  }
}

}  // namespace
}  // namespace warren
