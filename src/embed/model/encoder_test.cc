#include "embed/model/encoder.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embed/model/tiny_model_testing.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using testing::float_tensor;
using ::testing::HasSubstr;
using testing::make_tiny_model;
using testing::safetensors_bytes;
using testing::TempDir;
using testing::TinyModel;
using testing::write_text;

using Rows = std::vector<std::vector<double>>;

// The same computation by plain loops in double precision.
class PlainEncoder {
 public:
  explicit PlainEncoder(const TinyModel& model) : model_(model) {}

  std::vector<double> encode(const std::vector<std::int32_t>& tokens) const {
    Rows x(tokens.size(), std::vector<double>(width()));
    for (std::size_t row = 0; row < x.size(); ++row) {
      for (std::size_t i = 0; i < width(); ++i) {
        x[row][i] = at("embeddings.word_embeddings.weight", static_cast<std::size_t>(tokens[row]) * width() + i) +
                    at("embeddings.position_embeddings.weight", row * width() + i) +
                    at("embeddings.token_type_embeddings.weight", i);
      }
    }
    norm(x, "embeddings.LayerNorm");
    for (std::size_t layer = 0; layer < model_.config.layers; ++layer) {
      const std::string name = fmt::format("encoder.layer.{}.", layer);
      add(x, linear(attend(x, name), name + "attention.output.dense", width()));
      norm(x, name + "attention.output.LayerNorm");
      Rows inner = linear(x, name + "intermediate.dense", model_.config.inner_width);
      for (auto& row : inner) {
        for (double& number : row) number *= 0.5 * (1 + std::erf(number / std::sqrt(2.0)));
      }
      add(x, linear(inner, name + "output.dense", width()));
      norm(x, name + "output.LayerNorm");
    }
    std::vector<double> sum = x[0];
    for (std::size_t row = 1; row < x.size() && model_.config.pooling == Pooling::kMean; ++row) {
      for (std::size_t i = 0; i < width(); ++i) sum[i] += x[row][i];
    }
    double length = 0;
    for (double number : sum) length += number * number;
    for (double& number : sum) number /= std::sqrt(length);
    return sum;
  }

 private:
  std::size_t width() const { return model_.config.width; }
  double at(const std::string& name, std::size_t index) const { return model_.weights.at(name).at(index); }

  Rows linear(const Rows& in, const std::string& name, std::size_t columns) const {
    Rows out(in.size(), std::vector<double>(columns));
    const std::vector<float>& weights = model_.weights.at(name + ".weight");
    const std::vector<float>& bias = model_.weights.at(name + ".bias");
    for (std::size_t row = 0; row < in.size(); ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        double sum = bias.at(column);
        for (std::size_t k = 0; k < in[row].size(); ++k) {
          sum += in[row][k] * weights.at(column * in[row].size() + k);
        }
        out[row][column] = sum;
      }
    }
    return out;
  }

  static void add(Rows& x, const Rows& delta) {
    for (std::size_t row = 0; row < x.size(); ++row) {
      for (std::size_t i = 0; i < x[row].size(); ++i) x[row][i] += delta[row][i];
    }
  }

  void norm(Rows& x, const std::string& name) const {
    for (auto& row : x) {
      double mean = 0;
      double variance = 0;
      for (double number : row) mean += number / static_cast<double>(width());
      for (double number : row) variance += (number - mean) * (number - mean) / static_cast<double>(width());
      for (std::size_t i = 0; i < width(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-12) * at(name + ".weight", i) + at(name + ".bias", i);
      }
    }
  }

  Rows attend(const Rows& x, const std::string& layer) const {
    const Rows query = linear(x, layer + "attention.self.query", width());
    const Rows key = linear(x, layer + "attention.self.key", width());
    const Rows value = linear(x, layer + "attention.self.value", width());
    const std::size_t depth = width() / model_.config.heads;
    Rows merged(x.size(), std::vector<double>(width()));
    for (std::size_t begin = 0; begin < width(); begin += depth) {
      for (std::size_t row = 0; row < x.size(); ++row) {
        std::vector<double> shares(x.size());
        double total = 0;
        for (std::size_t other = 0; other < x.size(); ++other) {
          double dot = 0;
          for (std::size_t i = begin; i < begin + depth; ++i) dot += query[row][i] * key[other][i];
          total += shares[other] = std::exp(dot / std::sqrt(static_cast<double>(depth)));
        }
        for (std::size_t other = 0; other < x.size(); ++other) {
          for (std::size_t i = begin; i < begin + depth; ++i) {
            merged[row][i] += shares[other] / total * value[other][i];
          }
        }
      }
    }
    return merged;
  }

  const TinyModel& model_;
};

std::unique_ptr<Encoder> load_tiny(const TempDir& dir, const TinyModel& model,
                                   const EncoderKernel& kernel = best_encoder_kernel()) {
  write_text(dir.file("w"), safetensors_bytes(model.tensors));
  return Encoder::load(dir.file("w"), model.config, kernel).value();
}

double cosine(const std::vector<float>& a, const std::vector<double>& b) {
  double dot = 0;
  for (std::size_t i = 0; i < a.size(); ++i) dot += a[i] * b[i];
  return dot;
}

TEST(Encoder, EveryKernelAgreesWithPlainLoopsForSizesThatAreNoWholePanels) {
  TempDir dir;
  struct Sizes {
    std::size_t width, heads, inner;
  };
  for (Sizes sizes : {Sizes{36, 3, 50}, Sizes{64, 2, 96}, Sizes{8, 1, 8}, Sizes{50, 5, 33}, Sizes{140, 2, 70}}) {
    for (Pooling pooling : {Pooling::kMean, Pooling::kFirst}) {
      TinyModel model = make_tiny_model(sizes.width, sizes.heads, sizes.inner, 1);
      model.config.pooling = pooling;
      for (const EncoderKernel& kernel : encoder_kernels()) {
        if (!kernel.is_supported) continue;
        auto encoder = load_tiny(dir, model, kernel);
        for (std::size_t count : {1U, 2U, 13U, 33U, 40U}) {
          std::vector<std::int32_t> tokens(count);
          for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(i * 7 % 61);
          const std::vector<float> vector = encoder->encode(tokens).value();
          ASSERT_EQ(vector.size(), sizes.width);
          EXPECT_GT(cosine(vector, PlainEncoder(model).encode(tokens)), 0.99999)
              << kernel.name << ", width " << sizes.width << ", " << count << " tokens";
        }
      }
    }
  }
}

TEST(Encoder, TensorsMayHaveThePrefixBert) {
  TempDir dir;
  TinyModel model = make_tiny_model(16, 2, 16, 2);
  std::vector<float> plain = load_tiny(dir, model)->encode(std::vector<std::int32_t>{2, 5, 3}).value();
  TinyModel renamed = model;
  renamed.tensors.clear();
  for (const auto& [name, tensor] : model.tensors) renamed.tensors["bert." + name] = tensor;
  EXPECT_EQ(load_tiny(dir, renamed)->encode(std::vector<std::int32_t>{2, 5, 3}).value(), plain);
}

TEST(Encoder, TokensThatTheModelDoesNotHaveAreAnError) {
  TempDir dir;
  auto encoder = load_tiny(dir, make_tiny_model(16, 2, 16, 3));
  EXPECT_EQ(error_of(encoder->encode({})), Code::kInvalid);
  EXPECT_EQ(error_of(encoder->encode(std::vector<std::int32_t>(41))), Code::kInvalid);
  EXPECT_EQ(error_of(encoder->encode(std::vector<std::int32_t>{61})), Code::kCorrupt);
  EXPECT_EQ(error_of(encoder->encode(std::vector<std::int32_t>{-1})), Code::kCorrupt);
}

TEST(Encoder, ATensorThatIsMissingOrOfAnotherShapeIsNamed) {
  const TinyModel model = make_tiny_model(16, 2, 16, 4);
  TempDir dir;
  for (const auto& [name, tensor] : model.tensors) {
    SCOPED_TRACE(name);
    TinyModel without = model;
    without.tensors.erase(name);
    write_text(dir.file("w"), safetensors_bytes(without.tensors));
    auto missing = Encoder::load(dir.file("w"), model.config);
    ASSERT_EQ(error_of(missing), Code::kNotFound);
    EXPECT_THAT(missing.error().message(), HasSubstr(name));
    TinyModel turned = model;
    turned.tensors[name] = float_tensor({3, 5}, std::vector<float>(15));
    write_text(dir.file("w"), safetensors_bytes(turned.tensors));
    auto wrong = Encoder::load(dir.file("w"), model.config);
    ASSERT_EQ(error_of(wrong), Code::kCorrupt);
    EXPECT_THAT(wrong.error().message(), HasSubstr(name));
  }
}

TEST(Encoder, WeightsThatAreNoNumbersOrTooLargeAreRefused) {
  TempDir dir;
  for (float bad : {NAN, INFINITY, 1e6F}) {
    TinyModel model = make_tiny_model(16, 2, 16, 5);
    std::vector<float> numbers = model.weights["encoder.layer.1.output.dense.weight"];
    numbers[77] = bad;
    model.tensors["encoder.layer.1.output.dense.weight"] = float_tensor({16, 16}, numbers);
    write_text(dir.file("w"), safetensors_bytes(model.tensors));
    EXPECT_FALSE(Encoder::load(dir.file("w"), model.config).ok()) << bad;
  }
  TinyModel model = make_tiny_model(16, 2, 16, 5);
  std::vector<float> words = model.weights["embeddings.word_embeddings.weight"];
  words[5 * 16] = NAN;
  model.tensors["embeddings.word_embeddings.weight"] = float_tensor({61, 16}, words);
  auto encoder = load_tiny(dir, model);
  EXPECT_OK(encoder->encode(std::vector<std::int32_t>{4}));
  EXPECT_EQ(error_of(encoder->encode(std::vector<std::int32_t>{5})), Code::kCorrupt);
}

TEST(Encoder, AVectorWithoutADirectionIsAnError) {
  std::vector<float> zero(3);
  EXPECT_EQ(error_of(normalise(zero)), Code::kCorrupt);
  std::vector<float> infinite{1, INFINITY};
  EXPECT_EQ(error_of(normalise(infinite)), Code::kCorrupt);
  std::vector<float> tiny{3e-30F, 4e-30F};
  EXPECT_OK(normalise(tiny));
  EXPECT_NEAR(tiny[0], 0.6F, 1e-6);
}

}  // namespace
}  // namespace warren
