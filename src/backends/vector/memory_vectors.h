// A vector index in this process's memory; nothing lasts.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "backends/vector/flat_vectors.h"
#include "backends/vector/vector_index.h"

namespace warren {

class MemoryVectors final : public VectorIndex {
 public:
  explicit MemoryVectors(const DotKernel& kernel = best_dot_kernel()) : kernel_(kernel) {}

  std::string name() const override { return "memory"; }
  Status upsert(std::span<const VectorItem> items) override;
  Result<std::vector<VectorMatch>> query(const VectorQuery& query) override;
  Result<std::optional<VectorItem>> get(std::string_view id) override;
  Result<bool> remove(std::string_view id) override;
  Result<std::uint64_t> count() override;
  Result<VectorPage> list(const VectorListOptions& options) override;

 private:
  const DotKernel& kernel_;
  std::mutex mutex_;
  std::optional<FlatVectors> vectors_;  // unset while there are none, so that the next item decides the dimension
  std::uint64_t last_key_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> keys_;
  std::unordered_map<std::uint64_t, VectorItem> items_;
};

}  // namespace warren
