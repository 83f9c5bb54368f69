// The VNNI kernel against a plain loop, with its one instruction replaced by what Intel's manual says it does: for
// processors that have AVX-512 but not VNNI. Where both exist, the unit tests run the real one.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>

namespace {

// VPDPBUSD: each 32-bit lane of `sum` plus four products of an unsigned and a signed byte, without saturation.
__attribute__((target("avx512f"))) inline __m512i replaced_dpbusd(__m512i sum, __m512i bytes, __m512i signed_bytes) {
  std::int32_t lanes[16];
  std::uint8_t a[64];
  std::int8_t b[64];
  std::memcpy(lanes, &sum, sizeof lanes);
  std::memcpy(a, &bytes, sizeof a);
  std::memcpy(b, &signed_bytes, sizeof b);
  for (int i = 0; i < 64; ++i) lanes[i / 4] += a[i] * b[i];
  __m512i result;
  std::memcpy(&result, lanes, sizeof lanes);
  return result;
}

}  // namespace

#define _mm512_dpbusd_epi32 replaced_dpbusd
#include "backends/vector/dot_vnni.cc"
#endif

int main() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw")) {
    std::puts("no AVX-512 here");
    return 77;
  }
  std::mt19937 random(1);
  std::uniform_int_distribution<int> any(-127, 127);
  int wrong = 0;
  for (std::size_t stride : {64U, 384U, 1536U, 16384U}) {
    for (std::size_t count : {1U, 2U, 3U, 17U}) {
      std::vector<std::int8_t> query(stride);
      std::vector<std::int8_t> rows(stride * count);
      for (auto& number : query) number = static_cast<std::int8_t>(count == 3 ? -127 : any(random));
      for (auto& number : rows) number = static_cast<std::int8_t>(count == 3 ? 127 : any(random));
      std::vector<std::int32_t> products(count);
      warren::dot_vnni(query.data(), rows.data(), count, stride, products.data());
      for (std::size_t row = 0; row < count; ++row) {
        int expected = 0;
        for (std::size_t i = 0; i < stride; ++i) expected += query[i] * rows[row * stride + i];
        wrong += expected != products[row] ? 1 : 0;
      }
    }
  }
  std::printf("%d products are wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
#else
  std::puts("not x86-64");
  return 77;
#endif
}
