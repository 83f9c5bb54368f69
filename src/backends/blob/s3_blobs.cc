#include "backends/blob/s3_blobs.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "base/ascii.h"
#include "base/path.h"
#include "base/utf8.h"
#include "clients/url.h"
#include "clients/xml.h"
#include "crypto/digest.h"

namespace warren {
namespace {

constexpr std::string_view kReservedKeys = ".warren-s3";
constexpr std::string_view kExpiresHeader = "x-amz-meta-warren-expires";
constexpr std::string_view kNonceHeader = "x-amz-meta-warren-put";
constexpr std::uint64_t kFirstReadBytes = std::uint64_t{4} << 20;  // without more time than for any call
constexpr std::uint64_t kReadBytes = std::uint64_t{16} << 20;      // of one request
constexpr std::uint64_t kLargestOffset = std::uint64_t{1} << 50;   // beyond any object
constexpr std::size_t kLongestS3Key = 1024;
constexpr std::uint64_t kLargest = BlobAbilities{}.largest;
constexpr std::int64_t kLastSecond = 253'402'300'799;  // of the year 9999; later means never
constexpr int kConditionRounds = 5;

Timestamp timestamp_of_ms(std::int64_t ms) {
  ms = std::max<std::int64_t>(ms, 0);  // from outside
  return {.seconds = ms / 1000, .nanoseconds = static_cast<std::int32_t>(ms % 1000 * 1'000'000)};
}

std::int64_t ms_of(Timestamp at) { return at.seconds * 1000 + at.nanoseconds / 1'000'000; }

// The version of an object that expires: a condition on it does not hold any more once it has expired.
std::string version_of(const std::string& etag, const std::optional<Timestamp>& expires) {
  return expires ? fmt::format("{}@{}", etag, ms_of(*expires)) : etag;
}

std::string etag_of(std::string_view version) { return std::string(version.substr(0, version.rfind('@'))); }

std::optional<Timestamp> expiry_in(std::string_view version) {
  std::size_t at = version.rfind('@');
  if (at == std::string_view::npos) return std::nullopt;
  auto ms = parse_number<std::int64_t>(version.substr(at + 1));
  return ms ? std::optional(timestamp_of_ms(*ms)) : std::nullopt;
}

// Whether a server could have given this version. Others would mean something else in the header If-Match.
bool is_etag(std::string_view etag) {
  for (char c : etag) {
    if (c <= ' ' || c == '"' || c == ',' || c == '\x7f') return false;
  }
  return !etag.empty() && etag != "*";
}

std::string range_header(std::uint64_t offset, std::uint64_t length) {
  return fmt::format("bytes={}-{}", offset, offset + length - 1);
}

// The size of the whole object: "bytes 0-9/1234".
std::optional<std::uint64_t> total_size(const HttpAnswer& answer) {
  const std::string* range = answer.find("content-range");
  if (range == nullptr) return std::nullopt;
  std::size_t slash = range->find('/');
  if (slash == std::string::npos) return std::nullopt;
  return parse_number<std::uint64_t>(std::string_view(*range).substr(slash + 1));
}

}  // namespace

struct S3Blobs::Put {
  std::string_view key;
  Bytes content;
  std::optional<Timestamp> expires;
  bool if_absent = false;
  std::string if_match;  // an ETag; empty: none. With if_absent: of an expired object, which counts as absent
  bool is_bare = false;  // the ETag without its quotes, as some servers want it
  std::string nonce;     // shows whether the object that is there is ours
  Deadline deadline;

  bool is_conditional() const { return if_absent || !if_match.empty(); }
};

S3Blobs::S3Blobs(S3Settings settings, std::unique_ptr<HttpClient> http, Clock& clock)
    : api_(std::move(settings), std::move(http), clock), conditions_(api_.settings().conditional) {}

Result<std::unique_ptr<S3Blobs>> S3Blobs::open(S3Settings settings, Clock& clock) {
  auto http = WARREN_TRY(HttpClient::open({.connect_timeout = settings.timeout, .ca_file = settings.ca_file}));
  WARREN_TRY(parse_xml("<a/>"));  // the library is there
  return std::unique_ptr<S3Blobs>(new S3Blobs(std::move(settings), std::move(http), clock));
}

BlobAbilities S3Blobs::abilities() const {
  return {.conditional_puts = supports_conditions(), .ttl = api_.settings().ttl, .whole_batches = false};
}

Status S3Blobs::check_key(std::string_view key) const {
  WARREN_TRY(check_blob_key(key));
  if (!is_utf8(key)) return Error(Code::kInvalid, fmt::format("key {}: S3 takes only keys in UTF-8", quote(key)));
  if (!escape_xml(key).ok()) {
    return Error(Code::kInvalid, fmt::format("key {}: S3 cannot list keys with control characters", quote(key)));
  }
  if (key.starts_with(kReservedKeys)) {
    return Error(Code::kInvalid,
                 fmt::format("key {}: keys that begin with \"{}\" are reserved", quote(key), kReservedKeys));
  }
  if (api_.settings().prefix.size() + key.size() > kLongestS3Key) {
    return Error(Code::kNameTooLong, fmt::format("the key is {} bytes long with the store's prefix; S3 takes {}",
                                                 api_.settings().prefix.size() + key.size(), kLongestS3Key));
  }
  return Ok{};
}

// Reading.

BlobInfo S3Blobs::info_from(std::string_view key, const HttpAnswer& answer) const {
  BlobInfo info{.key = std::string(key)};
  if (const std::string* expires = answer.find(kExpiresHeader)) {
    if (auto ms = parse_number<std::int64_t>(*expires)) info.expires = timestamp_of_ms(*ms);
  }
  if (const std::string* etag = answer.find("etag")) info.version = version_of(unquoted_etag(*etag), info.expires);
  if (const std::string* modified = answer.find("last-modified")) {
    info.modified = parse_http_date(*modified).value_or(Timestamp{});
  }
  if (const std::string* length = answer.find("content-length")) {
    info.size = parse_number<std::uint64_t>(*length).value_or(0);
  }
  if (std::optional<std::uint64_t> total = total_size(answer)) info.size = *total;
  return info;
}

bool S3Blobs::is_expired(const BlobInfo& info) const { return info.expires && *info.expires <= api_.now(); }

void S3Blobs::collect(const BlobInfo& info, Deadline deadline) {
  std::string etag = etag_of(info.version);
  if (api_.settings().endpoint.ends_with(".amazonaws.com")) {
    HttpHeaders headers = {{"If-Match", fmt::format("\"{}\"", etag)}};
    api_.send({.method = "DELETE", .key = info.key, .headers = headers}, deadline)
        .ignore("the next reader tries again");
    return;
  }
  if (info.size == 0 || !supports_conditions()) return;
  Put put{.key = info.key,
          .content = {},
          .expires = info.expires,
          .if_absent = false,
          .if_match = etag,
          .nonce = random_digits(),
          .deadline = deadline};
  put_on_condition(put).ignore("the next reader tries again");
}

Status S3Blobs::check_bucket(Deadline deadline) {
  if (bucket_seen_) return Ok{};
  S3Answer answer =
      WARREN_TRY(api_.send({.method = "GET",
                            .key = {},
                            .query = {{"list-type", "2"}, {"max-keys", "1"}, {"prefix", api_.settings().prefix}}},
                           deadline));
  if (answer.is_success()) bucket_seen_ = true;
  if (answer.code == "NoSuchBucket") return api_.failure(answer);
  return Ok{};
}

Result<std::optional<BlobInfo>> S3Blobs::find_raw(std::string_view key, Deadline deadline, std::string* nonce) {
  S3Answer answer = WARREN_TRY(api_.send({.method = "HEAD", .key = std::string(key)}, deadline));
  if (answer.status() == 404) {
    WARREN_TRY(check_bucket(deadline));  // an answer to HEAD does not say what is missing
    return std::optional<BlobInfo>();
  }
  if (!answer.is_success()) return api_.failure(answer);
  bucket_seen_ = true;
  if (nonce != nullptr) {
    const std::string* found = answer.http.find(kNonceHeader);
    *nonce = found == nullptr ? "" : *found;
  }
  return std::optional(info_from(key, answer.http));
}

Result<std::optional<BlobInfo>> S3Blobs::find(std::string_view key) {
  WARREN_TRY(check_key(key));
  Deadline deadline = api_.deadline_for(0);
  std::optional<BlobInfo> info = WARREN_TRY(find_raw(key, deadline));
  if (info && is_expired(*info)) {
    collect(*info, deadline);
    return std::optional<BlobInfo>();
  }
  return info;
}

// `version`: kStale unless it is still that one; empty: any. With all of an object, kTooLarge if it has more than
// kFirstReadBytes. That is a request without a range, for which Ceph asks its store once instead of twice.
Result<std::optional<Blob>> S3Blobs::get_part(std::string_view key, std::uint64_t offset, std::uint64_t length,
                                              const std::string& version, Deadline deadline) {
  S3Request request{.method = "GET", .key = std::string(key)};
  if (offset == 0 && length == kLargestOffset) {
    request.answer_bytes_max = kFirstReadBytes;
  } else {
    request.headers.emplace_back("Range", range_header(offset, length));
    request.answer_bytes_max = std::max<std::size_t>(request.answer_bytes_max, length);
  }
  if (!version.empty()) request.headers.emplace_back("If-Match", fmt::format("\"{}\"", etag_of(version)));
  S3Answer answer = WARREN_TRY(api_.send(request, deadline));
  if (answer.status() == 412) return Error(Code::kStale, fmt::format("{} was replaced while it was read", quote(key)));
  if (answer.status() == 404 && answer.code != "NoSuchBucket") return std::optional<Blob>();
  Blob blob;
  if (answer.status() == 416) {  // there is nothing at the offset, or nothing at all
    std::optional<BlobInfo> info = WARREN_TRY(find_raw(key, deadline));
    if (!info) return std::optional<Blob>();
    blob.info = std::move(*info);
  } else if (answer.is_success()) {
    bucket_seen_ = true;
    blob.info = info_from(key, answer.http);
    blob.content = std::move(answer.http.body);
    if (answer.status() == 200) {  // all of it was wanted, or the server does not know ranges
      blob.info.size = blob.content.size();
      if (offset > 0) blob.content.erase(0, std::min<std::size_t>(offset, blob.content.size()));
      if (blob.content.size() > length) blob.content.resize(length);
    }
    std::uint64_t expected = offset >= blob.info.size ? 0 : std::min(length, blob.info.size - offset);
    if (blob.content.size() != expected) {
      return Error(Code::kCorrupt, fmt::format("s3://{}: the server sent {} bytes of {} instead of {}",
                                               api_.settings().bucket, blob.content.size(), quote(key), expected));
    }
  } else {
    return api_.failure(answer);
  }
  if (!is_expired(blob.info)) return std::optional(std::move(blob));
  collect(blob.info, deadline);
  return std::optional<Blob>();
}

Result<std::optional<Blob>> S3Blobs::get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) {
  WARREN_TRY(check_key(key));
  if (length == 0 || offset >= kLargestOffset) {
    std::optional<BlobInfo> info = WARREN_TRY(find(key));
    if (!info) return std::optional<Blob>();
    return std::optional(Blob{.info = std::move(*info), .content = {}});
  }
  length = std::min(length, kLargestOffset - offset);
  if (length == kLargestOffset) {
    Result<std::optional<Blob>> whole = get_part(key, 0, length, "", api_.deadline_for(0));
    if (whole.ok() || whole.error().code() != Code::kTooLarge) return whole;
  }
  for (int round = 1;; ++round) {
    // In pieces, so that each has its time, and a lost connection costs one piece.
    std::uint64_t piece = std::min(length, kFirstReadBytes);
    std::optional<Blob> blob = WARREN_TRY(get_part(key, offset, piece, "", api_.deadline_for(0)));
    if (!blob) return blob;
    std::uint64_t end = std::min(offset + length, std::max(blob->info.size, offset));
    if (end - offset > kLargest) {
      return Error(Code::kTooLarge,
                   fmt::format("{} has {} bytes; at most {} are read at once", quote(key), end - offset, kLargest));
    }
    blob->content.reserve(end - offset);
    bool is_whole = true;
    while (offset + blob->content.size() < end) {
      std::uint64_t at = offset + blob->content.size();
      piece = std::min(end - at, kReadBytes);
      auto next = get_part(key, at, piece, blob->info.version, api_.deadline_for(piece));
      bool is_gone = next.ok() ? !*next : next.error().code() == Code::kStale;
      if (!next.ok() && !is_gone) return next;
      is_whole = !is_gone;
      if (is_gone) break;
      blob->content += (*next)->content;
    }
    if (is_whole) return blob;
    if (round == kConditionRounds) {
      return Error(Code::kBusy, fmt::format("{} is replaced faster than it can be read", quote(key)));
    }
  }
}

Result<std::optional<Blob>> S3Blobs::get(std::string_view key) { return get_range(key, 0, kLargestOffset); }

// Writing.

HttpHeaders S3Blobs::put_headers(const Put& put) const {
  HttpHeaders headers = {{"Content-Type", "application/octet-stream"}, {std::string(kNonceHeader), put.nonce}};
  if (put.expires) headers.emplace_back(kExpiresHeader, std::to_string(ms_of(*put.expires)));
  std::string_view quotes = put.is_bare ? "" : "\"";
  if (!put.if_match.empty()) headers.emplace_back("If-Match", fmt::format("{0}{1}{0}", quotes, put.if_match));
  else if (put.if_absent) headers.emplace_back("If-None-Match", "*");
  return headers;
}

Result<BlobInfo> S3Blobs::info_of_put(const Put& put, const S3Answer& answer) const {
  bucket_seen_ = true;
  BlobInfo info = info_from(put.key, answer.http);
  if (info.version.empty()) {
    return Error(Code::kCorrupt, fmt::format("s3://{}: the server stored {}, but did not return its ETag",
                                             api_.settings().bucket, quote(put.key)));
  }
  info.size = put.content.size();
  info.expires = put.expires;
  info.version = version_of(etag_of(info.version), put.expires);
  const std::string* date = answer.http.find("date");
  info.modified = (date == nullptr ? std::nullopt : parse_http_date(*date)).value_or(api_.now());
  return info;
}

Result<BlobInfo> S3Blobs::put_whole(const Put& put) {
  S3Answer answer = WARREN_TRY(api_.send(
      {.method = "PUT", .key = std::string(put.key), .headers = put_headers(put), .body = put.content}, put.deadline));
  if (answer.is_success()) return info_of_put(put, answer);
  bool is_refused = answer.status() == 412 || (answer.status() == 404 && answer.code != "NoSuchBucket");
  if (put.is_conditional() && is_refused) return Error(Code::kConflict, "the condition does not hold");
  return api_.failure(answer);
}

// The XML that completes the upload.
Result<std::string> S3Blobs::upload_parts(const Put& put, const std::string& upload) {
  std::uint64_t size = api_.settings().part_bytes;
  std::string list = "<CompleteMultipartUpload>";
  int number = 0;
  for (std::uint64_t at = 0; at < put.content.size(); at += size) {
    S3Request request{.method = "PUT",
                      .key = std::string(put.key),
                      .query = {{"partNumber", std::to_string(++number)}, {"uploadId", upload}},
                      .headers = {},
                      .body = put.content.subspan(at, std::min(size, put.content.size() - at))};
    S3Answer answer = WARREN_TRY(api_.send(request, put.deadline));
    if (!answer.is_success()) return api_.failure(answer);
    const std::string* etag = answer.http.find("etag");
    if (etag == nullptr) return Error(Code::kCorrupt, "the server did not return the ETag of a part");
    std::string escaped = WARREN_TRY(escape_xml(*etag));
    list += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", number, escaped);
  }
  return list + "</CompleteMultipartUpload>";
}

Result<BlobInfo> S3Blobs::put_parts(const Put& put) {
  std::string key(put.key);
  S3Answer begun = WARREN_TRY(
      api_.send({.method = "POST", .key = key, .query = {{"uploads", ""}}, .headers = put_headers(put)}, put.deadline));
  if (!begun.is_success()) return api_.failure(begun);
  XmlElement root = WARREN_TRY(parse_xml(begun.http.body).within("answer of S3"));
  std::string upload(root.text_of("UploadId"));
  if (upload.empty()) return Error(Code::kCorrupt, "the server did not name the upload");

  auto complete = [&]() -> Result<BlobInfo> {
    std::string list = WARREN_TRY(upload_parts(put, upload));
    S3Answer answer = WARREN_TRY(api_.send({.method = "POST",
                                            .key = key,
                                            .query = {{"uploadId", upload}},
                                            .headers = {{"Content-Type", "application/xml"}},
                                            .body = as_bytes(list)},
                                           put.deadline));
    // A failure may come with status 200, since the answer begins before the server is done. An answer may have been
    // lost, in which case the upload is not known any more. Ceph 16 leaves the ETag empty. Then the object itself
    // tells.
    Result<XmlElement> done = parse_xml(answer.http.body);
    bool is_done = answer.is_success() && done.ok() && done->name == "CompleteMultipartUploadResult";
    if (is_done && !done->text_of("ETag").empty()) {
      answer.http.headers.emplace_back("etag", done->text_of("ETag"));
      return info_of_put(put, answer);
    }
    std::string nonce;
    std::optional<BlobInfo> there = WARREN_TRY(find_raw(key, put.deadline, &nonce));
    if (there && nonce == put.nonce) return *there;
    if (!answer.is_success()) return api_.failure(answer);
    return Error(Code::kUnavailable, fmt::format("s3://{}: the server did not complete the upload of {}",
                                                 api_.settings().bucket, quote(key)));
  };
  Result<BlobInfo> result = complete();
  if (!result.ok()) {
    // With time of its own: what is left of the call's may be none.
    api_.send({.method = "DELETE", .key = key, .query = {{"uploadId", upload}}}, api_.deadline_for(0))
        .ignore("the server's own clean-up removes the parts");
  }
  return result;
}

Result<std::optional<BlobInfo>> S3Blobs::settle(Put& put) {
  std::string nonce;
  std::optional<BlobInfo> there = WARREN_TRY(find_raw(put.key, put.deadline, &nonce));
  // The put was repeated because its first answer was lost, and met itself.
  if (there && nonce == put.nonce) return there;
  bool is_right = there && !put.if_match.empty() && etag_of(there->version) == put.if_match;
  if (is_right && !put.is_bare) {  // Ceph 16 compares the quotes, too
    put.is_bare = true;
    return std::optional<BlobInfo>();
  }
  if (!put.if_absent) {
    return Error(Code::kConflict,
                 fmt::format("{} was {} by another writer", quote(put.key), there ? "changed" : "removed"));
  }
  if (there && !is_expired(*there)) return Error(Code::kExists, fmt::format("{} already has a value", quote(put.key)));
  put.if_match = there ? etag_of(there->version) : "";
  return std::optional<BlobInfo>();
}

Result<BlobInfo> S3Blobs::put(std::string_view key, Bytes content, const PutOptions& options) {
  WARREN_TRY(check_key(key));
  BlobAbilities can{.ttl = api_.settings().ttl};
  if (options.if_match || options.if_absent) can.conditional_puts = supports_conditions();
  WARREN_TRY(check_blob_put(can, key, content.size(), options));
  Put put{.key = key,
          .content = content,
          .expires = {},
          .if_absent = options.if_absent,
          .if_match = {},
          .nonce = random_digits(),
          .deadline = api_.deadline_for(content.size())};
  if (options.ttl) {
    WARREN_TRY(put_mark(key, put.deadline));  // its answer has the server's time
    put.expires = expiry_of(options, api_.now());
  }
  if (put.expires && put.expires->seconds > kLastSecond) put.expires.reset();
  if (put.expires) put.expires = timestamp_of_ms(ms_of(*put.expires));  // as it is stored
  if (options.if_match) {
    put.if_match = etag_of(*options.if_match);
    if (!is_etag(put.if_match) || is_expired({.expires = expiry_in(*options.if_match)})) {
      return Error(Code::kConflict, fmt::format("{} does not have that version", quote(key)));
    }
  }
  if (!put.is_conditional() && content.size() > api_.settings().part_bytes) return put_parts(put);
  return put_on_condition(put);
}

Result<BlobInfo> S3Blobs::put_on_condition(Put& put) {
  put.is_bare = bare_etags_;
  for (int round = 1;; ++round) {
    Result<BlobInfo> result = put_whole(put);
    if (result.ok() && put.is_bare) bare_etags_ = true;
    bool is_refused = !result.ok() && result.error().code() == Code::kConflict;
    if (!is_refused) return result;
    std::optional<BlobInfo> settled = WARREN_TRY(settle(put));
    if (settled) return *settled;
    if (round == kConditionRounds) return Error(Code::kBusy, fmt::format("{} keeps changing", quote(put.key)));
  }
}

}  // namespace warren
