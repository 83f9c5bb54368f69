#include "backends/vector/dot.h"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace warren {

__attribute__((target("arch=armv8.2-a+dotprod"))) void dot_neon(const std::int8_t* query, const std::int8_t* rows,
                                                                std::size_t count, std::size_t stride,
                                                                std::int32_t* products) {
  for (std::size_t i = 0; i < count; ++i, rows += stride) {
    int32x4_t a = vdupq_n_s32(0);
    int32x4_t b = vdupq_n_s32(0);
    int32x4_t c = vdupq_n_s32(0);
    int32x4_t d = vdupq_n_s32(0);
    for (std::size_t j = 0; j < stride; j += 64) {
      a = vdotq_s32(a, vld1q_s8(query + j), vld1q_s8(rows + j));
      b = vdotq_s32(b, vld1q_s8(query + j + 16), vld1q_s8(rows + j + 16));
      c = vdotq_s32(c, vld1q_s8(query + j + 32), vld1q_s8(rows + j + 32));
      d = vdotq_s32(d, vld1q_s8(query + j + 48), vld1q_s8(rows + j + 48));
    }
    products[i] = vaddvq_s32(vaddq_s32(vaddq_s32(a, b), vaddq_s32(c, d)));
  }
}

}  // namespace warren
#endif
