#include "embed/model/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")
namespace warren::avx512 {
namespace {

constexpr std::size_t kLanes = 16;
constexpr std::size_t kTileRows = 12;
constexpr std::size_t kTileVectors = 2;
using Lanes = float __attribute__((vector_size(64)));
using IntLanes = std::int32_t __attribute__((vector_size(64)));

// Masked, since GCC 12 warns wrongly about the plain one.
inline Lanes widen(const std::uint16_t* from) {
  return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

#include "embed/model/kernel_body.inc"

}  // namespace
}  // namespace warren::avx512
#pragma GCC pop_options

namespace warren {

EncoderKernel avx512_encoder_kernel() {
  bool is_supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("fma");
  return {"avx512",         is_supported, avx512::multiply_halves, avx512::multiply_floats,
          avx512::soft_max, avx512::gelu, avx512::add_norm};
}

}  // namespace warren
#endif
