// Helpers for copying a mounted store: its listing, and work in batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/checkpoints/working_copy.h"
#include "backends/blob/blob_store.h"
#include "base/result.h"

namespace warren {

// All values, sorted by key; nullopt if the store cannot list. kTooLarge beyond the budget.
Result<std::optional<std::vector<BlobInfo>>> list_mounted(BlobStore& store, std::string_view mount, CopyBudget& budget);

// Stands for one version of a value in one store. Empty if the store cannot tell whether the value changes.
std::string mounted_token(std::string_view identity, const BlobInfo& info);

// The end of a batch that starts at `at`: up to 256 values, or up to 16 MiB of them and at least one.
template <class SizeOf>
std::size_t batch_end(std::size_t count, std::size_t at, const SizeOf& size_of) {
  constexpr std::size_t kBatchValues = 256;
  constexpr std::uint64_t kBatchBytes = std::uint64_t{16} << 20;
  std::uint64_t bytes = 0;
  std::size_t end = at;
  while (end < count && end - at < kBatchValues) {
    bytes += size_of(end);
    if (end > at && bytes > kBatchBytes) break;
    ++end;
  }
  return end;
}

}  // namespace warren
