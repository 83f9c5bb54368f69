// A blob store in a PostgreSQL table that a whole fleet may share. The table is created when it is missing:
//
//   warren_blobs(prefix text, key bytea, content bytea, version bigint, modified timestamptz, expires timestamptz)
//
// Keys are bytes, because text could not hold every key; convert_from(key, 'UTF8') shows one. Rows that have expired
// are invisible and are deleted a few at a time by those who write.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/blob/blob_store.h"
#include "clients/url.h"
#include "pg/connection.h"

namespace warren {

class PostgresBlobs final : public BlobStore {
 public:
  // postgres://USER@HOST:PORT/DATABASE?prefix=…&table=…; what else the query has is for libpq. Does not connect.
  // kInvalid. `timeout` is of one call, unless the URL says otherwise.
  static Result<std::unique_ptr<PostgresBlobs>> open(const std::string& address,
                                                     const std::optional<std::string>& password,
                                                     std::chrono::milliseconds timeout);
  ~PostgresBlobs() override;

  std::string name() const override { return name_; }
  BlobAbilities abilities() const override;
  Result<std::optional<Blob>> get(std::string_view key) override;
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override;
  Result<std::optional<BlobInfo>> find(std::string_view key) override;
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options = {}) override;
  Result<bool> remove(std::string_view key) override;
  Result<BlobPage> list(const ListOptions& options) override;
  Status apply(std::span<const BlobChange> changes) override;

 private:
  using Instant = std::chrono::steady_clock::time_point;
  struct Session;
  class Lease;
  struct Settings {
    std::string url;  // for libpq
    std::string name;
    std::string prefix;
    std::string table;
    std::chrono::milliseconds timeout{};
    std::size_t connections_max = 0;
  };

  explicit PostgresBlobs(Settings settings);
  Result<std::unique_ptr<Session>> take(Instant until);
  Result<std::unique_ptr<Session>> connect(Instant until);
  void give_back(std::unique_ptr<Session> session);
  Result<std::vector<BlobInfo>> list_rows(Session& session, const std::string& prefix, const std::string& after,
                                          std::size_t limit);
  Status send_batch(Session& session, std::span<const BlobChange> changes);
  void collect_now_and_then(Session& session, std::size_t changes);

  const Settings settings_;
  const std::string& name_ = settings_.name;

  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<Session>> idle_;  // this and the rest are guarded by mutex_
  std::size_t in_use_ = 0;
  bool has_table_ = false;
  std::atomic<std::size_t> changes_{0};  // since rows were collected
};

}  // namespace warren
