// Blobs in a SQLite file of their own, one row each. Several processes may use the file at once.
#pragma once

#include <memory>

#include "backends/blob/blob_store.h"
#include "db/database.h"

namespace warren {

// Thread-safe. The clock outlives it.
class SqliteBlobs final : public BlobStore {
 public:
  // SQLite reads a row whole, also for a range of it.
  static constexpr std::uint64_t kLargest = std::uint64_t{64} << 20;

  // Makes the file if there is none. kInvalid if it is a database of something else.
  static Result<std::unique_ptr<SqliteBlobs>> open(const std::string& path, Clock& clock);

  std::string name() const override { return "sqlite:" + db_->path(); }
  BlobAbilities abilities() const override {
    return {.conditional_removals = true, .whole_batches = true, .largest = kLargest};
  }
  Result<std::optional<Blob>> get(std::string_view key) override;
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override;
  Result<std::optional<BlobInfo>> find(std::string_view key) override;
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options) override;
  Result<bool> remove(std::string_view key) override;
  Result<BlobPage> list(const ListOptions& options) override;
  Status apply(std::span<const BlobChange> changes) override;

 private:
  SqliteBlobs(std::unique_ptr<Database> db, Clock& clock) : db_(std::move(db)), clock_(clock) {}

  Status prepare();
  Result<std::optional<BlobInfo>> find_row(std::string_view key);
  Result<BlobInfo> put_row(std::string_view key, Bytes content, const PutOptions& options);
  Result<bool> remove_row(std::string_view key, const PutOptions& options);

  std::unique_ptr<Database> db_;
  Clock& clock_;
  Statement find_;
  Statement read_;
  Statement range_;
  Statement insert_;
  Statement delete_;
  Statement list_;
  Statement collect_;
};

}  // namespace warren
