#include "backends/blob/s3_api.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/check.h"
#include "base/path.h"
#include "clients/xml.h"
#include "crypto/digest.h"

namespace warren {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestPause{2'000};
constexpr std::uint64_t kBytesPerSecond = std::uint64_t{1} << 20;  // below that, a large transfer takes too long
constexpr std::int64_t kSkewNoticed = 3;                           // seconds; dates in answers are whole ones
constexpr std::size_t kMessageBytes = 500;                         // of a server's message

milliseconds left_until(Deadline deadline) {
  return std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
}

// Half of the pause for certain and half by chance, so that clients that failed together do not come back together.
milliseconds with_jitter(milliseconds pause) {
  thread_local std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<std::int64_t> some(pause.count() / 2, pause.count());
  return milliseconds(some(random));
}

void replace_all(std::string& text, const std::string& what, std::string_view with) {
  if (what.empty()) return;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

// A server's message comes from outside: one line, without control characters, of bounded length.
std::string plain_text(std::string_view text) {
  std::string plain;
  for (char c : text.substr(0, kMessageBytes)) plain += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return plain;
}

void read_failure(S3Answer& answer) {
  if (answer.is_success() || answer.http.body.empty()) return;
  Result<XmlElement> root = parse_xml(answer.http.body);
  if (!root.ok() || root->name != "Error") return;
  answer.code = plain_text(root->text_of("Code"));
  answer.message = plain_text(root->text_of("Message"));
}

milliseconds retry_after(const HttpAnswer& answer) {
  const std::string* text = answer.find("retry-after");
  if (text == nullptr) return milliseconds(0);
  return std::chrono::seconds(std::min(parse_number<std::uint32_t>(*text).value_or(0), 3600U));
}

}  // namespace

std::string unquoted_etag(std::string_view etag) { return std::string(trimmed(etag, "\"")); }

std::string random_digits() {
  std::array<std::byte, 8> bytes{};
  WARREN_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return hex_of(bytes);
}

std::optional<Timestamp> parse_http_date(std::string_view text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  // Fri, 24 May 2013 00:00:00 GMT
  if (text.size() != 29 || !text.ends_with(" GMT") || text[3] != ',') return std::nullopt;
  std::size_t month = kMonths.find(text.substr(8, 3));
  auto day = parse_number<int>(text.substr(5, 2));
  auto year = parse_number<int>(text.substr(12, 4));
  auto hour = parse_number<int>(text.substr(17, 2));
  auto minute = parse_number<int>(text.substr(20, 2));
  auto second = parse_number<int>(text.substr(23, 2));
  if (month == std::string_view::npos || !day || !year || !hour || !minute || !second) return std::nullopt;
  std::tm parts{};
  parts.tm_year = *year - 1900;
  parts.tm_mon = static_cast<int>(month / 3);
  parts.tm_mday = *day;
  parts.tm_hour = *hour;
  parts.tm_min = *minute;
  parts.tm_sec = *second;
  return Timestamp{.seconds = ::timegm(&parts)};
}

std::optional<Timestamp> parse_iso_date(std::string_view text) {
  // 2013-05-24T00:00:00.123Z
  if (text.size() < 20 || text[10] != 'T' || !text.ends_with('Z')) return std::nullopt;
  auto year = parse_number<int>(text.substr(0, 4));
  auto month = parse_number<int>(text.substr(5, 2));
  auto day = parse_number<int>(text.substr(8, 2));
  auto hour = parse_number<int>(text.substr(11, 2));
  auto minute = parse_number<int>(text.substr(14, 2));
  auto second = parse_number<int>(text.substr(17, 2));
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  std::tm parts{};
  parts.tm_year = *year - 1900;
  parts.tm_mon = *month - 1;
  parts.tm_mday = *day;
  parts.tm_hour = *hour;
  parts.tm_min = *minute;
  parts.tm_sec = *second;
  Timestamp at{.seconds = ::timegm(&parts)};
  if (text[19] == '.') {
    std::string digits(text.substr(20, text.size() - 21));
    digits.resize(9, '0');
    at.nanoseconds = parse_number<std::int32_t>(digits).value_or(0);
  }
  return at;
}

S3Api::S3Api(S3Settings settings, std::unique_ptr<HttpClient> http, Clock& clock)
    : settings_(std::move(settings)), http_(std::move(http)), clock_(clock) {}

Deadline S3Api::deadline_for(std::uint64_t bytes) const {
  return std::chrono::steady_clock::now() + settings_.timeout +
         std::chrono::seconds(static_cast<std::int64_t>(bytes / kBytesPerSecond));
}

Timestamp S3Api::now() {
  Timestamp at = clock_.now();
  at.seconds += skew_seconds_;
  return at;
}

void S3Api::note_time(const HttpAnswer& answer) {
  const std::string* date = answer.find("date");
  if (date == nullptr) return;
  std::optional<Timestamp> at = parse_http_date(*date);
  if (!at) return;
  if (std::abs(at->seconds - now().seconds) >= kSkewNoticed) skew_seconds_ = at->seconds - clock_.now().seconds;
}

S3Api::Verdict S3Api::judge(const S3Answer& answer) const {
  if (answer.code == "RequestTimeTooSkewed") return Verdict::kWrongTime;
  bool is_busy = answer.code == "SlowDown" || answer.code == "RequestTimeout" || answer.code == "OperationAborted" ||
                 answer.code == "ConditionalRequestConflict";
  if (is_busy || answer.status() == 429) return Verdict::kRetry;
  bool is_broken = answer.status() >= 500 && answer.status() != 501 && answer.status() != 507;
  return is_broken ? Verdict::kRetry : Verdict::kFinal;
}

Result<S3Answer> S3Api::send_once(const S3Request& request, const std::string& payload_hash, Deadline deadline) {
  std::string date = amz_date(now());
  HttpHeaders headers = request.headers;
  headers.emplace_back("x-amz-content-sha256", payload_hash);
  headers.emplace_back("x-amz-date", date);
  if (!settings_.credentials.session_token.empty()) {
    headers.emplace_back("x-amz-security-token", settings_.credentials.session_token);
  }
  SignedRequest to_sign{.method = request.method,
                        .path = settings_.path_of(request.key),
                        .query = request.query,
                        .headers = headers,
                        .payload_hash = payload_hash};
  to_sign.headers.emplace_back("host", settings_.host());
  headers.emplace_back("Authorization", authorization(to_sign, date, settings_.scope, settings_.credentials));

  std::string scheme = settings_.endpoint.substr(0, settings_.endpoint.find("://"));
  HttpCall call{.method = request.method,
                .url = fmt::format("{}://{}{}", scheme, settings_.host(), to_sign.path),
                .headers = std::move(headers),
                .body = request.body,
                // Some time is left for another attempt, in case this connection is one that nobody answers any more.
                .timeout = left_until(deadline) * 2 / 3,
                .answer_bytes_max = request.answer_bytes_max};
  if (!request.query.empty()) call.url += "?" + canonical_query(request.query);
  S3Answer answer;
  answer.http = WARREN_TRY(http_->call(call));
  note_time(answer.http);
  read_failure(answer);
  return answer;
}

Result<S3Answer> S3Api::send(const S3Request& request, Deadline deadline) {
  std::string payload_hash = sha256_hex(request.body);
  milliseconds pause = settings_.first_pause;
  bool corrected = false;
  while (true) {
    Result<S3Answer> answer = send_once(request, payload_hash, deadline);
    milliseconds wait = with_jitter(pause);
    if (!answer.ok()) {
      if (answer.error().code() != Code::kUnavailable) return answer;
    } else {
      Verdict verdict = judge(*answer);
      if (verdict == Verdict::kWrongTime && !corrected) {
        corrected = true;  // the answer had the server's time
        continue;
      }
      if (verdict != Verdict::kRetry) return answer;
      wait = std::max(wait, retry_after(answer->http));
    }
    if (left_until(deadline) <= wait) {
      if (!answer.ok()) return answer;
      return failure(*answer);
    }
    std::this_thread::sleep_for(wait);
    pause = std::min(pause * 2, kLongestPause);
  }
}

std::string S3Api::without_keys(std::string text) const {
  replace_all(text, settings_.credentials.secret_key, "(secret key)");
  replace_all(text, settings_.credentials.session_token, "(session token)");
  replace_all(text, settings_.credentials.access_key, "(access key)");
  return text;
}

Error S3Api::failure(const S3Answer& answer) const {
  Code kind = Code::kIo;
  std::string hint;
  int status = answer.status();
  if (answer.code == "NoSuchBucket") kind = Code::kNotFound;
  else if (status == 403 || status == 401) kind = Code::kDenied;
  else if (status == 404) kind = Code::kNotFound;
  else if (status == 501 || status == 405) kind = Code::kUnsupported;
  else if (status == 507 || answer.code == "QuotaExceeded") kind = Code::kNoSpace;
  else if (answer.code == "EntityTooLarge" || status == 413) kind = Code::kTooLarge;
  else if (answer.code == "KeyTooLongError") kind = Code::kNameTooLong;
  else if (status >= 500 || status == 429 || judge(answer) == Verdict::kRetry) kind = Code::kUnavailable;
  else if (status >= 300) kind = Code::kInvalid;
  if (answer.code == "RequestTimeTooSkewed") hint = "set this machine's clock";
  if (answer.code == "SignatureDoesNotMatch") hint = "the secret key is not that of the access key";
  const std::string* region = answer.http.find("x-amz-bucket-region");
  if (region != nullptr && *region != settings_.scope.region) {
    hint = fmt::format("the bucket is in another region: add region={}", plain_text(*region));
  }
  std::string text = answer.message;
  if (text.empty()) {
    if (status == 403) text = "access denied";
    else if (status == 404) text = "not found";
    else text = fmt::format("HTTP status {}", status);
  }
  if (!answer.code.empty()) text = fmt::format("{} ({})", text, answer.code);
  text = fmt::format("s3://{}: {}", settings_.bucket, text);
  return Error(kind, without_keys(std::move(text)), without_keys(std::move(hint)));
}

}  // namespace warren
