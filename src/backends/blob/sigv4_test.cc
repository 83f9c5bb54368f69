#include "backends/blob/sigv4.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "crypto/digest.h"

namespace warren {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string signature_of(const std::string& authorization) {
  return authorization.substr(authorization.find("Signature=") + 10);
}

// The examples of "Signature Calculations for the Authorization Header" in the Amazon S3 API reference.
std::string s3_example(const std::string& method, const std::string& path, const Pairs& query, const Pairs& more,
                       std::string_view body) {
  std::string hash = sha256_hex(as_bytes(body));
  Pairs headers = {
      {"Host", "examplebucket.s3.amazonaws.com"}, {"x-amz-content-sha256", hash}, {"x-amz-date", "20130524T000000Z"}};
  headers.insert(headers.end(), more.begin(), more.end());
  SignedRequest request{.method = method, .path = path, .query = query, .headers = headers, .payload_hash = hash};
  return signature_of(authorization(request, "20130524T000000Z", {.region = "us-east-1"},
                                    {.access_key = "AKIAIOSFODNN7EXAMPLE",
                                     .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                     .session_token = {}}));
}

TEST(SigV4, AgreesWithTheExamplesOfS3) {
  EXPECT_EQ(s3_example("GET", "/test.txt", {}, {{"Range", "bytes=0-9"}}, ""),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(s3_example("PUT", "/test%24file.text", {},
                       {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                       "Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(s3_example("GET", "/", {{"lifecycle", ""}}, {}, ""),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(s3_example("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, ""),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// AWS's test suite for version 4, with its account and date.
std::string suite_example(const std::string& method, const std::string& path, const Pairs& query = {},
                          const Pairs& more = {}) {
  Pairs headers = {{"Host", "example.amazonaws.com"}, {"X-Amz-Date", "20150830T123600Z"}};
  headers.insert(headers.end(), more.begin(), more.end());
  SignedRequest request{
      .method = method, .path = path, .query = query, .headers = headers, .payload_hash = sha256_hex(as_bytes(""))};
  return authorization(
      request, "20150830T123600Z", {.region = "us-east-1", .service = "service"},
      {.access_key = "AKIDEXAMPLE", .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", .session_token = {}});
}

TEST(SigV4, AgreesWithTheTestSuite) {
  EXPECT_EQ(suite_example("GET", "/"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            "SignedHeaders=host;x-amz-date, "
            "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  EXPECT_EQ(signature_of(suite_example("POST", "/")),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
  EXPECT_EQ(signature_of(suite_example("GET", "/%E1%88%B4")),
            "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
  EXPECT_EQ(signature_of(suite_example("GET", "/", {{"Param2", "value2"}, {"Param1", "value1"}})),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
  std::string unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  EXPECT_EQ(signature_of(suite_example("GET", "/", {{unreserved, unreserved}})),
            "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197");
  EXPECT_EQ(signature_of(suite_example("GET", "/", {}, {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}})),
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
}

TEST(SigV4, DatesAreInUtc) { EXPECT_EQ(amz_date({.seconds = 1369353600}), "20130524T000000Z"); }

}  // namespace
}  // namespace warren
