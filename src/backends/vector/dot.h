// Dot products of one vector of 8-bit numbers with many: the inner loop of the embedded index.
//
// Every implementation returns the same numbers. Numbers are -127 to 127, never -128.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace warren {

inline constexpr std::size_t kDotAlignment = 64;  // rows have a multiple of this many numbers, padded with zeros

// How far ahead of its use a row is fetched: a search reads more than fits a cache, and its speed is the memory's.
inline constexpr std::size_t kDotPrefetch = 2048;

// products[i] = query · row i, for `count` rows of `stride` numbers each.
using DotRows = void (*)(const std::int8_t* query, const std::int8_t* rows, std::size_t count, std::size_t stride,
                         std::int32_t* products);

struct DotKernel {
  std::string_view name;
  DotRows run = nullptr;
  bool is_supported = false;  // by this processor
};

// The implementations compiled for this architecture, fastest first; the last one is portable.
const std::vector<DotKernel>& dot_kernels();
const DotKernel& best_dot_kernel();

void dot_portable(const std::int8_t* query, const std::int8_t* rows, std::size_t count, std::size_t stride,
                  std::int32_t* products);
#if defined(__x86_64__)
void dot_avx2(const std::int8_t* query, const std::int8_t* rows, std::size_t count, std::size_t stride,
              std::int32_t* products);
void dot_avx512(const std::int8_t* query, const std::int8_t* rows, std::size_t count, std::size_t stride,
                std::int32_t* products);
void dot_vnni(const std::int8_t* query, const std::int8_t* rows, std::size_t count, std::size_t stride,
              std::int32_t* products);
#elif defined(__aarch64__)
void dot_neon(const std::int8_t* query, const std::int8_t* rows, std::size_t count, std::size_t stride,
              std::int32_t* products);
#endif

}  // namespace warren
