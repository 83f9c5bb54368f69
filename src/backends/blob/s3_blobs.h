// Blobs as objects of a bucket, on Amazon S3 and servers that speak its protocol. Addresses: s3_settings.h.
//
// A key is the object PREFIX/KEY, its content the object's, so that other programs read and write the same. The version
// is the ETag: equal content may have an equal version. Keys must be UTF-8 without the control characters that XML has
// no way to express, and must not begin with ".warren-s3".
//
// Times to live. S3 has none: the moment is in the metadata (x-amz-meta-warren-expires, milliseconds since 1970), every
// reader checks it, and the version contains it. A listing has no metadata. So a put with a time to live first makes an
// empty object .warren-s3-ttl/KEY; a listing looks at the keys that have one. What has expired is removed when it is
// met if that can be done on the condition that nobody has replaced it: Amazon can; elsewhere its content is removed
// and an empty object stays, hidden, until the key is put or removed.
//
// Conditional puts are tried out with the first one: an object that does not exist is put on the condition that it has
// a certain version. A server that ignores conditions stores it (it is removed again), and then they are kUnsupported.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/blob/blob_store.h"
#include "backends/blob/s3_api.h"
#include "backends/blob/s3_settings.h"

namespace warren {

class S3Blobs final : public BlobStore {
 public:
  // Sends nothing. kUnavailable: a library is not installed.
  static Result<std::unique_ptr<S3Blobs>> open(S3Settings settings, Clock& clock);

  std::string name() const override { return api_.settings().name(); }
  // The first call asks the server whether it understands conditions, unless the settings say so.
  BlobAbilities abilities() const override;

  Result<std::optional<Blob>> get(std::string_view key) override;
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override;
  Result<std::optional<BlobInfo>> find(std::string_view key) override;
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options = {}) override;
  Result<bool> remove(std::string_view key) override;
  Result<BlobPage> list(const ListOptions& options) override;
  Status apply(std::span<const BlobChange> changes) override;

 private:
  struct Entry;    // of a listing
  struct RawPage;  // as the server lists
  struct Put;      // one that is under way

  S3Blobs(S3Settings settings, std::unique_ptr<HttpClient> http, Clock& clock);

  Status check_key(std::string_view key) const;
  // As an answer to HEAD or GET describes it.
  BlobInfo info_from(std::string_view key, const HttpAnswer& answer) const;
  bool is_expired(const BlobInfo& info) const;
  // Removes an object that has expired, if nobody has replaced it. Failures do not matter: the next reader tries again.
  void collect(const BlobInfo& info, Deadline deadline);

  // Also objects that have expired.
  Result<std::optional<BlobInfo>> find_raw(std::string_view key, Deadline deadline, std::string* nonce = nullptr);
  Result<std::optional<Blob>> get_part(std::string_view key, std::uint64_t offset, std::uint64_t length,
                                       const std::string& version, Deadline deadline);
  Status check_bucket(Deadline deadline);

  HttpHeaders put_headers(const Put& put) const;
  Result<BlobInfo> info_of_put(const Put& put, const S3Answer& answer) const;
  Result<BlobInfo> put_whole(const Put& put);
  Result<BlobInfo> put_on_condition(Put& put);
  Status put_mark(std::string_view key, Deadline deadline);
  Result<BlobInfo> put_parts(const Put& put);
  Result<std::string> upload_parts(const Put& put, const std::string& upload);
  // Decides what a refused conditional put means; nullopt: to be tried again, with the condition as it is now.
  Result<std::optional<BlobInfo>> settle(Put& put);
  bool supports_conditions() const;
  std::optional<bool> try_conditions() const;

  Result<RawPage> list_raw(const std::string& below, const ListOptions& options, const std::string& token,
                           Deadline deadline);
  // One page as the server has it, without what is not a blob, but with what has expired.
  Result<RawPage> list_blobs(const ListOptions& options, Deadline deadline);
  // Of the keys and folders up to `last`, those with a mark of a time to live, each with the mark's age.
  Result<std::map<std::string, Timestamp>> list_marks(ListOptions options, const std::string& last, Deadline deadline);
  Status drop_expired(const ListOptions& options, std::vector<Entry>& entries, Deadline deadline);
  Status look_up(std::vector<Entry*>& entries, Deadline deadline);
  Result<bool> has_blob_in(const std::string& folder);

  Status remove_key(const std::string& key, Deadline deadline);
  Status remove_keys(std::span<const std::string> keys, Deadline deadline);

  mutable S3Api api_;
  mutable std::mutex conditions_mutex_;
  mutable std::optional<bool> conditions_;  // under the mutex, as the next one
  mutable Deadline next_trial_{};
  std::atomic<bool> bare_etags_ = false;           // the server wants If-Match without quotes
  mutable std::atomic<bool> bucket_seen_ = false;  // it exists
};

}  // namespace warren
