// Where a bucket is and who we are there, from an address, the environment and AWS's files.
//
//   s3://BUCKET[/PREFIX][?option=value&…]
//     endpoint=URL       any server that speaks S3; otherwise AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's of the
//                        region
//     region=NAME        otherwise AWS_REGION, AWS_DEFAULT_REGION, the profile's, or us-east-1
//     path_style=yes|no  http://host/BUCKET/key, or http://BUCKET.host/key; by default yes with an endpoint
//     profile=NAME       of ~/.aws/credentials and ~/.aws/config, before what the environment says
//     timeout=DURATION   of one call, retries included; a second more for each MiB that it carries
//     conditional=yes|no whether the server understands conditional puts; by default it is tried out
//     ttl=yes|no         no: without times to live, which saves a request with each listing
//     part=MIB           puts that are larger go up in parts of this size
//
// Credentials: those in the address (s3://ACCESSKEY:SECRET@BUCKET), the profile's if one is named, AWS_ACCESS_KEY_ID
// and AWS_SECRET_ACCESS_KEY with AWS_SESSION_TOKEN, or AWS_PROFILE's or the default profile's.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "backends/blob/sigv4.h"
#include "base/result.h"

namespace warren {

struct S3Settings {
  std::string bucket;
  std::string prefix;    // empty, or ends with a slash
  std::string endpoint;  // "http://host:port", without a path
  SigningScope scope;
  AwsCredentials credentials;
  bool path_style = true;
  std::string ca_file;              // AWS_CA_BUNDLE
  std::optional<bool> conditional;  // unset: to be tried out
  bool ttl = true;
  std::uint64_t part_bytes = std::uint64_t{64} << 20;
  std::chrono::milliseconds timeout{10'000};
  std::chrono::milliseconds first_pause{50};  // before the first retry; doubled for each further one

  std::string host() const;                         // of the header: with the bucket, if it is not in the path
  std::string path_of(std::string_view key) const;  // encoded; of the bucket, if the key is empty
  std::string name() const;                         // for people: without credentials
};

using Environment = std::function<std::optional<std::string>(const char* name)>;

Environment process_environment();

struct S3Address {
  std::string address;
  std::optional<std::string> secret_key = {};  // in place of one in the address
  std::chrono::milliseconds timeout{10'000};   // unless the address says otherwise
};

// kInvalid, with what is missing. Never with a key in the message.
Result<S3Settings> read_s3_settings(const S3Address& address, const Environment& environment);

}  // namespace warren
