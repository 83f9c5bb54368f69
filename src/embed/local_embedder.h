// An embedder that runs a model in this process.
#pragma once

#include <memory>
#include <string>

#include "embed/embedder.h"
#include "embed/model/encoder.h"
#include "embed/tokens/word_piece.h"

namespace warren {

// A batch is spread over the processors. Thread-safe.
class LocalEmbedder final : public Embedder {
 public:
  // Reads the whole model except its table of words. kNotFound: the folder has no model.
  static Result<std::unique_ptr<LocalEmbedder>> open(const std::string& folder,
                                                     const EncoderKernel& kernel = best_encoder_kernel());

  const std::string& model() const override { return model_; }
  std::size_t dimensions() const override { return config_.width; }
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string_view>& texts, TextRole role) override;

  // EmbedderOptions::is_cancelled, which is looked at between texts.
  void cancel_by(const std::atomic<bool>* flag) { is_cancelled_ = flag; }

  // The tokens that `embed` would take in.
  std::vector<std::int32_t> tokens_of(std::string_view text, TextRole role) const;

 private:
  LocalEmbedder(std::string model, EncoderConfig config, WordPiece pieces, std::unique_ptr<Encoder> encoder)
      : model_(std::move(model)),
        config_(std::move(config)),
        pieces_(std::move(pieces)),
        encoder_(std::move(encoder)) {}

  std::string model_;  // embed/model_identity.h
  EncoderConfig config_;
  WordPiece pieces_;
  std::unique_ptr<Encoder> encoder_;
  const std::atomic<bool>* is_cancelled_ = nullptr;
};

}  // namespace warren
