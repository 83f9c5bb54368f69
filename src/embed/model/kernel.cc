#include "embed/model/kernel.h"

#include <algorithm>

namespace warren {

const std::vector<EncoderKernel>& encoder_kernels() {
  static const std::vector<EncoderKernel> kernels {
#if defined(__x86_64__)
    avx512_encoder_kernel(), avx2_encoder_kernel(),
#elif defined(__aarch64__)
    neon_encoder_kernel(),
#endif
        portable_encoder_kernel(),
  };
  return kernels;
}

const EncoderKernel& best_encoder_kernel() {
  const std::vector<EncoderKernel>& kernels = encoder_kernels();
  return *std::find_if(kernels.begin(), kernels.end(), [](const EncoderKernel& kernel) { return kernel.is_supported; });
}

}  // namespace warren
