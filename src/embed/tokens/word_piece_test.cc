#include "embed/tokens/word_piece.h"

#include <random>

#include <gtest/gtest.h>

#include "base/json.h"
#include "embed/tokens/tokenizer_json.h"
#include "os/files/host_files.h"
#include "testing/matchers.h"
#include "testing/mutations.h"

namespace warren {
namespace {

using testing::error_of;

const std::string kSource = WARREN_SOURCE_DIR;
const std::string kModel = kSource + "/.deps/models/all-MiniLM-L6-v2";

std::string file_text(const std::string& path) {
  Result<std::string> text = read_host_file(path, std::size_t{16} << 20);
  EXPECT_TRUE(text.ok()) << path << " is missing: run tools/setup";
  return text.ok() ? *text : std::string();
}

const WordPiece& model_pieces() {
  static const WordPiece pieces = WordPiece::from_lines(file_text(kModel + "/vocab.txt"), {}).value();
  return pieces;
}

Result<WordPiece> tiny_pieces(BertWordsOptions options = {}) {
  return WordPiece::from_lines("[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\nA\na\n\xC3\xA9\ne\n##e\n", options);
}

// tests/embed/reference.py: what Hugging Face's tokenizers return.
TEST(WordPiece, TokensAreThoseOfTheReference) {
  const Json cases = parse_json(file_text(kSource + "/tests/embed/tokens.json")).value();
  ASSERT_GT(cases.size(), 40U);
  for (const Json& one : cases) {
    const auto text = one["text"].get<std::string>();
    EXPECT_EQ(model_pieces().encode(text, 256), one["ids"].get<std::vector<std::int32_t>>()) << one["text"];
  }
}

TEST(WordPiece, BothFormsOfAVocabularyAreTheSame) {
  TokenizerJson tokenizer = read_tokenizer_json(file_text(kModel + "/tokenizer.json")).value();
  EXPECT_TRUE(tokenizer.words.has_lower_case);
  EXPECT_TRUE(tokenizer.words.strips_accents);
  WordPiece pieces = WordPiece::from_pieces(tokenizer.pieces, tokenizer.words).value();
  EXPECT_EQ(pieces.size(), model_pieces().size());
  for (std::string_view text : {"Unaffable rabbits: Zürich!", "東京 x", ""}) {
    EXPECT_EQ(pieces.encode(text, 99), model_pieces().encode(text, 99));
  }
}

TEST(WordPiece, TheLongestPieceIsTakenFirst) {
  WordPiece pieces = tiny_pieces().value();
  EXPECT_EQ(pieces.encode("Unaffable", 9), (std::vector<std::int32_t>{1, 3, 4, 5, 2}));
  EXPECT_EQ(pieces.encode("unaffablex a", 9), (std::vector<std::int32_t>{1, 0, 7, 2}));
}

TEST(WordPiece, InvalidUtf8IsDropped) {
  WordPiece pieces = tiny_pieces().value();
  const std::vector<std::int32_t> expected{1, 3, 4, 5, 2};
  EXPECT_EQ(pieces.encode("un\xFF"
                          "aff\xC3"
                          "able\xE2\x82",
                          9),
            expected);
  EXPECT_EQ(pieces.encode("un\xED\xA0\x80"
                          "affable",
                          9),
            expected);  // half of a surrogate pair
}

TEST(WordPiece, CaseAndAccentsAreKeptIfTheModelSaysSo) {
  EXPECT_EQ(tiny_pieces({.has_lower_case = false}).value().encode("A", 9), (std::vector<std::int32_t>{1, 6, 2}));
  EXPECT_EQ(tiny_pieces({.strips_accents = false}).value().encode("\xC3\x89", 9), (std::vector<std::int32_t>{1, 8, 2}));
  EXPECT_EQ(tiny_pieces().value().encode("\xC3\x89", 9), (std::vector<std::int32_t>{1, 9, 2}));
}

TEST(WordPiece, NeverMoreThanTheGivenTokens) {
  WordPiece pieces = tiny_pieces().value();
  EXPECT_EQ(pieces.encode("a a a a", 2), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(pieces.encode("a a a a", 4), (std::vector<std::int32_t>{1, 7, 7, 2}));
  EXPECT_EQ(pieces.encode("unaffable", 4), (std::vector<std::int32_t>{1, 3, 4, 2}));
  EXPECT_EQ(pieces.encode("a", 0).size(), 2U);
}

TEST(WordPiece, AVocabularyWithoutItsSpecialPiecesIsRefused) {
  EXPECT_EQ(error_of(WordPiece::from_lines("", {})), Code::kCorrupt);
  EXPECT_EQ(error_of(WordPiece::from_lines("[CLS]\n[SEP]\na\n", {})), Code::kCorrupt);
  EXPECT_EQ(error_of(WordPiece::from_lines("[CLS]\n[SEP]\n[UNK]\n" + std::string(2000, 'a'), {})), Code::kCorrupt);
  EXPECT_EQ(error_of(WordPiece::from_pieces({{"[CLS]", 0}, {"[SEP]", 1}, {"[UNK]", 3}}, {})), Code::kCorrupt);
  EXPECT_EQ(error_of(WordPiece::from_pieces({{"[CLS]", 0}, {"[SEP]", 1}, {"[UNK]", -1}}, {})), Code::kCorrupt);
}

TEST(WordPiece, TokenizersOfOtherKindsAreRefused) {
  EXPECT_EQ(error_of(read_tokenizer_json("")), Code::kCorrupt);
  EXPECT_EQ(error_of(read_tokenizer_json("{")), Code::kCorrupt);
  EXPECT_EQ(error_of(read_tokenizer_json("{}")), Code::kUnsupported);
  EXPECT_EQ(error_of(read_tokenizer_json(R"({"model": {"type": "BPE"}})")), Code::kUnsupported);
  EXPECT_EQ(error_of(read_tokenizer_json(R"({"model": {"type": "WordPiece"}, "normalizer": {"type": "NFC"}})")),
            Code::kUnsupported);
  TokenizerJson cased = read_tokenizer_json(R"({"normalizer": {"type": "BertNormalizer", "lowercase": false},
      "model": {"type": "WordPiece", "vocab": {"a": 1, "b": 1.5, "c": -7, "d": 99999999999}}})")
                            .value();
  EXPECT_FALSE(cased.words.has_lower_case);
  EXPECT_FALSE(cased.words.strips_accents);
  EXPECT_EQ(cased.pieces,
            (std::vector<std::pair<std::string, std::int64_t>>{{"a", 1}, {"b", -1}, {"c", -7}, {"d", -1}}));
}

TEST(WordPiece, AnyTextHasTokens) {
  std::mt19937 random(3);
  const WordPiece& pieces = model_pieces();
  testing::Mutations mutations(5);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    if (i % 2 == 0) {
      for (std::size_t length = random() % 200; length > 0; --length) text += static_cast<char>(random());
    } else {
      text = mutations.of("Zürich 東京 서울 e\xCC\x81 «x» can't <a href='b'>\xF0\x9F\x98\x80</a>");
    }
    const std::vector<std::int32_t> tokens = pieces.encode(text, 64);
    ASSERT_GE(tokens.size(), 2U);
    ASSERT_LE(tokens.size(), 64U);
    ASSERT_EQ(tokens.front(), 101);
    ASSERT_EQ(tokens.back(), 102);
    for (std::int32_t token : tokens) ASSERT_TRUE(token >= 0 && token < 30522);
  }
}

TEST(WordPiece, AnyTokenizerFileIsReadOrRefused) {
  testing::Mutations mutations(11);
  const std::string file = R"({"normalizer": {"type": "BertNormalizer", "lowercase": true, "strip_accents": null},
      "model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4}}})";
  for (int i = 0; i < 5000; ++i) {
    auto tokenizer = read_tokenizer_json(mutations.of(file));
    if (!tokenizer.ok()) continue;
    auto pieces = WordPiece::from_pieces(tokenizer->pieces, tokenizer->words);
    if (!pieces.ok()) continue;
    ASSERT_GE(pieces->encode("ab \xFF A", 8).size(), 2U);
  }
}

}  // namespace
}  // namespace warren
