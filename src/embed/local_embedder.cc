#include "embed/local_embedder.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "base/path.h"
#include "embed/model_identity.h"
#include "embed/tokens/tokenizer_json.h"
#include "os/files/host_files.h"
#include "os/threads/parallel.h"

namespace warren {
namespace {

constexpr std::size_t kVocabularyBytes = std::size_t{64} << 20;

// vocab.txt, or tokenizer.json, which then also says how text is split.
Result<WordPiece> read_vocabulary(const std::string& folder, BertWordsOptions words) {
  const std::string lines = folder + "/vocab.txt";
  std::optional<struct stat> there = WARREN_TRY(find_host_file(lines));
  if (there) {
    std::string text = WARREN_TRY(read_host_file(lines, kVocabularyBytes));
    return WordPiece::from_lines(std::move(text), words).within("'vocab.txt'");
  }
  const std::string whole = folder + "/tokenizer.json";
  there = WARREN_TRY(find_host_file(whole));
  if (!there) return Error(Code::kNotFound, "it has neither vocab.txt nor tokenizer.json");
  std::string text = WARREN_TRY(read_host_file(whole, kVocabularyBytes));
  TokenizerJson tokenizer = WARREN_TRY(read_tokenizer_json(text).within("'tokenizer.json'"));
  return WordPiece::from_pieces(tokenizer.pieces, tokenizer.words).within("'tokenizer.json'");
}

}  // namespace

Result<std::unique_ptr<LocalEmbedder>> LocalEmbedder::open(const std::string& folder, const EncoderKernel& kernel) {
  const auto where = [&] { return fmt::format("the model in {}", quote(folder)); };
  std::string whole = WARREN_TRY(canonical_host_path(folder).within(where));
  EncoderConfig config = WARREN_TRY(read_encoder_config(whole).within(where));
  WordPiece pieces = WARREN_TRY(read_vocabulary(whole, config.words).within(where));
  if (pieces.size() > config.vocabulary) {
    return Error(Code::kCorrupt, fmt::format("{}: the vocabulary has {} pieces, and the configuration says {}", where(),
                                             pieces.size(), config.vocabulary));
  }
  auto encoder = WARREN_TRY(Encoder::load(whole + "/model.safetensors", config, kernel).within(where));
  std::string model = WARREN_TRY(identity_of_model(whole).within(where));
  return std::unique_ptr<LocalEmbedder>(
      new LocalEmbedder(std::move(model), std::move(config), std::move(pieces), std::move(encoder)));
}

std::vector<std::int32_t> LocalEmbedder::tokens_of(std::string_view text, TextRole role) const {
  const std::string& prompt = config_.prompts.of(role);
  if (prompt.empty()) return pieces_.encode(text, config_.tokens_max);
  return pieces_.encode(prompt + std::string(text), config_.tokens_max);
}

Result<std::vector<std::vector<float>>> LocalEmbedder::embed(const std::vector<std::string_view>& texts,
                                                             TextRole role) {
  std::vector<std::vector<std::int32_t>> tokens;
  tokens.reserve(texts.size());
  for (std::string_view text : texts) tokens.push_back(tokens_of(text, role));
  // The longest first, so that no thread begins one at the end while the others wait.
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tokens[a].size() > tokens[b].size(); });
  std::vector<std::vector<float>> vectors(texts.size());
  WARREN_TRY(for_each_parallel(texts.size(), [&](std::size_t i) -> Status {
    if (is_cancelled_ != nullptr && is_cancelled_->load()) return Error(Code::kUnavailable, "it was cancelled");
    vectors[order[i]] = WARREN_TRY(encoder_->encode(tokens[order[i]]));
    return Ok{};
  }));
  return vectors;
}

}  // namespace warren
