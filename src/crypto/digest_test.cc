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

}  // namespace
}  // namespace warren
