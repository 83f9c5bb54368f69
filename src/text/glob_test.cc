#include "text/glob.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/glob_check.h"

namespace warren {
namespace {

TEST(Glob, APlainPathMatchesItselfAndEverythingBelow) {
  for (const char* pattern : {"src/a", "/src/a", "src/a/", "./src//a", "src/./a/."}) {
    EXPECT_TRUE(Glob(pattern).is_plain());
    EXPECT_TRUE(glob_match(pattern, "/src/a")) << pattern;
    EXPECT_TRUE(glob_match(pattern, "src/a/b/c")) << pattern;
    EXPECT_FALSE(glob_match(pattern, "/src/ab")) << pattern;
    EXPECT_FALSE(glob_match(pattern, "/src")) << pattern;
    EXPECT_FALSE(glob_match(pattern, "/x/src/a")) << pattern;
  }
}

TEST(Glob, TheRootMatchesEverything) {
  for (const char* pattern : {"", "/", ".", "./"}) EXPECT_TRUE(glob_match(pattern, "/a/b")) << pattern;
}

TEST(Glob, AStarStaysWithinAName) {
  EXPECT_TRUE(glob_match("src/*.cc", "/src/a.cc"));
  EXPECT_TRUE(glob_match("src/*.cc", "/src/.cc"));
  EXPECT_FALSE(glob_match("src/*.cc", "/src/b/a.cc"));
  EXPECT_FALSE(glob_match("*.cc", "/src/a.cc"));
  EXPECT_FALSE(glob_match("src/*", "/src/a/b"));
  EXPECT_FALSE(glob_match("src/*", "/src"));
  EXPECT_TRUE(glob_match("*/*/c", "/a/b/c"));
}

TEST(Glob, TwoStarsCrossDirectories) {
  EXPECT_TRUE(glob_match("**/*.cc", "/a.cc"));
  EXPECT_TRUE(glob_match("**/*.cc", "/x/y/a.cc"));
  EXPECT_TRUE(glob_match("a/**/b", "/a/b"));
  EXPECT_TRUE(glob_match("a/**/b", "/a/x/y/b"));
  EXPECT_FALSE(glob_match("a/**/b", "/a/xb")) << "whole directories only";
  EXPECT_FALSE(glob_match("**/b", "/ab"));
  EXPECT_TRUE(glob_match("a/**", "/a/x/y"));
  EXPECT_FALSE(glob_match("a/**", "/a"));
  EXPECT_TRUE(glob_match("**", "/a/b"));
  EXPECT_TRUE(glob_match("a**z", "/a/b/z"));
  EXPECT_TRUE(glob_match("a**/z", "/ab/c/z"));
  EXPECT_TRUE(glob_match("**/**/z", "/z"));
  EXPECT_TRUE(glob_match("**/**/z", "/q/z"));
  EXPECT_TRUE(glob_match("**/x/**/z", "/x/y/x/q/z"));
}

TEST(Glob, AQuestionMarkIsOneByteOfAName) {
  EXPECT_TRUE(glob_match("a?c", "/abc"));
  EXPECT_FALSE(glob_match("a?c", "/a/c"));
  EXPECT_FALSE(glob_match("a?c", "/ac"));
  EXPECT_TRUE(glob_match("?", "\xFF"));
}

TEST(Glob, AClassIsOneOfItsBytes) {
  EXPECT_TRUE(glob_match("[a-c]x", "bx"));
  EXPECT_FALSE(glob_match("[a-c]x", "dx"));
  EXPECT_TRUE(glob_match("[!a-c]x", "dx"));
  EXPECT_FALSE(glob_match("[!a-c]x", "ax"));
  EXPECT_TRUE(glob_match("[^a]", "b"));
  EXPECT_TRUE(glob_match("[]]", "]"));
  EXPECT_TRUE(glob_match("[!]]", "x"));
  EXPECT_FALSE(glob_match("[!]]", "]"));
  EXPECT_TRUE(glob_match("[a-]", "-"));
  EXPECT_TRUE(glob_match("[\\]x]", "]"));
  EXPECT_TRUE(glob_match("[\x80-\xFF]", "\xC3"));
  EXPECT_FALSE(glob_match("[z-a]", "m")) << "an empty range";
  EXPECT_FALSE(glob_match("a[+-9]b", "a/b")) << "never a slash";
  EXPECT_FALSE(glob_match("a[!x]b", "a/b")) << "never a slash";
}

TEST(Glob, ABracketThatIsNotClosedIsItself) {
  EXPECT_TRUE(glob_match("a[b", "/a[b"));
  EXPECT_TRUE(Glob("a[b").is_plain());
  EXPECT_TRUE(glob_match("[a/b]", "/[a/b]"));
  EXPECT_TRUE(glob_match("x[", "x["));
  EXPECT_TRUE(glob_match("x[!", "x[!"));
  EXPECT_TRUE(glob_match("x[a-", "x[a-"));
}

TEST(Glob, ABackslashMakesAnyByteItself) {
  EXPECT_TRUE(glob_match("a\\*b", "/a*b"));
  EXPECT_FALSE(glob_match("a\\*b", "/axb"));
  EXPECT_TRUE(Glob("a\\*b").is_plain());
  EXPECT_TRUE(glob_match("a\\*b", "/a*b/below"));
  EXPECT_TRUE(glob_match("\\[x]", "[x]"));
  EXPECT_TRUE(glob_match("end\\", "end\\"));
  EXPECT_TRUE(glob_match("a\\\\b", "a\\b"));
}

TEST(Glob, NamesAreBytes) {
  EXPECT_TRUE(glob_match("*\n*", "/a\nb"));
  EXPECT_TRUE(glob_match("\xFF*", "/\xFF\xFE"));
  EXPECT_TRUE(glob_match(std::string_view("a\0*", 3), std::string_view("a\0b", 3)));
}

TEST(Glob, AnUnclosedClassIsNoticedAsItIsMatched) {
  for (const char* closed : {"", "a", "[a]", "[]]", "[!]]", "\\[", "[\\]]", "a[^x]b[y-z]", "/[a]/b"}) {
    EXPECT_FALSE(has_unclosed_class(closed)) << closed;
  }
  for (const char* unclosed : {"[", "[]", "[!]", "[a/b]", "[\\]", "[a]["}) {
    EXPECT_TRUE(has_unclosed_class(unclosed)) << unclosed;
  }
}

TEST(Glob, ManyStarsDoNotBlowUp) {
  // Backtracking would take practically forever.
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  std::string name(4000, 'a');
  EXPECT_FALSE(glob_match(pattern + "*b", name));
  name += 'b';
  EXPECT_TRUE(glob_match(pattern + "*b", name));
  std::string deep;
  std::string path;
  for (int i = 0; i < 100; ++i) deep += "**/a*/";
  for (int i = 0; i < 1000; ++i) path += "aa/";
  EXPECT_FALSE(glob_match(deep + "b", path + "c"));
  EXPECT_TRUE(glob_match(deep + "b", path + "b"));
}

TEST(Glob, AnyPatternIsTakenAndAnEscapedPathMatchesItself) {
  std::mt19937 random(3);
  constexpr std::string_view bytes("*?[]!^-\\/.ab\n\0\xFF", 15);
  auto any = [&](std::size_t size) {
    std::string out(size, '\0');
    for (char& c : out) c = bytes[random() % bytes.size()];
    return out;
  };
  int matched = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string path = any(random() % 12);
    matched += glob_match(any(random() % 12), path) ? 1 : 0;
    std::string escaped;
    for (char c : path) escaped.append(c == '/' || c == '.' ? "" : "\\").push_back(c);
    ASSERT_TRUE(Glob(escaped).is_plain()) << escaped;
    ASSERT_TRUE(glob_match(escaped, path)) << escaped;
  }
  EXPECT_GT(matched, 500);
}

// A slow and obvious implementation of the rules, for short patterns of letters, '/', '*' and '**'.
bool tried(std::string_view pattern, std::string_view path, bool at_start = true) {
  if (pattern.empty()) return path.empty();
  if (pattern.starts_with("**/") && at_start) {
    if (tried(pattern.substr(3), path)) return true;
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i] == '/' && tried(pattern.substr(3), path.substr(i + 1))) return true;
    }
    return false;
  }
  bool deep = pattern.starts_with("**");
  if (pattern[0] == '*') {
    for (std::size_t i = 0;; ++i) {
      if (tried(pattern.substr(deep ? 2 : 1), path.substr(i), false)) return true;
      if (i == path.size() || (path[i] == '/' && !deep)) return false;
    }
  }
  return !path.empty() && path[0] == pattern[0] && tried(pattern.substr(1), path.substr(1), pattern[0] == '/');
}

TEST(Glob, AgreesWithTrialAndError) {
  const std::vector<std::string> pieces = {"a", "b", "*", "**", "/"};
  const std::vector<std::string> paths = {"a", "b", "ab", "a/b", "b/a", "aa/b", "a/a/b", "ab/ba", "a/b/a/b", "b/b/b"};
  int matched = 0;
  for (int code = 0; code < 5 * 5 * 5 * 5 * 5; ++code) {
    std::string pattern;
    for (int rest = code, i = 0; i < 5; ++i, rest /= 5) pattern += pieces[static_cast<std::size_t>(rest % 5)];
    bool tidy = pattern.front() != '/' && pattern.back() != '/' && pattern.find("//") == pattern.npos;
    bool stars = pattern.find('*') != pattern.npos && pattern.find("***") == pattern.npos;
    if (!tidy || !stars) continue;
    for (const std::string& path : paths) {
      ASSERT_EQ(glob_match(pattern, path), tried(pattern, path)) << pattern << " on " << path;
      matched += tried(pattern, path) ? 1 : 0;
    }
  }
  EXPECT_GT(matched, 200);
}

}  // namespace
}  // namespace warren
