#include "base/binary.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Binary, ANulAmongTheFirst8000BytesMakesIt) {
  EXPECT_FALSE(is_binary(""));
  EXPECT_FALSE(is_binary("\xFF\xFE text\r\n"));
  EXPECT_TRUE(is_binary(std::string_view("a\0b", 3)));
  std::string text(8001, 'x');
  text[8000] = '\0';
  EXPECT_FALSE(is_binary(text));
  text[7999] = '\0';
  EXPECT_TRUE(is_binary(text));
}

}  // namespace
}  // namespace warren
