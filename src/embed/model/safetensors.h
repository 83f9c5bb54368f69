// A file of named arrays of numbers: the format "safetensors" of Hugging Face.
//
// Eight bytes with the length of the header, little-endian; the header, a JSON object of names with type, shape and
// position; the numbers. Such files come from strangers. The header is checked whole when the file is opened. Numbers
// are read when they are asked for and never mapped: a file that is cut later is an error, not a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

enum class NumberType : std::uint8_t { kOther, kFloat32, kFloat16, kBfloat16 };

struct TensorInfo {
  NumberType type = NumberType::kOther;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t size_bytes = 0;
};

// Thread-safe.
class Safetensors {
 public:
  // kCorrupt: the header is wrong, or the file is longer or shorter than it says.
  static Result<std::unique_ptr<Safetensors>> open(const std::string& path);

  const TensorInfo* find(std::string_view name) const;

  // The numbers of a tensor, which must have this shape and be floating-point. kNotFound, kCorrupt (also for infinite
  // numbers and what is not a number).
  Result<std::vector<float>> read(std::string_view name, const std::vector<std::uint64_t>& shape) const;

  // A part of a tensor whose name and shape were checked before.
  Status read_part(const TensorInfo& tensor, std::uint64_t first_number, std::vector<float>& out) const;

 private:
  Safetensors() = default;

  std::string path_;
  Fd file_;
  std::map<std::string, TensorInfo, std::less<>> tensors_;
};

// The header alone, of a file of this size. Offsets are from its beginning.
Result<std::map<std::string, TensorInfo, std::less<>>> parse_safetensors_header(std::string_view header,
                                                                                std::uint64_t file_bytes);

}  // namespace warren
