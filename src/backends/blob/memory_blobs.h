// A blob store in this process's memory: for tests, and for mounts that need not last.
#pragma once

#include <map>
#include <mutex>

#include "backends/blob/blob_store.h"

namespace warren {

// Thread-safe. The clock outlives it.
class MemoryBlobs final : public BlobStore {
 public:
  static constexpr std::uint64_t kTotalBytes = std::uint64_t{1} << 30;  // of keys and values; kNoSpace beyond

  explicit MemoryBlobs(Clock& clock, std::uint64_t total_bytes = kTotalBytes)
      : clock_(clock), total_bytes_(total_bytes) {}

  std::string name() const override { return "memory:"; }
  BlobAbilities abilities() const override;
  Result<std::optional<Blob>> get(std::string_view key) override;
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override;
  Result<std::optional<BlobInfo>> find(std::string_view key) override;
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options) override;
  Result<bool> remove(std::string_view key) override;
  Result<BlobPage> list(const ListOptions& options) override;
  Status apply(std::span<const BlobChange> changes) override;

 private:
  using Blobs = std::map<std::string, Blob, std::less<>>;

  Blobs::iterator find_live(std::string_view key);  // removes an expired one
  Result<BlobInfo> put_locked(std::string_view key, Bytes content, const PutOptions& options);
  Status change_locked(const BlobChange& change);
  bool erase(std::string_view key);

  Clock& clock_;
  const std::uint64_t total_bytes_;
  std::mutex mutex_;
  Blobs blobs_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t last_version_ = 0;
};

}  // namespace warren
