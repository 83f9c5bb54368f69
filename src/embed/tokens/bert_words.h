// Splits text into the words that BERT's tokenizers cut into pieces: the steps "BertNormalizer" and "BertPreTokenizer"
// of Hugging Face's tokenizers.
//
// Control characters and invalid UTF-8 are dropped. White space separates words; a punctuation mark or a CJK ideograph
// is a word of its own. Pure functions; every input has a result.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace warren {

struct BertWordsOptions {
  bool has_lower_case = true;  // turns letters into lower case
  bool strips_accents = true;
  bool splits_ideographs = true;
};

inline constexpr std::size_t kWordCharacters = 100;  // a longer word has no pieces

// `characters` may be larger than kWordCharacters; then `word` is only its beginning. Returns whether to go on.
using TakeWord = std::function<bool(std::string_view word, std::size_t characters)>;

void split_bert_words(std::string_view text, const BertWordsOptions& options, const TakeWord& take);

}  // namespace warren
