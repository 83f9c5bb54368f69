// 16-bit floating-point numbers, as weights of models are stored.
#pragma once

#include <cstdint>
#include <cstring>

namespace warren {

inline constexpr float kHalfMax = 65504.0F;  // the largest number of 16 bits; beyond it is infinity

// IEEE 754 binary16 to binary32. Exact.
inline float float_of_half(std::uint16_t half) {
  // As if it had the exponent of a float, which is then too small by 112; the product also makes subnormals right.
  std::uint32_t bits = (half & 0x7FFFU) << 13U;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  value *= 0x1p112F;
  std::memcpy(&bits, &value, sizeof bits);
  if ((half & 0x7C00U) == 0x7C00U) bits |= 0x7F800000U;  // infinity or not a number
  bits |= (half & 0x8000U) << 16U;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounds to the nearest, ties to even. The number must not be larger than kHalfMax.
inline std::uint16_t half_of_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  std::uint32_t sign = (bits >> 16U) & 0x8000U;
  bits &= 0x7FFFFFFFU;
  if (bits < 0x38800000U) {  // below the smallest normal half: the addition of 0.5 rounds at the right bit
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude += 0.5F;
    std::memcpy(&bits, &magnitude, sizeof bits);
    return static_cast<std::uint16_t>(sign | (bits - 0x3F000000U));
  }
  bits += 0xFFFU + ((bits >> 13U) & 1U) - (std::uint32_t{112} << 23U);
  return static_cast<std::uint16_t>(sign | (bits >> 13U));
}

// "bfloat16": the upper half of a float.
inline float float_of_bfloat(std::uint16_t upper) {
  std::uint32_t bits = static_cast<std::uint32_t>(upper) << 16U;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace warren
