#include "crypto/ed25519.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

// RFC 8032, section 7.1, test 2.
constexpr std::string_view kPem =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
    "-----END PRIVATE KEY-----\n";

TEST(Ed25519, SignsAsTheSpecificationsExample) {
  Result<Ed25519Private> key = Ed25519Private::parse_pem(kPem);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->public_key().text(), "ed25519:PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=");
  EXPECT_EQ(key->sign(as_bytes("r")).text(),
            "kqAJqfDUyrhyDoILX2QlQKKye1QWUD+Ps3YiI+vbadoIWsHkPhWZbkWPNhPQ8R2MOHsurrQwKu6wDSkWErsMAA==");
  EXPECT_EQ(key->pem(), kPem);
}

TEST(Ed25519, ASignatureHoldsForItsDataAndKeyOnly) {
  Ed25519Private key = Ed25519Private::generate();
  Ed25519Private other = Ed25519Private::generate();
  Ed25519Signature signature = key.sign(as_bytes("hello"));
  EXPECT_TRUE(key.public_key().verifies(as_bytes("hello"), signature));
  EXPECT_FALSE(key.public_key().verifies(as_bytes("hellp"), signature));
  EXPECT_FALSE(other.public_key().verifies(as_bytes("hello"), signature));
  for (std::size_t at = 0; at < signature.bytes.size(); ++at) {
    Ed25519Signature bent = signature;
    bent.bytes[at] ^= std::byte{1};
    EXPECT_FALSE(key.public_key().verifies(as_bytes("hello"), bent)) << at;
  }
}

TEST(Ed25519, KeysAndSignaturesSurviveAsText) {
  Ed25519Private key = Ed25519Private::generate();
  Result<Ed25519Private> again = Ed25519Private::parse_pem(key.pem());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->public_key(), key.public_key());
  EXPECT_EQ(Ed25519Public::parse(key.public_key().text()), key.public_key());
  Ed25519Signature signature = key.sign({});
  EXPECT_EQ(Ed25519Signature::parse(signature.text()), signature);
  EXPECT_TRUE(again->public_key().verifies({}, signature));
}

TEST(Ed25519, TextThatIsNotAKeyIsRefused) {
  std::string pem(kPem);
  EXPECT_TRUE(Ed25519Private::parse_pem(pem).ok());
  for (std::string_view text : {"", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----",
                                "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----",
                                "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----",
                                "-----BEGIN RSA PRIVATE KEY-----\nMC4=\n-----END RSA PRIVATE KEY-----"}) {
    EXPECT_FALSE(Ed25519Private::parse_pem(text).ok()) << text;
  }
  std::string shorter = pem.substr(0, pem.size() / 2);
  EXPECT_FALSE(Ed25519Private::parse_pem(shorter).ok());
  for (std::string_view text : {"", "ed25519:", "ed25519:AAAA", "rsa:AAAA", "ed25519:not base64"}) {
    EXPECT_FALSE(Ed25519Public::parse(text)) << text;
  }
  EXPECT_FALSE(Ed25519Signature::parse("AAAA"));
}

TEST(Ed25519, AKeyUnderWhichAnybodyCanSignIsRefused) {
  // A point of order 4: for one in four texts, this signature holds.
  Ed25519Public weak;
  Ed25519Signature forged;
  forged.bytes[0] = std::byte{1};
  int held = 0;
  for (int i = 0; i < 100; ++i) held += weak.verifies(as_bytes(std::to_string(i)), forged) ? 1 : 0;
  EXPECT_GT(held, 0);
  EXPECT_FALSE(Ed25519Public::parse(weak.text()));
  for (std::string_view text :
       {"ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA=",
        "ed25519:7P///////////////////////////////////////38=",
        "ed25519:7P////////////////////////////////////////8="}) {
    EXPECT_FALSE(Ed25519Public::parse(text)) << text;
  }
}

}  // namespace
}  // namespace warren
