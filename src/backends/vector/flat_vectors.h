// Exact nearest vectors by cosine: the mathematics of the embedded index.
//
// In memory a vector is 8-bit numbers with a scale, and a bound on the error that this makes in a cosine. A search
// computes all cosines from those, and the real ones only of vectors that, given the bounds, may be among the best. So
// the result is exactly that of comparing every vector in full; data on which the bounds say little only take longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "backends/vector/dot.h"
#include "base/result.h"

namespace warren {

struct FlatMatch {
  std::uint64_t key = 0;
  double score = 0;  // the cosine

  bool operator==(const FlatMatch&) const = default;
};

// The same on every machine. Neither may be all zeros.
double cosine(std::span<const float> a, std::span<const float> b);

// Several threads may search at the same time; a change excludes everything else.
class FlatVectors {
 public:
  explicit FlatVectors(std::size_t dimension, const DotKernel& kernel = best_dot_kernel());

  std::size_t dimension() const { return dimension_; }
  std::size_t size() const { return keys_.size(); }
  bool has(std::uint64_t key) const { return slots_.contains(key); }
  const std::vector<std::uint64_t>& keys() const { return keys_; }  // in no order

  // Vectors are of the dimension, finite and not all zeros (check_embedding).
  void put(std::uint64_t key, std::span<const float> vector);
  bool remove(std::uint64_t key);

  // The vector in full; what it returns stays valid until the next call.
  using Fetch = std::function<Result<std::span<const float>>(std::uint64_t key)>;
  // Whether the vector counts. Asked at most once for each, and only for good ones.
  using Accept = std::function<Result<bool>(std::uint64_t key)>;
  // Best first; of equally good ones, the lower key first. `accept` may be empty.
  Result<std::vector<FlatMatch>> search(std::span<const float> query, std::size_t top_k, const Fetch& fetch,
                                        const Accept& accept = {}) const;

  // How many vectors the last search of this thread compared in full; for tests and benchmarks.
  static std::size_t last_fetched();

 private:
  struct Code;
  struct Candidate;
  struct FreeBytes {
    void operator()(std::int8_t* bytes) const { std::free(bytes); }
  };

  Code encode(std::span<const float> vector, std::int8_t* codes) const;
  void reserve(std::size_t count);
  // All vectors whose cosine may be at least that of the `wanted` best, most promising first, and a lower bound of the
  // cosines of the `wanted` best: all others are below it.
  std::pair<std::vector<Candidate>, float> find_candidates(std::span<const float> query, std::size_t wanted) const;

  std::size_t dimension_;
  std::size_t stride_;
  DotRows dot_;
  std::unique_ptr<std::int8_t, FreeBytes> codes_;
  std::size_t capacity_ = 0;
  // By slot; the last slot moves into that of a removed vector.
  std::vector<float> scales_;
  std::vector<float> errors_;
  std::vector<std::uint64_t> keys_;
  std::unordered_map<std::uint64_t, std::size_t> slots_;
};

}  // namespace warren
