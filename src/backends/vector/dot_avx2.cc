#include "backends/vector/dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace warren {
namespace {

__attribute__((target("avx2"))) inline std::int32_t sum_avx2(__m256i lanes) {
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(1, 0, 3, 2)));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(2, 3, 0, 1)));
  return _mm_cvtsi128_si32(half);
}

// Widened to 16 bits, since products of two pairs of 8-bit numbers need 16: exact for every input.
__attribute__((target("avx2"))) inline __m256i wide_avx2(const std::int8_t* from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

}  // namespace

__attribute__((target("avx2"))) void dot_avx2(const std::int8_t* query, const std::int8_t* rows, std::size_t count,
                                              std::size_t stride, std::int32_t* products) {
  std::size_t i = 0;
  for (; i + 2 <= count; i += 2, rows += 2 * stride) {
    __m256i first = _mm256_setzero_si256();
    __m256i second = _mm256_setzero_si256();
    for (std::size_t j = 0; j < 2 * stride; j += 64) __builtin_prefetch(rows + j + kDotPrefetch);
    for (std::size_t j = 0; j < stride; j += 16) {
      __m256i wide = wide_avx2(query + j);
      first = _mm256_add_epi32(first, _mm256_madd_epi16(wide, wide_avx2(rows + j)));
      second = _mm256_add_epi32(second, _mm256_madd_epi16(wide, wide_avx2(rows + stride + j)));
    }
    products[i] = sum_avx2(first);
    products[i + 1] = sum_avx2(second);
  }
  for (; i < count; ++i, rows += stride) {
    __m256i sum = _mm256_setzero_si256();
    for (std::size_t j = 0; j < stride; j += 16) {
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(wide_avx2(query + j), wide_avx2(rows + j)));
    }
    products[i] = sum_avx2(sum);
  }
}

}  // namespace warren
#endif
