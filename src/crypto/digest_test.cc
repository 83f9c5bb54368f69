#include "crypto/digest.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

// The values of FIPS 180-2's examples.
TEST(Digest, KnownTextsHaveKnownDigests) {
  EXPECT_EQ(sha256_hex(as_bytes("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, PiecesGiveTheDigestOfTheWholeAndItStartsOver) {
  std::string text(100'000, 'x');
  Sha256 digest;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t at = 0; at < text.size(); at += 777)
      digest.update(as_bytes(std::string_view(text).substr(at, 777)));
    EXPECT_EQ(hex_of(digest.finish()), sha256_hex(as_bytes(text)));
  }
}

// RFC 4231, cases 1, 2 and 6.
TEST(Digest, KnownKeysHaveKnownHmacs) {
  EXPECT_EQ(hex_of(hmac_sha256(as_bytes(std::string(20, '\x0b')), as_bytes("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex_of(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex_of(hmac_sha256(as_bytes(std::string(131, '\xaa')),
                               as_bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Digest, Md5IsInBase64) {
  EXPECT_EQ(md5_base64(as_bytes("")), "1B2M2Y8AsgTpgAmY7PhCfg==");
  EXPECT_EQ(md5_base64(as_bytes("abc")), "kAFQmDzST7DWlj99KOF/cg==");
}

}  // namespace
}  // namespace warren
