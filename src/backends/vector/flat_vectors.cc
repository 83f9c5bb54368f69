#include "backends/vector/flat_vectors.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace warren {
namespace {

constexpr std::size_t kScanBlock = 512;  // rows whose products are kept at a time: fits the first cache
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr float kRounding = 1e-5F;  // far above what float arithmetic adds to the bounds

thread_local std::size_t fetched_count = 0;

// Eight sums, so that the compiler can use vector instructions without changing the order of additions.
double dot_exact(std::span<const float> a, std::span<const float> b) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + 8 <= a.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  for (; i < a.size(); ++i) sums[i % 8] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

bool is_better(const FlatMatch& a, const FlatMatch& b) {
  return a.score != b.score ? a.score > b.score : a.key < b.key;
}

}  // namespace

struct FlatVectors::Code {
  float scale = 0;
  float error = 0;  // length of the difference between the unit vector and what its numbers say
};

struct FlatVectors::Candidate {
  float upper = 0;
  std::size_t slot = 0;
};

double cosine(std::span<const float> a, std::span<const float> b) {
  return dot_exact(a, b) / (std::sqrt(dot_exact(a, a)) * std::sqrt(dot_exact(b, b)));
}

std::size_t FlatVectors::last_fetched() { return fetched_count; }

FlatVectors::FlatVectors(std::size_t dimension, const DotKernel& kernel)
    : dimension_(dimension),
      stride_((dimension + kDotAlignment - 1) / kDotAlignment * kDotAlignment),
      dot_(kernel.run) {
  WARREN_CHECK(dimension > 0);
}

FlatVectors::Code FlatVectors::encode(std::span<const float> vector, std::int8_t* codes) const {
  double length = std::sqrt(dot_exact(vector, vector));
  double largest = 0;
  for (float number : vector) largest = std::max(largest, std::abs(static_cast<double>(number)));
  double scale = largest / length / 127;
  double squares = 0;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    double number = static_cast<double>(vector[i]) / length;
    double code = std::clamp(std::nearbyint(number / scale), -127.0, 127.0);
    codes[i] = static_cast<std::int8_t>(code);
    double left = number - scale * code;
    squares += left * left;
  }
  std::fill(codes + vector.size(), codes + stride_, std::int8_t{0});
  return {.scale = static_cast<float>(scale), .error = static_cast<float>(std::sqrt(squares) * 1.000001)};
}

void FlatVectors::reserve(std::size_t count) {
  if (count <= capacity_) return;
  std::size_t capacity = std::max({count, capacity_ * 2, std::size_t{64}});
  std::size_t bytes = (capacity * stride_ + kHugePage - 1) / kHugePage * kHugePage;
  if (capacity * stride_ < kHugePage) bytes = capacity * stride_;  // a multiple of kDotAlignment
  auto* made = static_cast<std::int8_t*>(std::aligned_alloc(bytes < kHugePage ? kDotAlignment : kHugePage, bytes));
  WARREN_CHECK(made != nullptr);
  if (bytes >= kHugePage) madvise(made, bytes, MADV_HUGEPAGE);  // only makes it faster
  if (size() > 0) std::memcpy(made, codes_.get(), size() * stride_);
  codes_.reset(made);
  capacity_ = capacity;
}

void FlatVectors::put(std::uint64_t key, std::span<const float> vector) {
  WARREN_CHECK(vector.size() == dimension_);
  auto [place, is_new] = slots_.try_emplace(key, size());
  std::size_t slot = place->second;
  if (is_new) {
    reserve(size() + 1);
    keys_.push_back(key);
    scales_.push_back(0);
    errors_.push_back(0);
  }
  Code code = encode(vector, codes_.get() + slot * stride_);
  scales_[slot] = code.scale;
  errors_[slot] = code.error;
}

bool FlatVectors::remove(std::uint64_t key) {
  auto found = slots_.find(key);
  if (found == slots_.end()) return false;
  std::size_t slot = found->second;
  std::size_t last = size() - 1;
  slots_.erase(found);
  if (slot != last) {
    std::memcpy(codes_.get() + slot * stride_, codes_.get() + last * stride_, stride_);
    scales_[slot] = scales_[last];
    errors_[slot] = errors_[last];
    keys_[slot] = keys_[last];
    slots_[keys_[slot]] = slot;
  }
  scales_.pop_back();
  errors_.pop_back();
  keys_.pop_back();
  return true;
}

// For unit vectors x and q and what their numbers say, x' and q': x·q - x'·q' = (x - x')·q + x'·(q - q'), which is at
// most |x - x'| + (1 + |x - x'|) |q - q'|.
std::pair<std::vector<FlatVectors::Candidate>, float> FlatVectors::find_candidates(std::span<const float> query,
                                                                                   std::size_t wanted) const {
  std::vector<std::int8_t> codes(stride_);
  Code code = encode(query, codes.data());
  std::array<std::int32_t, kScanBlock> products{};
  std::vector<Candidate> candidates;
  std::vector<float> best;  // a heap of the `wanted` highest lower bounds, the lowest in front
  float threshold = -std::numeric_limits<float>::infinity();
  for (std::size_t begin = 0; begin < size(); begin += kScanBlock) {
    std::size_t count = std::min(kScanBlock, size() - begin);
    dot_(codes.data(), codes_.get() + begin * stride_, count, stride_, products.data());
    for (std::size_t i = 0; i < count; ++i) {
      float value = static_cast<float>(products[i]) * scales_[begin + i] * code.scale;
      float error = errors_[begin + i] * (1 + code.error) + code.error + kRounding;
      if (value + error < threshold) continue;
      candidates.push_back({.upper = value + error, .slot = begin + i});
      if (best.size() == wanted) {
        if (value - error <= best.front()) continue;
        std::pop_heap(best.begin(), best.end(), std::greater());
        best.pop_back();
      }
      best.push_back(value - error);
      std::push_heap(best.begin(), best.end(), std::greater());
      if (best.size() == wanted) threshold = best.front();
    }
  }
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.upper < threshold; });
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.upper > b.upper; });
  return {std::move(candidates), threshold};
}

Result<std::vector<FlatMatch>> FlatVectors::search(std::span<const float> query, std::size_t top_k, const Fetch& fetch,
                                                   const Accept& accept) const {
  WARREN_CHECK(query.size() == dimension_);
  fetched_count = 0;
  std::vector<FlatMatch> found;  // a heap of at most top_k, the worst in front
  if (top_k == 0) return found;
  std::vector<bool> is_decided(accept ? size() : 0);
  double query_length = std::sqrt(dot_exact(query, query));
  // Without `accept` once; with it, until enough were accepted, each time with more candidates.
  for (std::size_t wanted = top_k;; wanted *= 8) {
    auto [candidates, threshold] = find_candidates(query, wanted);
    for (const Candidate& candidate : candidates) {
      // Exactly as good counts: its key may be lower.
      if (found.size() == top_k && static_cast<double>(candidate.upper) < found.front().score) break;
      if (accept && is_decided[candidate.slot]) continue;
      std::uint64_t key = keys_[candidate.slot];
      std::span<const float> vector = WARREN_TRY(fetch(key));
      ++fetched_count;
      double score = dot_exact(query, vector) / (query_length * std::sqrt(dot_exact(vector, vector)));
      FlatMatch match{.key = key, .score = score};
      if (found.size() == top_k && !is_better(match, found.front())) continue;
      if (accept) {
        is_decided[candidate.slot] = true;
        if (!WARREN_TRY(accept(key))) continue;
      }
      found.push_back(match);
      std::push_heap(found.begin(), found.end(), is_better);
      if (found.size() > top_k) {
        std::pop_heap(found.begin(), found.end(), is_better);
        found.pop_back();
      }
    }
    bool is_complete = found.size() == top_k && found.front().score >= static_cast<double>(threshold);
    if (!accept || is_complete || wanted >= size()) break;
  }
  std::sort(found.begin(), found.end(), is_better);
  return found;
}

}  // namespace warren
