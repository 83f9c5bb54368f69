// A vector index as a blob store, so that it can be mounted: item "a/b" is the value "a/b.json", which is
// {"text": …, "embedding": […], "metadata": {…}}.
//
// A value is what the index made of it: the same item, not the same bytes. A listing asks for each item, since only
// that tells its size, and reads all ids of the folder above the prefix.
//
// An index has no place for a value without content: a file that was just made, or what marks a folder as such. It is
// kept in this process until it gets one.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backends/blob/blob_store.h"
#include "backends/open_backend.h"
#include "backends/vector/vector_index.h"

namespace warren {

class VectorBlobs final : public BlobStore {
 public:
  explicit VectorBlobs(std::unique_ptr<VectorIndex> index) : index_(std::move(index)) {}
  static Result<std::unique_ptr<BlobStore>> open(const std::string& address, const BackendOptions& options);

  VectorIndex& index() { return *index_; }  // for queries

  std::string name() const override { return index_->name(); }
  BlobAbilities abilities() const override;
  Result<std::optional<Blob>> get(std::string_view key) override;
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override;
  Result<std::optional<BlobInfo>> find(std::string_view key) override;
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options) override;
  Result<bool> remove(std::string_view key) override;
  Result<BlobPage> list(const ListOptions& options) override;
  Status apply(std::span<const BlobChange> changes) override;

 private:
  Status put_empty(std::string_view key);
  Result<std::vector<BlobInfo>> list_plain(const std::string& prefix, const std::string& after, std::size_t limit);

  std::unique_ptr<VectorIndex> index_;
  std::mutex empty_mutex_;
  std::set<std::string, std::less<>> empty_;  // keys of values without content
};

}  // namespace warren
