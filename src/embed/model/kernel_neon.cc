#include "embed/model/kernel.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace warren::neon {
namespace {

constexpr std::size_t kLanes = 4;
constexpr std::size_t kTileRows = 6;
constexpr std::size_t kTileVectors = 4;
using Lanes = float __attribute__((vector_size(16)));
using IntLanes = std::int32_t __attribute__((vector_size(16)));

inline Lanes widen(const std::uint16_t* from) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))); }

#include "embed/model/kernel_body.inc"

}  // namespace
}  // namespace warren::neon

namespace warren {

// Every arm64 processor has these instructions.
EncoderKernel neon_encoder_kernel() {
  return {"neon", true, neon::multiply_halves, neon::multiply_floats, neon::soft_max, neon::gelu, neon::add_norm};
}

}  // namespace warren
#endif
