#include "base/base64.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Base64, EncodesTheExamplesOfItsStandard) {
  EXPECT_EQ(encode_base64(as_bytes("")), "");
  EXPECT_EQ(encode_base64(as_bytes("f")), "Zg==");
  EXPECT_EQ(encode_base64(as_bytes("fo")), "Zm8=");
  EXPECT_EQ(encode_base64(as_bytes("foo")), "Zm9v");
  EXPECT_EQ(encode_base64(as_bytes("foobar")), "Zm9vYmFy");
}

TEST(Base64, EveryByteComesBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes.push_back(static_cast<char>(i));
    EXPECT_EQ(decode_base64(encode_base64(as_bytes(bytes))), bytes);
  }
}

TEST(Base64, AnythingElseIsRefused) {
  for (const char* bad :
       {"Z", "Zg", "Zg=", "Zg===", "Z===", "====", "Zh==", "Zm9=", "Zm9v\n", "Zm 9", "Zm9-", "Zg==Zg=="}) {
    EXPECT_EQ(decode_base64(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace warren
