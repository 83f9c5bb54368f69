#include "backends/vector/dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace warren {
namespace {

// As _mm512_reduce_add_epi32, about which GCC 12 warns wrongly.
__attribute__((target("avx512f,avx512bw,avx512vnni"))) inline std::int32_t sum_vnni(__m512i lanes) {
  alignas(64) std::int32_t all[16];
  _mm512_store_si512(all, lanes);
  __m256i half = _mm256_add_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(all)),
                                  _mm256_load_si256(reinterpret_cast<const __m256i*>(all + 8)));
  __m128i quarter = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  quarter = _mm_add_epi32(quarter, _mm_shuffle_epi32(quarter, _MM_SHUFFLE(1, 0, 3, 2)));
  quarter = _mm_add_epi32(quarter, _mm_shuffle_epi32(quarter, _MM_SHUFFLE(2, 3, 0, 1)));
  return _mm_cvtsi128_si32(quarter);
}

}  // namespace

// The instruction multiplies unsigned by signed numbers. So the rows are taken as row + 128, which flips their top bit,
// and 128 times the sum of the query is subtracted at the end.
__attribute__((target("avx512f,avx512bw,avx512vnni"))) void dot_vnni(const std::int8_t* query, const std::int8_t* rows,
                                                                     std::size_t count, std::size_t stride,
                                                                     std::int32_t* products) {
  const __m512i top_bits = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512i query_sums = _mm512_setzero_si512();
  for (std::size_t j = 0; j < stride; j += 64) {
    query_sums = _mm512_dpbusd_epi32(query_sums, top_bits, _mm512_loadu_si512(query + j));
  }
  const std::int32_t excess = sum_vnni(query_sums);
  for (std::size_t i = 0; i < count; ++i, rows += stride) {
    __m512i sum = _mm512_setzero_si512();
    for (std::size_t j = 0; j < stride; j += 64) __builtin_prefetch(rows + j + kDotPrefetch);
    for (std::size_t j = 0; j < stride; j += 64) {
      __m512i row = _mm512_xor_si512(_mm512_loadu_si512(rows + j), top_bits);
      sum = _mm512_dpbusd_epi32(sum, row, _mm512_loadu_si512(query + j));
    }
    products[i] = sum_vnni(sum) - excess;
  }
}

}  // namespace warren
#endif
