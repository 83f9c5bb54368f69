#include "store/ciphers/cipher_patterns.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::testing {
namespace {

TEST(CipherPatterns, PatternsThatSeemToMatchSomethingAndDoNotAreRefusedWithTheReason) {
  for (const char* valid :
       {"/", "/secrets", "/secrets/", "**/*.key", "**", "/a/**/b", "/a[!x]", "/[]]", "/\\[", "/a.b/..c", "/[\\]]"}) {
    EXPECT_OK(check_cipher_pattern(valid)) << valid;
  }
  struct Refused {
    std::string_view pattern;
    std::string_view reason;
  };
  for (const Refused& one :
       {Refused{"", "empty"}, Refused{"secrets", "begins neither"}, Refused{"./secrets", "begins"},
        Refused{"*.key", "begins neither"}, Refused{"/other/../secrets", "'.' and '..'"},
        Refused{"/secrets/.", "'.' and '..'"}, Refused{"//secrets", "'//'"}, Refused{"/secrets//a", "'//'"},
        Refused{"/[", "not closed"}, Refused{"/[a/b]", "not closed"}, Refused{"/[]", "not closed"},
        Refused{std::string_view("/a\0b", 4), "NUL"}}) {
    Status checked = check_cipher_pattern(one.pattern);
    ASSERT_FALSE(checked.ok()) << one.pattern;
    EXPECT_EQ(checked.error().code(), Code::kInvalid);
    EXPECT_NE(checked.error().message().find(one.reason), std::string::npos) << checked.error().message();
  }
  EXPECT_EQ(error_of(check_cipher_pattern("/" + std::string(5000, 'a'))), Code::kNameTooLong);
}

TEST(CipherPatterns, ADirectoryThatMatchesIncludesWhatIsBelowIt) {
  struct Case {
    std::string_view pattern;
    std::string_view path;
    bool is_covered;
  };
  for (const Case& one :
       {Case{"/**/secrets", "/secrets/x", true}, Case{"/**/secrets", "/a/b/secrets/c/d", true},
        Case{"**/secrets", "/a/secrets", true}, Case{"/**/secrets", "/a/secrets.txt", false},
        Case{"/home/*", "/home/ann/notes", true}, Case{"/home/*", "/home", false}, Case{"**/*.key", "/a/b.key", true},
        Case{"**/*.key", "/a/b.keys/c", false}, Case{"/s[ab]", "/sa/deep/x", true},
        Case{"/secrets", "/secrets/x", true}, Case{"/secrets", "/secretsx", false}, Case{"/a/*/c", "/a/b/c/d", true},
        Case{"/a/*/c", "/a/b/d/c", false}}) {
    EXPECT_EQ(covers_path(Glob(one.pattern), one.path), one.is_covered) << one.pattern << " " << one.path;
  }
}

TEST(CipherPatterns, TheNarrowerOfTwoDecides) {
  EXPECT_TRUE(decides_before("/secrets/deep", "/secrets"));
  EXPECT_TRUE(decides_before("/secrets/*", "/secrets"));
  EXPECT_TRUE(decides_before("/secrets", "**/*.key"));
  EXPECT_TRUE(decides_before("**/*.key", "**"));  // nothing before the wildcard in both: the longer one
  EXPECT_TRUE(decides_before("/a*b", "/a*c"));
  EXPECT_FALSE(decides_before("/a*c", "/a*b"));
  EXPECT_FALSE(decides_before("/same", "/same"));
  EXPECT_TRUE(decides_before("/\\*\\*\\*x", "/abc*defgh"));  // four bytes before three
}

}  // namespace
}  // namespace warren::testing
