// Every dot product kernel of this architecture against a plain loop. Needs no library, so that arm.py can compile it
// for arm64 and run it in an emulator.
#include <cstdio>
#include <random>

#include "backends/vector/dot.h"

int main() {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> any(-127, 127);
  int wrong = 0;
  int checked = 0;
  for (const warren::DotKernel& kernel : warren::dot_kernels()) {
    std::printf("%s: %s\n", kernel.name.data(), kernel.is_supported ? "checked" : "not supported here");
    if (!kernel.is_supported) continue;
    for (std::size_t stride : {64U, 384U, 1536U, 16384U}) {
      for (std::size_t count : {1U, 2U, 3U, 17U}) {
        std::vector<std::int8_t> query(stride);
        std::vector<std::int8_t> rows(stride * count);
        for (auto& number : query) number = static_cast<std::int8_t>(count == 3 ? -127 : any(random));
        for (auto& number : rows) number = static_cast<std::int8_t>(count == 3 ? 127 : any(random));
        std::vector<std::int32_t> products(count);
        kernel.run(query.data(), rows.data(), count, stride, products.data());
        for (std::size_t row = 0; row < count; ++row, ++checked) {
          int expected = 0;
          for (std::size_t i = 0; i < stride; ++i) expected += query[i] * rows[row * stride + i];
          wrong += expected != products[row] ? 1 : 0;
        }
      }
    }
  }
  std::printf("%d of %d products are wrong\n", wrong, checked);
  return wrong == 0 && checked > 0 ? 0 : 1;
}
