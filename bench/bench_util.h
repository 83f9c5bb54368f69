// Shared by the benchmarks of all contenders: a scratch directory, and content that differs each time, because SQLite
// skips writing unchanged data.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include <benchmark/benchmark.h>

namespace bench {

inline constexpr std::size_t kFileBytes = 4096;
inline constexpr std::size_t kBigBytes = std::size_t{64} << 20;
inline constexpr int kFiles = 1000;  // in the directory that is read and listed
inline constexpr int kDeep = 10;
inline constexpr int kBatch = 100;

// A separate directory for each benchmark, on the disk that WARREN_BENCH_DIR names (else TMPDIR).
class Scratch {
 public:
  Scratch() {
    const char* root = std::getenv("WARREN_BENCH_DIR");
    if (root == nullptr) root = std::getenv("TMPDIR");
    path_ = std::string(root != nullptr ? root : "/tmp") + "/warren-bench-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void vary(std::string& content, std::uint64_t seed) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (std::size_t i = 0; i + 8 <= content.size(); i += 8) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    std::memcpy(content.data() + i, &x, 8);
  }
}

inline std::string deep_path() {
  std::string path;
  for (int i = 0; i < kDeep - 1; ++i) path += "/d" + std::to_string(i);
  return path + "/file";
}

// A cheap generator, so that random offsets add nothing to the measured time.
inline std::uint64_t next_random(std::uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

}  // namespace bench
