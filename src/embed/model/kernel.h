// The arithmetic of an encoder: products of matrices and what is done to each row between them.
//
// One source (kernel_body.inc) is compiled for each instruction set; the fastest that the processor has is chosen at
// run time. They differ by rounding only. Kernels are for one thread and touch nothing but their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace warren {

// The right side of a product lies in panels of this many columns: panel after panel, in each row after row. Columns
// that are missing in the last panel are zeros.
inline constexpr std::size_t kPanelColumns = 32;

constexpr std::size_t padded_columns(std::size_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
}

// out = in · panels + bias, with `rows` × `depth` and `depth` × `columns` numbers.
struct Product {
  const float* in = nullptr;
  std::size_t in_stride = 0;
  std::size_t rows = 0;
  std::size_t depth = 0;
  std::size_t columns = 0;  // a multiple of kPanelColumns
  const float* bias = nullptr;
  float* out = nullptr;
  std::size_t out_stride = 0;
};

// x = normalised(x + delta) · gain + shift, row by row.
struct AddNorm {
  float* x = nullptr;
  const float* delta = nullptr;  // may be null
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t stride = 0;  // of both
  const float* gain = nullptr;
  const float* shift = nullptr;
  float epsilon = 0;
};

struct EncoderKernel {
  std::string_view name;
  bool is_supported = false;  // by this processor
  void (*multiply_halves)(const Product& product, const std::uint16_t* panels) = nullptr;
  void (*multiply_floats)(const Product& product, const float* panels) = nullptr;
  // Of `width` numbers, each times `scale`. Those between it and the next multiple of kPanelColumns are overwritten.
  void (*soft_max)(float* row, std::size_t width, float scale) = nullptr;
  void (*gelu)(float* numbers, std::size_t count) = nullptr;  // count: a multiple of kPanelColumns
  void (*add_norm)(const AddNorm& norm) = nullptr;
};

// Those compiled for this architecture, fastest first; the last one is portable.
const std::vector<EncoderKernel>& encoder_kernels();
const EncoderKernel& best_encoder_kernel();

EncoderKernel portable_encoder_kernel();
#if defined(__x86_64__)
EncoderKernel avx2_encoder_kernel();
EncoderKernel avx512_encoder_kernel();
#elif defined(__aarch64__)
EncoderKernel neon_encoder_kernel();
#endif

}  // namespace warren
