#include "backends/vector/dot.h"

#include <algorithm>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace warren {

const std::vector<DotKernel>& dot_kernels() {
  static const std::vector<DotKernel> kernels {
#if defined(__x86_64__)
    {"avx512-vnni", dot_vnni,
     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni")},
        {"avx512-bw", dot_avx512, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")},
        {"avx2", dot_avx2, __builtin_cpu_supports("avx2") != 0},
#elif defined(__aarch64__)
    {"neon-dotprod", dot_neon, (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0},
#endif
        {"portable", dot_portable, true},
  };
  return kernels;
}

const DotKernel& best_dot_kernel() {
  const std::vector<DotKernel>& kernels = dot_kernels();
  return *std::find_if(kernels.begin(), kernels.end(), [](const DotKernel& kernel) { return kernel.is_supported; });
}

void dot_portable(const std::int8_t* query, const std::int8_t* rows, std::size_t count, std::size_t stride,
                  std::int32_t* products) {
  for (std::size_t i = 0; i < count; ++i, rows += stride) {
    std::int32_t sum = 0;
    for (std::size_t j = 0; j < stride; ++j) sum += query[j] * rows[j];
    products[i] = sum;
  }
}

}  // namespace warren
