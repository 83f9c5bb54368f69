#include "crypto/hmac.h"

#include <string>

#include <gtest/gtest.h>

namespace warren {
namespace {

std::string signed_hex(std::string_view key, std::string_view message) {
  HmacSha256 hmac(as_bytes(key));
  hmac.sign(as_bytes("another message before"));
  Sha256::Value value = hmac.sign(as_bytes(message));
  return hex_of(value);
}

// RFC 4231, test cases 1, 2 and 6.
TEST(Hmac, MatchesThePublishedVectors) {
  EXPECT_EQ(signed_hex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(signed_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(signed_hex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, AgreesWithTheOneShotFunction) {
  for (std::size_t size : {0, 1, 32, 63, 64, 65, 200}) {
    std::string key(size, 'k');
    HmacSha256 hmac(as_bytes(key));
    EXPECT_EQ(hmac.sign(as_bytes("message")), hmac_sha256(as_bytes(key), as_bytes("message"))) << size;
  }
}

TEST(Hmac, RandomBytesDiffer) {
  std::string a(32, '\0');
  std::string b(32, '\0');
  fill_with_random(as_mutable_bytes(a));
  fill_with_random(as_mutable_bytes(b));
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace warren
