// Every encoder kernel of this architecture against plain loops. Needs no library, so that tests/vectors/arm.py can
// compile it for arm64 and run it in an emulator. Where the unit tests run, they check more
// (src/embed/model/kernel_test.cc).
#include <cmath>
#include <cstdio>
#include <random>

#include "embed/model/half.h"
#include "embed/model/kernel.h"

namespace {

int wrong = 0;
int checked = 0;

void expect_near(double found, double expected, double tolerance) {
  ++checked;
  if (!(std::fabs(found - expected) <= tolerance)) ++wrong;
}

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> any;
  std::vector<float> made(count);
  for (float& number : made) number = any(random);
  return made;
}

void check_product(const warren::EncoderKernel& kernel, std::size_t rows, std::size_t depth, std::size_t columns) {
  const std::vector<float> in = numbers(rows * depth, 1);
  const std::vector<float> floats = numbers(depth * columns, 2);
  const std::vector<float> bias = numbers(columns, 3);
  std::vector<std::uint16_t> halves(floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) halves[i] = warren::half_of_float(floats[i]);
  std::vector<float> by_halves(rows * columns);
  std::vector<float> by_floats(rows * columns);
  warren::Product product{in.data(), depth, rows, depth, columns, bias.data(), by_halves.data(), columns};
  kernel.multiply_halves(product, halves.data());
  product.out = by_floats.data();
  kernel.multiply_floats(product, floats.data());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      double exact = bias[column];
      double rounded = bias[column];
      for (std::size_t k = 0; k < depth; ++k) {
        const std::size_t at = (column - column % 32) * depth + k * 32 + column % 32;
        exact += static_cast<double>(in[row * depth + k]) * floats[at];
        rounded += static_cast<double>(in[row * depth + k]) * warren::float_of_half(halves[at]);
      }
      expect_near(by_floats[row * columns + column], exact, 1e-4);
      expect_near(by_halves[row * columns + column], rounded, 1e-4);
    }
  }
}

void check_rows(const warren::EncoderKernel& kernel) {
  std::vector<float> x = numbers(64, 4);
  std::vector<float> row = x;
  kernel.soft_max(row.data(), 37, 2);
  double sum = 0;
  for (std::size_t i = 0; i < 37; ++i) sum += std::exp(2.0 * x[i]);
  for (std::size_t i = 0; i < 37; ++i) expect_near(row[i], std::exp(2.0 * x[i]) / sum, 1e-6);
  row = x;
  kernel.gelu(row.data(), row.size());
  for (std::size_t i = 0; i < 64; ++i) expect_near(row[i], x[i] * 0.5 * (1 + std::erf(x[i] / std::sqrt(2.0))), 2e-6);
  row = x;
  const std::vector<float> gain(50, 2);
  const std::vector<float> shift(50, 1);
  kernel.add_norm({row.data(), x.data(), 1, 50, 64, gain.data(), shift.data(), 1e-6F});
  double mean = 0;
  double variance = 0;
  for (std::size_t i = 0; i < 50; ++i) mean += 2.0 * x[i] / 50;
  for (std::size_t i = 0; i < 50; ++i) variance += (2.0 * x[i] - mean) * (2.0 * x[i] - mean) / 50;
  for (std::size_t i = 0; i < 50; ++i) {
    expect_near(row[i], (2.0 * x[i] - mean) / std::sqrt(variance + 1e-6) * 2 + 1, 1e-4);
  }
}

}  // namespace

int main() {
  for (const warren::EncoderKernel& kernel : warren::encoder_kernels()) {
    std::printf("%s: %s\n", kernel.name.data(), kernel.is_supported ? "checked" : "not supported here");
    if (!kernel.is_supported) continue;
    for (std::size_t rows : {1U, 3U, 6U, 13U, 25U}) check_product(kernel, rows, 61, 64);
    check_rows(kernel);
  }
  std::printf("%d of %d numbers are wrong\n", wrong, checked);
  return wrong == 0 && checked > 0 ? 0 : 1;
}
