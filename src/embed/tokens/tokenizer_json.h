// A file tokenizer.json of Hugging Face's tokenizers, as far as a WordPiece tokenizer needs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "embed/tokens/bert_words.h"

namespace warren {

struct TokenizerJson {
  std::vector<std::pair<std::string, std::int64_t>> pieces;
  BertWordsOptions words;
};

// kCorrupt: it is not JSON. kUnsupported: the tokenizer is of another kind.
Result<TokenizerJson> read_tokenizer_json(std::string_view text);

}  // namespace warren
