#include "embed/model/encoder.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/path.h"
#include "embed/model/half.h"
#include "os/threads/parallel.h"

namespace warren {

// The numbers of one text on their way through the layers. Rows are padded to whole panels.
struct Encoder::Scratch {
  std::size_t stride;         // of x and delta
  std::size_t merged_stride;  // of merged: the last head writes a whole panel
  std::vector<float> x;
  std::vector<float> delta;
  std::vector<float> query_key_value;
  std::vector<float> keys;    // of one head, as panels
  std::vector<float> values;  // likewise
  std::vector<float> scores;
  std::vector<float> merged;  // the results of all heads
  std::vector<float> inner;

  Scratch(const EncoderConfig& config, std::size_t rows)
      : stride(padded_columns(config.width)),
        merged_stride(stride + kPanelColumns),
        x(rows * stride),
        delta(rows * stride),
        query_key_value(rows * 3 * stride),
        keys(config.width / config.heads * padded_columns(rows)),
        values(rows * padded_columns(config.width / config.heads)),
        scores(rows * padded_columns(rows)),
        merged(rows * merged_stride),
        inner(rows * padded_columns(config.inner_width)) {}
};

Result<std::unique_ptr<Encoder>> Encoder::load(const std::string& file, const EncoderConfig& config,
                                               const EncoderKernel& kernel) {
  auto opened = WARREN_TRY(Safetensors::open(file));
  std::unique_ptr<Encoder> encoder(new Encoder(std::move(opened), config, kernel));
  WARREN_TRY(encoder->load_embeddings());
  encoder->layers_.resize(config.layers);
  WARREN_TRY(for_each_parallel(config.layers, [&](std::size_t i) -> Status {
    encoder->layers_[i] = WARREN_TRY(encoder->load_layer(fmt::format("encoder.layer.{}.", i)));
    return Ok{};
  }));
  return encoder;
}

Status Encoder::load_embeddings() {
  constexpr std::string_view kWords = "embeddings.word_embeddings.weight";
  if (file_->find(kWords) == nullptr) prefix_ = "bert.";  // as some programs save it
  const TensorInfo* words = file_->find(prefix_ + std::string(kWords));
  if (words == nullptr) return Error(Code::kNotFound, fmt::format("the weights have no tensor {}", quote(kWords)));
  const bool fits = words->shape == std::vector<std::uint64_t>{config_.vocabulary, config_.width} &&
                    words->type != NumberType::kOther;
  if (!fits) {
    return Error(Code::kCorrupt, fmt::format("tensor {} is not {} × {} numbers of the type F32, F16 or BF16",
                                             quote(kWords), config_.vocabulary, config_.width));
  }
  words_ = *words;
  positions_ =
      WARREN_TRY(file_->read(prefix_ + "embeddings.position_embeddings.weight", {config_.positions, config_.width}));
  std::vector<float> types = WARREN_TRY(
      file_->read(prefix_ + "embeddings.token_type_embeddings.weight", {config_.token_types, config_.width}));
  for (std::size_t i = 0; i < positions_.size(); ++i) positions_[i] += types[i % config_.width];
  embedding_norm_ = WARREN_TRY(load_norm("embeddings.LayerNorm"));
  return Ok{};
}

Result<Encoder::Norm> Encoder::load_norm(const std::string& name) const {
  Norm norm;
  norm.gain = WARREN_TRY(file_->read(prefix_ + name + ".weight", {config_.width}));
  norm.shift = WARREN_TRY(file_->read(prefix_ + name + ".bias", {config_.width}));
  return norm;
}

// The file has a row for each column of ours.
Status Encoder::append_linear(Linear& linear, const std::string& name, std::size_t columns, std::size_t depth) const {
  std::vector<float> weights = WARREN_TRY(file_->read(prefix_ + name + ".weight", {columns, depth}));
  std::vector<float> bias = WARREN_TRY(file_->read(prefix_ + name + ".bias", {columns}));
  for (float weight : weights) {
    if (std::fabs(weight) > kHalfMax) {
      return Error(Code::kUnsupported, fmt::format("a weight of {} does not fit 16 bits", quote(name)));
    }
  }
  linear.depth = depth;
  bias.resize(padded_columns(columns));
  linear.bias.insert(linear.bias.end(), bias.begin(), bias.end());
  const std::size_t begin = linear.panels.size();
  linear.panels.resize(begin + padded_columns(columns) * depth);
  for (std::size_t column = 0; column < columns; ++column) {
    const std::size_t panel = begin + (column - column % kPanelColumns) * depth;
    std::uint16_t* to = linear.panels.data() + panel + column % kPanelColumns;
    const float* from = weights.data() + column * depth;
    for (std::size_t k = 0; k < depth; ++k) to[k * kPanelColumns] = half_of_float(from[k]);
  }
  return Ok{};
}

Result<Encoder::Layer> Encoder::load_layer(const std::string& prefix) const {
  Layer layer;
  for (const char* part : {"query", "key", "value"}) {
    WARREN_TRY(append_linear(layer.query_key_value, fmt::format("{}attention.self.{}", prefix, part), config_.width,
                             config_.width));
  }
  WARREN_TRY(append_linear(layer.attention_out, prefix + "attention.output.dense", config_.width, config_.width));
  layer.attention_norm = WARREN_TRY(load_norm(prefix + "attention.output.LayerNorm"));
  WARREN_TRY(append_linear(layer.inner, prefix + "intermediate.dense", config_.inner_width, config_.width));
  WARREN_TRY(append_linear(layer.inner_out, prefix + "output.dense", config_.width, config_.inner_width));
  layer.inner_norm = WARREN_TRY(load_norm(prefix + "output.LayerNorm"));
  return layer;
}

Result<std::vector<float>> Encoder::encode(std::span<const std::int32_t> tokens) const {
  if (tokens.empty() || tokens.size() > config_.positions) {
    return Error(Code::kInvalid, fmt::format("{} tokens; there must be 1 to {}", tokens.size(), config_.positions));
  }
  Scratch scratch(config_, tokens.size());
  WARREN_TRY(embed_tokens(tokens, scratch));
  for (const Layer& layer : layers_) run_layer(layer, tokens.size(), scratch);
  return pool(tokens.size(), scratch);
}

Status Encoder::embed_tokens(std::span<const std::int32_t> tokens, Scratch& scratch) const {
  std::vector<float> word(config_.width);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const std::int32_t token = tokens[row];
    if (token < 0 || static_cast<std::size_t>(token) >= config_.vocabulary) {
      return Error(Code::kCorrupt, fmt::format("token {} is not in the vocabulary of {}", token, config_.vocabulary));
    }
    WARREN_TRY(file_->read_part(words_, static_cast<std::uint64_t>(token) * config_.width, word));
    const float* position = positions_.data() + row * config_.width;
    float* x = scratch.x.data() + row * scratch.stride;
    for (std::size_t i = 0; i < config_.width; ++i) x[i] = word[i] + position[i];
  }
  kernel_.add_norm({.x = scratch.x.data(),
                    .delta = nullptr,
                    .rows = tokens.size(),
                    .width = config_.width,
                    .stride = scratch.stride,
                    .gain = embedding_norm_.gain.data(),
                    .shift = embedding_norm_.shift.data(),
                    .epsilon = config_.epsilon});
  return Ok{};
}

void Encoder::multiply(const Linear& linear, const float* in, std::size_t in_stride, std::size_t rows,
                       float* out) const {
  kernel_.multiply_halves({.in = in,
                           .in_stride = in_stride,
                           .rows = rows,
                           .depth = linear.depth,
                           .columns = linear.bias.size(),
                           .bias = linear.bias.data(),
                           .out = out,
                           .out_stride = linear.bias.size()},
                          linear.panels.data());
}

// For each head: merged = softmax(query · keys) · values.
void Encoder::attend(std::size_t rows, Scratch& scratch) const {
  const std::size_t depth = config_.width / config_.heads;
  const std::size_t row_stride = 3 * scratch.stride;
  const std::size_t padded_rows = padded_columns(rows);
  const float scale = 1.0F / std::sqrt(static_cast<float>(depth));
  for (std::size_t head = 0; head < config_.heads; ++head) {
    const float* queries = scratch.query_key_value.data() + head * depth;
    const float* keys = queries + scratch.stride;
    const float* values = keys + scratch.stride;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t panel = (row - row % kPanelColumns) * depth + row % kPanelColumns;
      for (std::size_t k = 0; k < depth; ++k) {
        scratch.keys[panel + k * kPanelColumns] = keys[row * row_stride + k];
        const std::size_t column = k % kPanelColumns;
        scratch.values[(k - column) * rows + row * kPanelColumns + column] = values[row * row_stride + k];
      }
    }
    kernel_.multiply_floats({.in = queries,
                             .in_stride = row_stride,
                             .rows = rows,
                             .depth = depth,
                             .columns = padded_rows,
                             .bias = nullptr,
                             .out = scratch.scores.data(),
                             .out_stride = padded_rows},
                            scratch.keys.data());
    for (std::size_t row = 0; row < rows; ++row) {
      kernel_.soft_max(scratch.scores.data() + row * padded_rows, rows, scale);
    }
    // A head that is no whole panel also writes zeros where the next one writes afterwards.
    kernel_.multiply_floats({.in = scratch.scores.data(),
                             .in_stride = padded_rows,
                             .rows = rows,
                             .depth = rows,
                             .columns = padded_columns(depth),
                             .bias = nullptr,
                             .out = scratch.merged.data() + head * depth,
                             .out_stride = scratch.merged_stride},
                            scratch.values.data());
  }
}

void Encoder::run_layer(const Layer& layer, std::size_t rows, Scratch& scratch) const {
  auto add_delta = [&](const Norm& norm) {
    kernel_.add_norm({.x = scratch.x.data(),
                      .delta = scratch.delta.data(),
                      .rows = rows,
                      .width = config_.width,
                      .stride = scratch.stride,
                      .gain = norm.gain.data(),
                      .shift = norm.shift.data(),
                      .epsilon = config_.epsilon});
  };
  multiply(layer.query_key_value, scratch.x.data(), scratch.stride, rows, scratch.query_key_value.data());
  attend(rows, scratch);
  multiply(layer.attention_out, scratch.merged.data(), scratch.merged_stride, rows, scratch.delta.data());
  add_delta(layer.attention_norm);
  multiply(layer.inner, scratch.x.data(), scratch.stride, rows, scratch.inner.data());
  kernel_.gelu(scratch.inner.data(), scratch.inner.size());
  multiply(layer.inner_out, scratch.inner.data(), layer.inner.bias.size(), rows, scratch.delta.data());
  add_delta(layer.inner_norm);
}

Result<std::vector<float>> Encoder::pool(std::size_t rows, const Scratch& scratch) const {
  std::vector<float> sum(scratch.x.begin(), scratch.x.begin() + static_cast<std::ptrdiff_t>(config_.width));
  if (config_.pooling == Pooling::kMean) {  // of which only the direction matters
    for (std::size_t row = 1; row < rows; ++row) {
      const float* x = scratch.x.data() + row * scratch.stride;
      for (std::size_t i = 0; i < config_.width; ++i) sum[i] += x[i];
    }
  }
  WARREN_TRY(normalise(sum));
  return sum;
}

Status normalise(std::vector<float>& vector) {
  double squares = 0;
  for (float number : vector) squares += static_cast<double>(number) * number;
  if (!std::isfinite(squares) || squares <= 0) {
    return Error(Code::kCorrupt, "the model returned a vector without a direction");
  }
  const double factor = 1 / std::sqrt(squares);
  for (float& number : vector) number = static_cast<float>(number * factor);
  return Ok{};
}

}  // namespace warren
