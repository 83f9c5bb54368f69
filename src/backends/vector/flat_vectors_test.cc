#include "backends/vector/flat_vectors.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace warren {
namespace {

std::vector<float> random_vector(std::mt19937& random, std::size_t dimension) {
  std::normal_distribution<float> normal;
  std::vector<float> vector(dimension);
  for (float& number : vector) number = normal(random);
  return vector;
}

// Around a few centres, so close that 8 bits cannot tell the members of one apart.
std::vector<std::vector<float>> clustered(std::size_t count, std::size_t dimension, float spread) {
  std::mt19937 random(7);
  std::vector<std::vector<float>> centres;
  for (int i = 0; i < 5; ++i) centres.push_back(random_vector(random, dimension));
  std::vector<std::vector<float>> vectors;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<float> vector = random_vector(random, dimension);
    for (std::size_t j = 0; j < dimension; ++j) vector[j] = centres[i % 5][j] + spread * vector[j];
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

std::vector<std::vector<float>> scattered(std::size_t count, std::size_t dimension) {
  std::mt19937 random(11);
  std::vector<std::vector<float>> vectors;
  for (std::size_t i = 0; i < count; ++i) vectors.push_back(random_vector(random, dimension));
  return vectors;
}

template <class Keep>
std::vector<FlatMatch> compare_all(const std::vector<std::vector<float>>& vectors, std::span<const float> query,
                                   std::size_t top_k, Keep keep) {
  std::vector<FlatMatch> all;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    if (keep(i)) all.push_back({.key = i, .score = cosine(query, vectors[i])});
  }
  std::sort(all.begin(), all.end(), [](const FlatMatch& a, const FlatMatch& b) {
    return a.score != b.score ? a.score > b.score : a.key < b.key;
  });
  all.resize(std::min(all.size(), top_k));
  return all;
}

FlatVectors filled(const std::vector<std::vector<float>>& vectors, const DotKernel& kernel = best_dot_kernel()) {
  FlatVectors flat(vectors[0].size(), kernel);
  for (std::size_t i = 0; i < vectors.size(); ++i) flat.put(i, vectors[i]);
  return flat;
}

FlatVectors::Fetch fetch_from(const std::vector<std::vector<float>>& vectors) {
  return [&vectors](std::uint64_t key) { return Result(std::span<const float>(vectors[key])); };
}

void expect_exact(const std::vector<std::vector<float>>& vectors, std::size_t top_k) {
  FlatVectors flat = filled(vectors);
  std::mt19937 random(13);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> query =
        round % 2 == 0 ? random_vector(random, flat.dimension()) : vectors[random() % vectors.size()];
    auto found = flat.search(query, top_k, fetch_from(vectors));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, compare_all(vectors, query, top_k, [](std::size_t) { return true; }));
  }
}

TEST(Dot, EveryKernelGivesTheNumbersOfThePortableOne) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> any(-127, 127);
  int compared = 0;
  for (const DotKernel& kernel : dot_kernels()) {
    if (!kernel.is_supported) continue;
    ++compared;
    for (std::size_t stride : {64U, 128U, 384U, 1536U, 16384U}) {
      for (std::size_t count : {0U, 1U, 2U, 3U, 7U, 64U}) {
        std::vector<std::int8_t> query(stride);
        std::vector<std::int8_t> rows(stride * count + 1);
        for (auto& number : query) number = static_cast<std::int8_t>(any(random));
        for (auto& number : rows) number = static_cast<std::int8_t>(any(random));
        if (count == 3) {  // the extremes
          std::fill(query.begin(), query.end(), std::int8_t{-127});
          std::fill(rows.begin(), rows.end(), std::int8_t{127});
        }
        std::vector<std::int32_t> expected(count);
        std::vector<std::int32_t> products(count);
        dot_portable(query.data(), rows.data() + 1, count, stride, expected.data());  // rows need no alignment
        kernel.run(query.data(), rows.data() + 1, count, stride, products.data());
        EXPECT_EQ(products, expected) << kernel.name << ", " << count << " rows of " << stride;
      }
    }
  }
  EXPECT_GE(compared, 1);
}

TEST(FlatVectors, FindsExactlyTheBestOfScatteredVectors) {
  expect_exact(scattered(3000, 384), 10);
  expect_exact(scattered(500, 3), 1);
  expect_exact(scattered(700, 65), 700);
}

TEST(FlatVectors, FindsExactlyTheBestOfVectorsThatEightBitsCannotTellApart) {
  expect_exact(clustered(3000, 384, 0.1F), 10);
  expect_exact(clustered(3000, 384, 1e-4F), 10);
  expect_exact(clustered(1000, 32, 0), 10);  // equal ones: the lower keys
}

TEST(FlatVectors, ComparesOnlyFewScatteredVectorsInFull) {
  std::vector<std::vector<float>> vectors = scattered(10'000, 384);
  FlatVectors flat = filled(vectors);
  std::mt19937 random(17);
  auto found = flat.search(random_vector(random, 384), 10, fetch_from(vectors));
  ASSERT_TRUE(found.ok());
  EXPECT_LT(FlatVectors::last_fetched(), 200U);
}

TEST(FlatVectors, EveryKernelFindsTheSame) {
  std::vector<std::vector<float>> vectors = clustered(1000, 100, 0.3F);
  std::mt19937 random(5);
  std::vector<float> query = random_vector(random, 100);
  auto expected = compare_all(vectors, query, 10, [](std::size_t) { return true; });
  for (const DotKernel& kernel : dot_kernels()) {
    if (!kernel.is_supported) continue;
    auto found = filled(vectors, kernel).search(query, 10, fetch_from(vectors));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, expected) << kernel.name;
  }
}

TEST(FlatVectors, WhatIsNotAcceptedIsReplacedByTheNextBest) {
  std::vector<std::vector<float>> vectors = scattered(3000, 50);
  FlatVectors flat = filled(vectors);
  std::mt19937 random(19);
  for (std::size_t every : {2U, 10U, 500U, 2999U}) {
    auto keep = [&](std::size_t key) { return key % every == 1; };
    std::vector<float> query = random_vector(random, 50);
    std::vector<int> asked(vectors.size());
    auto accept = [&](std::uint64_t key) {
      ++asked[key];
      return Result(keep(key));
    };
    auto found = flat.search(query, 10, fetch_from(vectors), accept);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, compare_all(vectors, query, 10, keep)) << every;
    EXPECT_EQ(*std::max_element(asked.begin(), asked.end()), 1);
  }
}

TEST(FlatVectors, RemovedAndReplacedVectorsAreFoundNoMore) {
  std::vector<std::vector<float>> vectors = scattered(1000, 20);
  FlatVectors flat = filled(vectors);
  for (std::uint64_t key = 0; key < 1000; key += 3) EXPECT_TRUE(flat.remove(key));
  EXPECT_FALSE(flat.remove(0));
  std::mt19937 random(23);
  for (std::uint64_t key = 1; key < 1000; key += 3) {
    vectors[key] = random_vector(random, 20);
    flat.put(key, vectors[key]);
  }
  std::vector<float> query = random_vector(random, 20);
  auto found = flat.search(query, 50, fetch_from(vectors));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, compare_all(vectors, query, 50, [](std::size_t key) { return key % 3 != 0; }));
}

TEST(FlatVectors, HugeAndTinyNumbersKeepTheirDirection) {
  std::vector<std::vector<float>> vectors{{3e38F, 3e38F}, {1e-38F, 2e-38F}, {1, -1}};
  FlatVectors flat = filled(vectors);
  auto found = flat.search(std::vector<float>{1e-30F, 2e-30F}, 3, fetch_from(vectors));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)[0].key, 1U);
  EXPECT_NEAR((*found)[0].score, 1, 1e-6);
  EXPECT_NEAR((*found)[2].score, -1 / std::sqrt(10.0), 1e-6);
}

}  // namespace
}  // namespace warren
