// Requests to S3: signed, repeated while the server is busy or away, and with its errors as ours.
//
// Internal to this folder; S3Blobs is what others use.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/blob/s3_settings.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "clients/http.h"

namespace warren {

using Deadline = std::chrono::steady_clock::time_point;

struct S3Request {
  std::string method;
  std::string key;  // without the store's prefix; empty: the bucket itself
  std::vector<std::pair<std::string, std::string>> query = {};
  HttpHeaders headers = {};
  Bytes body = {};
  std::size_t answer_bytes_max = std::size_t{8} << 20;
};

struct S3Answer {
  HttpAnswer http;
  std::string code;     // of a failure: "NoSuchKey"; empty if the server did not say
  std::string message;  // of a failure, for people

  int status() const { return http.status; }
  bool is_success() const { return http.is_success(); }
};

// Thread-safe.
class S3Api {
 public:
  S3Api(S3Settings settings, std::unique_ptr<HttpClient> http, Clock& clock);

  const S3Settings& settings() const { return settings_; }

  // When a call that begins now and carries so many bytes must have ended.
  Deadline deadline_for(std::uint64_t bytes) const;

  // The answer, also if it is a failure that the caller may expect (404, 412, …). kUnavailable: no answer in time, or
  // the server stayed busy.
  Result<S3Answer> send(const S3Request& request, Deadline deadline);

  // What an unexpected answer means.
  Error failure(const S3Answer& answer) const;

  // The server's time, as far as its answers tell.
  Timestamp now();

 private:
  enum class Verdict { kFinal, kRetry, kWrongTime };

  Result<S3Answer> send_once(const S3Request& request, const std::string& payload_hash, Deadline deadline);
  Verdict judge(const S3Answer& answer) const;
  void note_time(const HttpAnswer& answer);
  std::string without_keys(std::string text) const;

  S3Settings settings_;
  std::unique_ptr<HttpClient> http_;
  Clock& clock_;
  std::atomic<std::int64_t> skew_seconds_ = 0;  // the server's clock minus ours
};

std::string unquoted_etag(std::string_view etag);

// 16 hexadecimal digits.
std::string random_digits();

// "Fri, 24 May 2013 00:00:00 GMT" and "2013-05-24T00:00:00.123Z". nullopt if it is something else.
std::optional<Timestamp> parse_http_date(std::string_view text);
std::optional<Timestamp> parse_iso_date(std::string_view text);

}  // namespace warren
