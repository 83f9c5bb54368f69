// AWS Signature Version 4: how a request to S3 proves that its sender has the secret key.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace warren {

struct AwsCredentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // of temporary credentials; otherwise empty
};

struct SigningScope {
  std::string region;
  std::string service = "s3";
};

struct SignedRequest {
  std::string method;
  std::string path;                                               // percent-encoded, as it is sent; begins with a slash
  std::vector<std::pair<std::string, std::string>> query = {};    // not encoded
  std::vector<std::pair<std::string, std::string>> headers = {};  // all of those to be signed, with Host and X-Amz-Date
  std::string payload_hash;                                       // SHA-256 of the body in hexadecimal digits
};

// "20130524T000000Z", for X-Amz-Date.
std::string amz_date(Timestamp at);

// The query as it is signed and sent: sorted and encoded, without '?'.
std::string canonical_query(std::vector<std::pair<std::string, std::string>> query);

// The value of the header Authorization. `date` is that of X-Amz-Date.
std::string authorization(const SignedRequest& request, std::string_view date, const SigningScope& scope,
                          const AwsCredentials& credentials);

}  // namespace warren
