// The vocabulary of a BERT model, and texts as the numbers of its pieces (WordPiece).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "embed/tokens/bert_words.h"

namespace warren {

// Thread-safe.
class WordPiece {
 public:
  // One piece on each line; its number is that of the line, from 0 (vocab.txt).
  static Result<WordPiece> from_lines(std::string text, BertWordsOptions options);
  // The vocabulary of a tokenizer.json: pieces and their numbers, in any order.
  static Result<WordPiece> from_pieces(const std::vector<std::pair<std::string, std::int64_t>>& pieces,
                                       BertWordsOptions options);

  std::size_t size() const { return size_; }

  // [CLS], the pieces, [SEP]: at most `tokens_max`, which is at least 2. Text beyond is not read. A word that the
  // vocabulary cannot spell, or of more than 100 characters, is [UNK]. Names of special pieces in the text are ordinary
  // text: a document cannot end itself with [SEP].
  std::vector<std::int32_t> encode(std::string_view text, std::size_t tokens_max) const;

 private:
  using Pieces = std::unordered_map<std::string_view, std::int32_t>;

  explicit WordPiece(BertWordsOptions options) : options_(options) {}
  Status add(std::string_view piece, std::int32_t number);
  Status finish();
  void add_word(std::string_view word, std::vector<std::int32_t>& tokens) const;

  BertWordsOptions options_;
  std::unique_ptr<std::string> text_;  // what the maps' keys point into; its address stays when this is moved
  Pieces begins_;
  Pieces continues_;  // without their "##"
  std::size_t size_ = 0;
  std::size_t longest_bytes_ = 0;
  std::int32_t begin_ = -1;
  std::int32_t end_ = -1;
  std::int32_t unknown_ = -1;
};

}  // namespace warren
