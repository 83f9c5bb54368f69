// A blob store on Redis. The layout, which any client can read (P is the prefix of the store):
//
//   P:KEY      the value itself, with Redis's own expiry
//   P;v:KEY    "VERSION SIZE MODIFIED EXPIRES": microseconds and milliseconds since 1970, 0 for never; expires with it
//   P;index    a sorted set of all KEYs with score 0, for listings in order; expired ones are removed by listings
//
// A change sets all three in one transaction or Lua script, so it is whole. In a cluster P is "{prefix}", which puts
// everything of a store into one slot. A value that another program has set under P:KEY has the version "0" and is in
// no listing.
#pragma once

#include <atomic>
#include <memory>

#include "backends/blob/blob_store.h"
#include "clients/redis.h"
#include "clients/url.h"

namespace warren {

class RedisBlobs final : public BlobStore {
 public:
  // redis://HOST:PORT/DATABASE?prefix=…; see clients/redis.h for the other forms. Does not connect. kInvalid.
  // `timeout` is of one call, unless the URL says otherwise.
  // `clock`, which outlives the store, says when a value was modified; when it expires, Redis's own does.
  static Result<std::unique_ptr<RedisBlobs>> open(const Url& url, std::chrono::milliseconds timeout, Clock& clock);

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
  struct Change;
  RedisBlobs(redis::ClientOptions options, std::string name, const std::string& prefix, Clock& clock);
  static std::string condition_of(const PutOptions& options);
  Result<Change> put_change(std::string_view key, Bytes content, const PutOptions& options);
  Result<redis::Reply> change(std::span<const Change> changes, std::int64_t now_us);
  Status put_plainly(const Change& one, std::int64_t now_us);
  Result<std::optional<Blob>> read(std::string_view key, std::uint64_t offset, std::uint64_t length);
  std::string new_version();

  const std::string name_;
  const std::string values_;  // what precedes the key of a value
  const std::string infos_;
  const std::string index_;
  const std::string process_;  // makes versions unique
  Clock& clock_;
  std::atomic<std::uint64_t> version_count_{0};
  redis::Client client_;
  redis::Script change_script_;
  redis::Script read_script_;
  redis::Script list_script_;
};

}  // namespace warren
