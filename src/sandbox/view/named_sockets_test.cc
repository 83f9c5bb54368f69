#include "sandbox/view/named_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(NamedSockets, OnlyAbsolutePathsAreFoundEachOnce) {
  constexpr std::string_view kText =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 20041 /run/a.sock\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03    41 /run/a.sock\n"
      "0000000000000000: 00000002 00000000 00000000 0002 01     7 /opt/with two  blanks\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01    42 @abstract\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01    43 relative\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03    44\n"
      "garbage";
  EXPECT_THAT(parse_named_sockets(kText), ::testing::ElementsAre("/opt/with two  blanks", "/run/a.sock"));
}

}  // namespace
}  // namespace warren
