#include "backends/vector/dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace warren {
namespace {

// As _mm512_reduce_add_epi32, about which GCC 12 warns wrongly.
__attribute__((target("avx512f,avx512bw"))) inline std::int32_t sum_avx512(__m512i lanes) {
  alignas(64) std::int32_t all[16];
  _mm512_store_si512(all, lanes);
  __m256i half = _mm256_add_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(all)),
                                  _mm256_load_si256(reinterpret_cast<const __m256i*>(all + 8)));
  __m128i quarter = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  quarter = _mm_add_epi32(quarter, _mm_shuffle_epi32(quarter, _MM_SHUFFLE(1, 0, 3, 2)));
  quarter = _mm_add_epi32(quarter, _mm_shuffle_epi32(quarter, _MM_SHUFFLE(2, 3, 0, 1)));
  return _mm_cvtsi128_si32(quarter);
}

__attribute__((target("avx512f,avx512bw"))) inline __m512i wide_avx512(const std::int8_t* from) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

}  // namespace

__attribute__((target("avx512f,avx512bw"))) void dot_avx512(const std::int8_t* query, const std::int8_t* rows,
                                                            std::size_t count, std::size_t stride,
                                                            std::int32_t* products) {
  std::size_t i = 0;
  for (; i + 2 <= count; i += 2, rows += 2 * stride) {
    __m512i first = _mm512_setzero_si512();
    __m512i second = _mm512_setzero_si512();
    for (std::size_t j = 0; j < 2 * stride; j += 64) __builtin_prefetch(rows + j + kDotPrefetch);
    for (std::size_t j = 0; j < stride; j += 32) {
      __m512i wide = wide_avx512(query + j);
      first = _mm512_add_epi32(first, _mm512_madd_epi16(wide, wide_avx512(rows + j)));
      second = _mm512_add_epi32(second, _mm512_madd_epi16(wide, wide_avx512(rows + stride + j)));
    }
    products[i] = sum_avx512(first);
    products[i + 1] = sum_avx512(second);
  }
  for (; i < count; ++i, rows += stride) {
    __m512i sum = _mm512_setzero_si512();
    for (std::size_t j = 0; j < stride; j += 32) {
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(wide_avx512(query + j), wide_avx512(rows + j)));
    }
    products[i] = sum_avx512(sum);
  }
}

}  // namespace warren
#endif
