#include "embed/model/kernel.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace warren::avx2 {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kTileRows = 6;
constexpr std::size_t kTileVectors = 2;
using Lanes = float __attribute__((vector_size(32)));
using IntLanes = std::int32_t __attribute__((vector_size(32)));

inline Lanes widen(const std::uint16_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

#include "embed/model/kernel_body.inc"

}  // namespace
}  // namespace warren::avx2
#pragma GCC pop_options

namespace warren {
namespace {

// GCC 12 cannot be asked for it by name.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

EncoderKernel avx2_encoder_kernel() {
  bool is_supported = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  return {"avx2",         is_supported, avx2::multiply_halves, avx2::multiply_floats,
          avx2::soft_max, avx2::gelu,   avx2::add_norm};
}

}  // namespace warren
#endif
