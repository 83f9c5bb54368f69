#include "backends/blob/sigv4.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/percent.h"
#include "clients/url.h"
#include "crypto/digest.h"

namespace warren {
namespace {

// Without spaces at both ends, and with single ones inside.
std::string trimmed_value(std::string_view value) {
  std::string out;
  for (char c : value) {
    bool is_space = c == ' ' || c == '\t';
    if (!is_space) out += c;
    else if (!out.empty() && out.back() != ' ') out += ' ';
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

Bytes bytes_of(const Sha256::Value& value) { return {value.data(), value.size()}; }

}  // namespace

std::string amz_date(Timestamp at) {
  return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(static_cast<std::time_t>(at.seconds)));
}

std::string canonical_query(std::vector<std::pair<std::string, std::string>> query) {
  for (auto& [name, value] : query) {
    name = encode_percent(name);
    value = encode_percent(value);
  }
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto& [name, value] : query) text += fmt::format("{}{}={}", text.empty() ? "" : "&", name, value);
  return text;
}

std::string authorization(const SignedRequest& request, std::string_view date, const SigningScope& scope,
                          const AwsCredentials& credentials) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (const auto& [name, value] : request.headers) headers.emplace_back(to_lower(name), trimmed_value(value));
  std::stable_sort(headers.begin(), headers.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string canonical_headers;
  std::string names;
  for (const auto& [name, value] : headers) {
    canonical_headers += fmt::format("{}:{}\n", name, value);
    names += fmt::format("{}{}", names.empty() ? "" : ";", name);
  }
  std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path,
                                      canonical_query(request.query), canonical_headers, names, request.payload_hash);
  std::string_view day = date.substr(0, 8);
  std::string credential_scope = fmt::format("{}/{}/{}/aws4_request", day, scope.region, scope.service);
  std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", date, credential_scope, sha256_hex(as_bytes(canonical)));

  Sha256::Value key = hmac_sha256(as_bytes("AWS4" + credentials.secret_key), as_bytes(day));
  for (std::string_view part : {std::string_view(scope.region), std::string_view(scope.service),
                                std::string_view("aws4_request"), std::string_view(to_sign)}) {
    key = hmac_sha256(bytes_of(key), as_bytes(part));
  }
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", credentials.access_key,
                     credential_scope, names, hex_of(bytes_of(key)));
}

}  // namespace warren
