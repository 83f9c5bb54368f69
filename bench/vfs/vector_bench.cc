// Top 10 of many vectors by cosine, exact: the embedded index beside a plain loop over 32-bit floats.
//
// vector_bench COUNT DIMENSION ROUNDS [FILE]: with FILE, the vectors and then the queries are also written there as raw
// 32-bit floats, and the results on standard output can be compared with another program's (bench/vfs/vectors).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "backends/vector/flat_vectors.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kTop = 10;

// Sixteen sums, which the compiler keeps in vector registers.
float plain_dot(const float* a, const float* b, std::size_t count) {
  float sums[16] = {};
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (std::size_t lane = 0; lane < 16; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (float part : sums) sum += part;
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

__attribute__((target_clones("default", "avx2", "avx512f"))) std::vector<std::uint64_t> plain_top(
    const std::vector<float>& vectors, std::size_t dimension, const float* query) {
  std::vector<std::pair<float, std::uint64_t>> best;
  std::size_t count = vectors.size() / dimension;
  for (std::size_t i = 0; i < count; ++i) {
    float score = plain_dot(query, vectors.data() + i * dimension, dimension);
    if (best.size() == kTop && score <= best.front().first) continue;
    best.emplace_back(score, i);
    std::push_heap(best.begin(), best.end(), std::greater());
    if (best.size() > kTop) {
      std::pop_heap(best.begin(), best.end(), std::greater());
      best.pop_back();
    }
  }
  std::sort(best.begin(), best.end(), std::greater());
  std::vector<std::uint64_t> keys;
  for (const auto& one : best) keys.push_back(one.second);
  return keys;
}

double median_ms(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

std::vector<float> unit_vectors(std::size_t count, std::size_t dimension, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> vectors(count * dimension);
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0;
    float* vector = vectors.data() + i * dimension;
    for (std::size_t j = 0; j < dimension; ++j) {
      vector[j] = normal(random);
      sum += static_cast<double>(vector[j]) * static_cast<double>(vector[j]);
    }
    for (std::size_t j = 0; j < dimension; ++j) vector[j] = static_cast<float>(vector[j] / std::sqrt(sum));
  }
  return vectors;
}

}  // namespace

int main(int count_of_words, char** words) {
  if (count_of_words < 4) {
    fmt::print(stderr, "usage: vector_bench COUNT DIMENSION ROUNDS [FILE]\n");
    return 2;
  }
  auto number = [&](int at) { return static_cast<std::size_t>(std::strtoull(words[at], nullptr, 10)); };
  std::size_t count = number(1);
  std::size_t dimension = number(2);
  std::size_t rounds = number(3);
  std::vector<float> vectors = unit_vectors(count, dimension, 1);
  std::vector<float> queries = unit_vectors(rounds, dimension, 2);
  if (count_of_words > 4) {
    std::FILE* file = std::fopen(words[4], "wb");
    bool is_written = file != nullptr && std::fwrite(vectors.data(), 4, vectors.size(), file) == vectors.size() &&
                      std::fwrite(queries.data(), 4, queries.size(), file) == queries.size();
    if (!is_written || std::fclose(file) != 0) {
      fmt::print(stderr, "vector_bench: cannot write {}\n", words[4]);
      return 1;
    }
  }
  auto vector_at = [&](std::uint64_t key) {
    return warren::Result(std::span<const float>(vectors.data() + key * dimension, dimension));
  };
  auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };

  for (const warren::DotKernel& kernel : warren::dot_kernels()) {
    if (!kernel.is_supported) continue;
    auto start = Clock::now();
    warren::FlatVectors flat(dimension, kernel);
    for (std::size_t i = 0; i < count; ++i) flat.put(i, *vector_at(i));
    double build = seconds_since(start);
    std::vector<double> times;
    std::size_t fetched = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
      std::span<const float> query(queries.data() + round * dimension, dimension);
      start = Clock::now();
      auto found = flat.search(query, kTop, vector_at);
      times.push_back(seconds_since(start) * 1e3);
      fetched += warren::FlatVectors::last_fetched();
      if (&kernel != &warren::best_dot_kernel()) continue;
      fmt::print("result {}:", round);
      for (const warren::FlatMatch& match : *found) fmt::print(" {}", match.key);
      fmt::print("\n");
    }
    fmt::print("int8 {:<13} {:.3f} ms (best {:.3f}; build {:.2f} s, {:.0f} compared in full)\n", kernel.name,
               median_ms(times), *std::min_element(times.begin(), times.end()), build,
               static_cast<double>(fetched) / static_cast<double>(rounds));
  }
  std::vector<double> times;
  for (std::size_t round = 0; round < rounds; ++round) {
    auto start = Clock::now();
    std::vector<std::uint64_t> keys = plain_top(vectors, dimension, queries.data() + round * dimension);
    times.push_back(seconds_since(start) * 1e3);
    fmt::print("plain {}:", round);
    for (std::uint64_t key : keys) fmt::print(" {}", key);
    fmt::print("\n");
  }
  fmt::print("fp32 plain loop    {:.3f} ms (best {:.3f})\n", median_ms(times),
             *std::min_element(times.begin(), times.end()));
  return 0;
}
