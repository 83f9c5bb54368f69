#include "embed/model/tiny_model_testing.h"

#include <cstring>
#include <fstream>
#include <random>

#include <fmt/format.h>

#include <sys/stat.h>

namespace warren::testing {
namespace {

constexpr std::size_t kTinyPositions = 40;
constexpr std::size_t kTinyLayers = 2;

std::string tiny_vocabulary() {
  std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nrabbit\n##s\nlive\nhere\n.\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) lines += fmt::format("{}\n##{}\n", letter, letter);
  return lines;
}

}  // namespace

TinyTensor float_tensor(std::vector<std::uint64_t> shape, const std::vector<float>& numbers) {
  TinyTensor tensor{.shape = std::move(shape), .bytes = std::string(numbers.size() * 4, '\0')};
  std::memcpy(tensor.bytes.data(), numbers.data(), tensor.bytes.size());
  return tensor;
}

std::string safetensors_with_header(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

std::string safetensors_bytes(const TinyTensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.type},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return safetensors_with_header(dump_json(header), data);
}

void write_text(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

TinyModel make_tiny_model(std::size_t width, std::size_t heads, std::size_t inner_width, unsigned seed) {
  TinyModel model;
  model.config = {.width = width,
                  .heads = heads,
                  .layers = kTinyLayers,
                  .inner_width = inner_width,
                  .positions = kTinyPositions,
                  .token_types = 2,
                  .vocabulary = 61,
                  .epsilon = 1e-12F,
                  .pooling = Pooling::kMean,
                  .tokens_max = kTinyPositions};
  model.config_json = {{"model_type", "bert"},
                       {"hidden_act", "gelu"},
                       {"hidden_size", width},
                       {"num_attention_heads", heads},
                       {"num_hidden_layers", kTinyLayers},
                       {"intermediate_size", inner_width},
                       {"max_position_embeddings", kTinyPositions},
                       {"type_vocab_size", 2},
                       {"vocab_size", 61}};
  std::mt19937 random(seed);
  std::normal_distribution<float> any(0, 0.3F);
  auto add = [&](const std::string& name, std::vector<std::uint64_t> shape, float around = 0) {
    std::size_t count = 1;
    for (std::uint64_t length : shape) count *= length;
    std::vector<float> numbers(count);
    for (float& number : numbers) number = around + any(random);
    model.tensors[name] = float_tensor(std::move(shape), numbers);
    model.weights[name] = std::move(numbers);
  };
  auto add_linear = [&](const std::string& name, std::size_t out, std::size_t in) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  };
  auto add_norm = [&](const std::string& name) {
    add(name + ".weight", {width}, 1);
    add(name + ".bias", {width});
  };
  add("embeddings.word_embeddings.weight", {61, width});
  add("embeddings.position_embeddings.weight", {kTinyPositions, width});
  add("embeddings.token_type_embeddings.weight", {2, width});
  add_norm("embeddings.LayerNorm");
  for (std::size_t i = 0; i < kTinyLayers; ++i) {
    const std::string layer = fmt::format("encoder.layer.{}.", i);
    for (const char* part : {"query", "key", "value"}) {
      add_linear(fmt::format("{}attention.self.{}", layer, part), width, width);
    }
    add_linear(layer + "attention.output.dense", width, width);
    add_norm(layer + "attention.output.LayerNorm");
    add_linear(layer + "intermediate.dense", inner_width, width);
    add_linear(layer + "output.dense", width, inner_width);
    add_norm(layer + "output.LayerNorm");
  }
  return model;
}

void write_model(const std::string& folder, const TinyModel& model) {
  ::mkdir(folder.c_str(), 0700);
  write_text(folder + "/config.json", dump_json(model.config_json));
  write_text(folder + "/vocab.txt", tiny_vocabulary());
  write_text(folder + "/model.safetensors", safetensors_bytes(model.tensors));
}

}  // namespace warren::testing
