// A store of the library's user (warren/v1/blob_store.h) as a BlobStore.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <warren/v1/blob_store.h>

#include "backends/blob/blob_store.h"

namespace warren::v1 {

// What the user's code throws, and an answer that cannot be right, are errors of the call (kIo), and never more.
class OwnBlobs final : public warren::BlobStore {
 public:
  explicit OwnBlobs(std::shared_ptr<v1::BlobStore> store);  // which the user may hold, too

  std::string name() const override { return name_; }
  warren::BlobAbilities abilities() const override { return abilities_; }
  Result<std::optional<warren::Blob>> get(std::string_view key) override;
  Result<std::optional<warren::Blob>> get_range(std::string_view key, std::uint64_t offset,
                                                std::uint64_t length) override;
  Result<std::optional<warren::BlobInfo>> find(std::string_view key) override;
  Result<warren::BlobInfo> put(std::string_view key, Bytes content, const warren::PutOptions& options) override;
  Result<bool> remove(std::string_view key) override;
  Result<BlobPage> list(const ListOptions& options) override;
  Status apply(std::span<const BlobChange> changes) override;

 private:
  template <class Call>
  auto guarded(Call call) -> decltype(call());
  Error wrong(std::string_view what) const;
  Result<std::vector<warren::BlobInfo>> list_keys(const std::string& prefix, const std::string& after,
                                                  std::size_t limit);

  std::shared_ptr<v1::BlobStore> store_;
  std::string name_;
  warren::BlobAbilities abilities_;
};

}  // namespace warren::v1
