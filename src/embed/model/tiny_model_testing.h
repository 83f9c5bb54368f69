// Models of a few hundred numbers, for tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "embed/model/encoder_config.h"

namespace warren::testing {

struct TinyTensor {
  std::string type = "F32";
  std::vector<std::uint64_t> shape;
  std::string bytes;
};
using TinyTensors = std::map<std::string, TinyTensor>;

TinyTensor float_tensor(std::vector<std::uint64_t> shape, const std::vector<float>& numbers);

// The bytes of a safetensors file.
std::string safetensors_bytes(const TinyTensors& tensors);
std::string safetensors_with_header(const std::string& header, const std::string& data);

void write_text(const std::string& path, const std::string& content);

// A folder with a whole model, of random weights that depend on the seed. Its vocabulary has the special pieces, the
// letters and a few words.
struct TinyModel {
  EncoderConfig config;
  Json config_json;
  std::map<std::string, std::vector<float>> weights;  // what is in the file
  TinyTensors tensors;
};
TinyModel make_tiny_model(std::size_t width, std::size_t heads, std::size_t inner_width, unsigned seed);
void write_model(const std::string& folder, const TinyModel& model);

}  // namespace warren::testing
