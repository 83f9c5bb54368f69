// A transformer of the BERT family, from tokens to one vector. docs/design/embed.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "embed/model/encoder_config.h"
#include "embed/model/kernel.h"
#include "embed/model/safetensors.h"

namespace warren {

// Thread-safe. The weights of the layers are in memory, as 16-bit numbers; the table of words stays in the file, and
// only the rows of a text's tokens are read.
class Encoder {
 public:
  // kNotFound, kCorrupt, kUnsupported: the file does not have the tensors that the configuration describes.
  static Result<std::unique_ptr<Encoder>> load(const std::string& file, const EncoderConfig& config,
                                               const EncoderKernel& kernel = best_encoder_kernel());

  // The vector of length 1. Tokens: at least one, at most config.positions, each below config.vocabulary.
  Result<std::vector<float>> encode(std::span<const std::int32_t> tokens) const;

 private:
  struct Linear {
    std::size_t depth = 0;
    std::vector<std::uint16_t> panels;
    std::vector<float> bias;  // padded like the panels
  };
  struct Norm {
    std::vector<float> gain;
    std::vector<float> shift;
  };
  struct Layer {
    Linear query_key_value;  // three matrices beside each other, each padded
    Linear attention_out;
    Norm attention_norm;
    Linear inner;
    Linear inner_out;
    Norm inner_norm;
  };
  struct Scratch;

  Encoder(std::unique_ptr<Safetensors> file, const EncoderConfig& config, const EncoderKernel& kernel)
      : file_(std::move(file)), config_(config), kernel_(kernel) {}
  Status load_embeddings();
  Result<Layer> load_layer(const std::string& prefix) const;
  Status append_linear(Linear& linear, const std::string& name, std::size_t columns, std::size_t depth) const;
  Result<Norm> load_norm(const std::string& name) const;

  Status embed_tokens(std::span<const std::int32_t> tokens, Scratch& scratch) const;
  void multiply(const Linear& linear, const float* in, std::size_t in_stride, std::size_t rows, float* out) const;
  void attend(std::size_t rows, Scratch& scratch) const;
  void run_layer(const Layer& layer, std::size_t rows, Scratch& scratch) const;
  Result<std::vector<float>> pool(std::size_t rows, const Scratch& scratch) const;

  std::unique_ptr<Safetensors> file_;
  EncoderConfig config_;
  EncoderKernel kernel_;
  std::string prefix_;  // of all tensors' names
  TensorInfo words_;
  std::vector<float> positions_;  // with the first token type added
  Norm embedding_norm_;
  std::vector<Layer> layers_;
};

// Scales a vector to length 1. kCorrupt: it is zero or not finite.
Status normalise(std::vector<float>& vector);

}  // namespace warren
