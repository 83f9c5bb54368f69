// The settings of an encoder: the JSON files in a model's folder.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "embed/prompts.h"
#include "embed/tokens/bert_words.h"

namespace warren {

enum class Pooling { kMean, kFirst };  // the vector of a text: the mean of its tokens' vectors, or that of [CLS]

struct EncoderConfig {
  std::size_t width = 0;  // numbers of a vector
  std::size_t heads = 0;
  std::size_t layers = 0;
  std::size_t inner_width = 0;  // of the feed-forward part
  std::size_t positions = 0;
  std::size_t token_types = 0;
  std::size_t vocabulary = 0;
  float epsilon = 0;
  Pooling pooling = Pooling::kMean;
  std::size_t tokens_max = 0;
  BertWordsOptions words;
  Prompts prompts;
};

// From config.json, and if they exist tokenizer_config.json and the files of sentence-transformers (modules.json,
// 1_Pooling/config.json, sentence_bert_config.json, config_sentence_transformers.json). kUnsupported: the model is of
// another family. kCorrupt names the file and the member.
Result<EncoderConfig> read_encoder_config(const std::string& folder);

}  // namespace warren
