#include "embed/model/kernel.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "embed/model/half.h"

namespace warren {
namespace {

std::vector<float> some_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> any;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = any(random);
  return numbers;
}

// Each kernel that this processor has, against plain loops in double precision.
class KernelTest : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    for (const EncoderKernel& kernel : encoder_kernels()) {
      if (kernel.name == GetParam()) kernel_ = &kernel;
    }
    ASSERT_NE(kernel_, nullptr);
    if (!kernel_->is_supported) GTEST_SKIP() << "this processor does not have " << GetParam();
  }
  const EncoderKernel* kernel_ = nullptr;
};

TEST_P(KernelTest, AProductIsThatOfPlainLoops) {
  for (std::size_t rows : {1U, 2U, 5U, 6U, 7U, 12U, 13U, 31U}) {
    for (std::size_t depth : {1U, 3U, 32U, 61U}) {
      for (std::size_t columns : {32U, 96U}) {
        const std::size_t in_stride = depth + 3;
        std::vector<float> in = some_numbers(rows * in_stride, 1);
        std::vector<float> floats = some_numbers(depth * columns, 2);
        std::vector<std::uint16_t> halves(floats.size());
        for (std::size_t i = 0; i < floats.size(); ++i) halves[i] = half_of_float(floats[i]);
        std::vector<float> bias = some_numbers(columns, 3);
        std::vector<float> by_floats(rows * (columns + 1), -1);
        std::vector<float> by_halves = by_floats;
        Product product{in.data(), in_stride, rows, depth, columns, bias.data(), by_halves.data(), columns + 1};
        kernel_->multiply_halves(product, halves.data());
        product.bias = nullptr;
        product.out = by_floats.data();
        kernel_->multiply_floats(product, floats.data());
        for (std::size_t row = 0; row < rows; ++row) {
          for (std::size_t column = 0; column < columns; ++column) {
            double exact = 0;
            double rounded = bias[column];
            for (std::size_t k = 0; k < depth; ++k) {
              const std::size_t at = (column - column % 32) * depth + k * 32 + column % 32;
              exact += static_cast<double>(in[row * in_stride + k]) * floats[at];
              rounded += static_cast<double>(in[row * in_stride + k]) * float_of_half(halves[at]);
            }
            const std::size_t to = row * (columns + 1) + column;
            ASSERT_NEAR(by_floats[to], exact, 1e-4) << rows << " × " << depth << " × " << columns;
            ASSERT_NEAR(by_halves[to], rounded, 1e-4) << rows << " × " << depth << " × " << columns;
          }
          ASSERT_EQ(by_floats[row * (columns + 1) + columns], -1) << "written beyond the columns";
        }
      }
    }
  }
}

TEST_P(KernelTest, SoftMaxIsThatOfPlainLoops) {
  for (std::size_t width : {1U, 2U, 15U, 16U, 17U, 40U}) {
    std::vector<float> row = some_numbers(padded_columns(width), 4);
    for (float& number : row) number *= 30;
    std::vector<float> original = row;
    kernel_->soft_max(row.data(), width, 0.25F);
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += std::exp(original[i] * 0.25);
    for (std::size_t i = 0; i < width; ++i) {
      const double expected = std::exp(original[i] * 0.25) / sum;
      EXPECT_NEAR(row[i], expected, 1e-6 + expected * 2e-6) << width;
    }
  }
}

TEST_P(KernelTest, GeluIsThatOfTheErrorFunction) {
  std::vector<float> numbers(1024);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = (static_cast<float>(i) - 512) / 40;
  std::vector<float> original = numbers;
  kernel_->gelu(numbers.data(), numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double x = original[i];
    EXPECT_NEAR(numbers[i], x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))), 2e-6) << x;
  }
}

TEST_P(KernelTest, ANormalisedRowIsThatOfPlainLoops) {
  for (std::size_t width : {1U, 7U, 16U, 33U, 100U}) {
    const std::size_t stride = width + 5;
    std::vector<float> x = some_numbers(3 * stride, 5);
    const std::vector<float> original = x;
    const std::vector<float> delta = some_numbers(3 * stride, 6);
    const std::vector<float> gain = some_numbers(width, 7);
    const std::vector<float> shift = some_numbers(width, 8);
    kernel_->add_norm({x.data(), delta.data(), 3, width, stride, gain.data(), shift.data(), 1e-6F});
    for (std::size_t row = 0; row < 3; ++row) {
      double mean = 0;
      double variance = 0;
      auto sum_at = [&](std::size_t i) {
        return static_cast<double>(original[row * stride + i]) + delta[row * stride + i];
      };
      for (std::size_t i = 0; i < width; ++i) mean += sum_at(i) / static_cast<double>(width);
      for (std::size_t i = 0; i < width; ++i) variance += (sum_at(i) - mean) * (sum_at(i) - mean);
      const double factor = 1 / std::sqrt(variance / static_cast<double>(width) + 1e-6);
      for (std::size_t i = 0; i < width; ++i) {
        EXPECT_NEAR(x[row * stride + i], (sum_at(i) - mean) * factor * gain[i] + shift[i], 1e-3) << width;
      }
      for (std::size_t i = width; i < stride; ++i) EXPECT_EQ(x[row * stride + i], original[row * stride + i]);
    }
  }
}

std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (const EncoderKernel& kernel : encoder_kernels()) names.push_back(kernel.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Each, KernelTest, ::testing::ValuesIn(kernel_names()),
                         [](const auto& one) { return std::string(one.param); });

TEST(Half, EveryNumberOf16BitsIsKept) {
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    if ((half & 0x7C00U) == 0x7C00U) continue;  // infinite or not a number
    EXPECT_EQ(half_of_float(float_of_half(static_cast<std::uint16_t>(half))), half);
  }
  EXPECT_EQ(float_of_half(0x3C00), 1.0F);
  EXPECT_EQ(float_of_half(0xC000), -2.0F);
  EXPECT_EQ(float_of_half(0x0001), 0x1p-24F);
  EXPECT_EQ(float_of_half(0x7BFF), kHalfMax);
  EXPECT_TRUE(std::isinf(float_of_half(0x7C00)));
  EXPECT_TRUE(std::isnan(float_of_half(0x7E00)));
  EXPECT_EQ(float_of_bfloat(0x3F80), 1.0F);
}

TEST(Half, ANumberIsRoundedToTheNearestWithTiesToEven) {
  for (std::uint32_t half = 0; half < 0x7BFF; ++half) {
    const float low = float_of_half(static_cast<std::uint16_t>(half));
    const float high = float_of_half(static_cast<std::uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(half_of_float(std::nextafter(middle, low)), half);
    EXPECT_EQ(half_of_float(std::nextafter(middle, high)), half + 1);
    EXPECT_EQ(half_of_float(middle), half % 2 == 0 ? half : half + 1);
    EXPECT_EQ(half_of_float(-middle), (half % 2 == 0 ? half : half + 1) | 0x8000U);
  }
}

}  // namespace
}  // namespace warren
