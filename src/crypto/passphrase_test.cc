#include "crypto/passphrase.h"

#include <gtest/gtest.h>

#include "crypto/digest.h"

namespace warren {
namespace {

// Computed with Python's hashlib.scrypt(b"correct horse", salt=b"0123456789abcdef", n=32768, r=8, p=1, dklen=32).
TEST(Passphrase, MakesTheSameKeyAsOtherProgramsDo) {
  Result<std::string> key = key_of_passphrase("correct horse", as_bytes("0123456789abcdef"));
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(hex_of(as_bytes(*key)), "a6e1c5f30b25e0fe6d47724036c0a579988e41eb3ed39298d8fa076d41293064");
}

TEST(Passphrase, AnotherSaltMakesAnotherKey) {
  Result<std::string> first = key_of_passphrase("correct horse", as_bytes("0123456789abcdef"));
  Result<std::string> second = key_of_passphrase("correct horse", as_bytes("0123456789abcdeg"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace warren
