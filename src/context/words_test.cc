#include "context/words.h"

#include <gtest/gtest.h>

#include "context/fusion.h"
#include "context/index_rows.h"
#include "context/snippet.h"

namespace warren {
namespace {

std::vector<std::string> texts(std::string_view query) {
  std::vector<std::string> found;
  for (const SearchWord& word : parse_search_words(query)) found.push_back(word.text + (word.is_prefix ? "*" : ""));
  return found;
}

using Texts = std::vector<std::string>;

TEST(SearchWords, CommonWordsAreLeftOutUnlessThereIsNothingElse) {
  EXPECT_EQ(texts("How does the relay start?"), (Texts{"relay", "start?"}));
  EXPECT_EQ(texts("what is it"), (Texts{"what", "is", "it"}));
  EXPECT_EQ(texts("relay relay"), Texts{"relay"});
}

TEST(SearchWords, PhrasesAndPrefixesAreKept) {
  EXPECT_EQ(texts("\"to be\" wor* x"), (Texts{"to be", "wor*", "x"}));
  EXPECT_EQ(texts("\"not ended"), Texts{"not ended"});
  EXPECT_EQ(texts("*** \"\" --"), Texts{});
  EXPECT_EQ(texts("x\"b c\"d"), (Texts{"x", "b c", "d"}));
}

TEST(SearchWords, NothingInAWordIsAnOperator) {
  EXPECT_EQ(match_expression({{.text = "a\"b", .is_prefix = false}, {.text = "c", .is_prefix = true}}),
            "\"a\"\"b\" OR \"c\"*");
  EXPECT_EQ(match_expression({}), "");
}

TEST(SearchWords, AQuestionOfAnyLengthHasALimit) {
  std::string query;
  for (int i = 0; i < 1000; ++i) query += "w" + std::to_string(i) + " ";
  EXPECT_EQ(parse_search_words(query).size(), kSearchWords);
}

TEST(SearchWords, TheLineWithMostWordsIsShown) {
  EXPECT_EQ(best_line("one\ntwo apples\ntwo Pears and apples\nfour", parse_search_words("apple pear")), 2U);
  EXPECT_EQ(best_line("one\ntwo", {}), 0U);
}

TEST(Snippet, LongLinesAreCutAroundTheMatch) {
  std::string body = std::string(1000, 'a') + "MATCH" + std::string(1000, 'b') + "\n";
  Snippet snippet = snippet_of(body, 0, 1000);
  EXPECT_NE(snippet.text.find("MATCH"), std::string::npos);
  EXPECT_LE(snippet.text.size(), kSnippetLineBytes + 6);
  EXPECT_EQ(snippet_of("", 3).text, "");
  EXPECT_EQ(snippet_of("a\r\nb\r\n", 99).text, "a\nb");
}

TEST(Fusion, AChunkInTwoListsIsBetterThanOneInOne) {
  std::vector<FusedChunk> fused = fuse({{FoundBy::kText, {1, 2, 3}}, {FoundBy::kMeaning, {3, 4}}});
  ASSERT_EQ(fused.size(), 4U);
  EXPECT_EQ(fused[0].chunk, 3);
  EXPECT_DOUBLE_EQ(fused[0].score, 1.0 / 63 + 1.0 / 61);
  EXPECT_EQ(fused[0].by, 3U);
  EXPECT_EQ(fused[1].chunk, 1);
}

TEST(Fusion, TwoListsOfOneKindCountOnce) {
  std::vector<FusedChunk> fused = fuse({{FoundBy::kMeaning, {1}}, {FoundBy::kMeaning, {2, 1}}});
  EXPECT_DOUBLE_EQ(fused[0].score, 1.0 / 61);
}

TEST(Fusion, NeighboursAreOnePlaceAndAFileHasAFew) {
  std::int64_t file = std::int64_t{7} << kChunkBits;
  std::vector<FusedChunk> chunks;
  double score = 1;
  for (std::int64_t ordinal : {5, 6, 4, 20, 30, 40}) chunks.push_back({file + ordinal, score *= 0.9, 1});
  chunks.push_back({std::int64_t{8} << kChunkBits, 0.1, 2});
  std::vector<FoundPlace> places = places_of(chunks, 10, 3);
  ASSERT_EQ(places.size(), 4U);
  EXPECT_EQ(places[0].best, file + 5);
  EXPECT_EQ(places[0].first, file + 4);
  EXPECT_EQ(places[0].last, file + 6);
  EXPECT_EQ(places[2].best, file + 30);
  EXPECT_EQ(places[3].best, std::int64_t{8} << kChunkBits);
  EXPECT_EQ(places_of(chunks, 1, 3).size(), 1U);
}

}  // namespace
}  // namespace warren
