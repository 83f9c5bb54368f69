#include "context/line_search.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warren {
namespace {

using Next = LineSearch::Next;

std::vector<std::string> found_in(const std::vector<std::string>& pieces, const Pattern& pattern,
                                  Lines wanted = Lines::kWithMatch) {
  std::vector<std::string> found;
  LineSearch search(pattern, wanted, [&](const LineSearch::Line& line) {
    found.push_back(std::to_string(line.number) + ":" + std::string(line.text));
    return Next::kContinue;
  });
  for (const std::string& piece : pieces) search.take(piece);
  search.finish();
  return found;
}

std::unique_ptr<Pattern> pattern_of(std::vector<std::string> texts, PatternOptions options = {}) {
  Result<std::unique_ptr<Pattern>> made = Pattern::compile_any(texts, options);
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

TEST(LineSearch, ALineIsFoundWhereverThePiecesAreCut) {
  auto pattern = pattern_of({"n[e]edle"});
  std::vector<std::string> all{"2:a needle", "4:needle"};
  EXPECT_EQ(found_in({"hay\na needle\nhay\nneedle"}, *pattern), all);
  EXPECT_EQ(found_in({"hay\na nee", "dle\nhay", "\nneed", "l", "e"}, *pattern), all);
  EXPECT_EQ(found_in({"hay\n", "a needle", "\n", "hay\nneedle\n"}, *pattern), all);
}

TEST(LineSearch, TheOtherLinesAreFoundToo) {
  auto pattern = pattern_of({"a"});
  EXPECT_EQ(found_in({"a\nb\n\nba"}, *pattern, Lines::kWithoutMatch), (std::vector<std::string>{"2:b", "3:"}));
}

TEST(LineSearch, AMatchDoesNotReachAcrossALineEnd) {
  auto pattern = pattern_of({"a\\s*b"});
  EXPECT_EQ(found_in({"a\nb\na b\n"}, *pattern), (std::vector<std::string>{"3:a b"}));
}

TEST(LineSearch, ItEndsWhenTheVisitorSaysSo) {
  auto pattern = pattern_of({"a"});
  int seen = 0;
  LineSearch search(*pattern, Lines::kWithMatch, [&](const LineSearch::Line&) {
    ++seen;
    return Next::kStop;
  });
  EXPECT_EQ(search.take("a\na\n"), Next::kStop);
  search.take("a\n");
  search.finish();
  EXPECT_EQ(seen, 1);
}

TEST(LineSearch, ALineWithoutEndIsSearchedInParts) {
  auto pattern = pattern_of({"^needle$"});
  std::string part(LineSearch::kLineBytes, 'x');
  EXPECT_EQ(found_in({part, "needle\nneedle\n"}, *pattern), (std::vector<std::string>{"1:needle", "2:needle"}));
}

TEST(LineSearch, ContentWithANulIsBinary) {
  EXPECT_TRUE(is_binary_content(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_binary_content("text"));
  EXPECT_FALSE(is_binary_content(std::string(8192, 'a') + std::string(1, '\0')));
}

TEST(Pattern, OneOfSeveralTextsIsEnoughAndTextsAreNotExpressions) {
  auto pattern = pattern_of({"a.c", "x|y"}, {.kind = PatternKind::kText});
  EXPECT_TRUE(pattern->find("_a.c_"));
  EXPECT_TRUE(pattern->find("x|y"));
  EXPECT_FALSE(pattern->find("abc"));
  EXPECT_FALSE(pattern->find("x"));
}

TEST(Pattern, WordsBeginAndEndAtTheirEdges) {
  auto pattern = pattern_of({"cat|dog"}, {.whole = Whole::kWords});
  EXPECT_TRUE(pattern->find("a cat sat"));
  EXPECT_FALSE(pattern->find("concatenate"));
}

TEST(Pattern, AnErrorNamesTheExpressionThatIsWrong) {
  std::vector<std::string> texts{"fine", "a(", "b"};
  Result<std::unique_ptr<Pattern>> made = Pattern::compile_any(texts);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message().find("'a('"), std::string::npos) << made.error().message();
}

}  // namespace
}  // namespace warren
