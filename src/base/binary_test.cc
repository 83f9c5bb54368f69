#include "base/binary.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Binary, ANulAmongTheFirst8000BytesMakesIt) {
  EXPECT_FALSE(is_binary(""));
  EXPECT_FALSE(is_binary("\xFF\xFE text\r\n"));
  EXPECT_TRUE(is_binary(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_binary(std::string(7999, 'x') + '\0'));
  EXPECT_FALSE(is_binary(std::string(8000, 'x') + '\0'));
}

}  // namespace
}  // namespace warren
