#include "embed/model/kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace warren::portable {
namespace {

constexpr std::size_t kLanes = 4;
constexpr std::size_t kTileRows = 4;
constexpr std::size_t kTileVectors = 2;
using Lanes = float __attribute__((vector_size(16)));
using IntLanes = std::int32_t __attribute__((vector_size(16)));

// As float_of_half (embed/model/half.h), four at once. Weights are finite.
inline Lanes widen(const std::uint16_t* from) {
  const IntLanes halves{from[0], from[1], from[2], from[3]};
  IntLanes bits = (halves & 0x7FFF) << 13;
  Lanes magnitude;
  std::memcpy(&magnitude, &bits, sizeof magnitude);
  magnitude *= 0x1p112F;
  return (halves & 0x8000) != 0 ? -magnitude : magnitude;
}

#include "embed/model/kernel_body.inc"

}  // namespace
}  // namespace warren::portable

namespace warren {

EncoderKernel portable_encoder_kernel() {
  return {"portable",         true,           portable::multiply_halves, portable::multiply_floats,
          portable::soft_max, portable::gelu, portable::add_norm};
}

}  // namespace warren
