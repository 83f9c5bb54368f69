#include "relay/protocol/names.h"

#include <gtest/gtest.h>

namespace warren::relay {
namespace {

TEST(Names, AgentNamesFollowTheRule) {
  for (std::string_view good : {"a", "Lead", "worker-1", "A_b", "rooter"}) EXPECT_TRUE(is_agent_name(good)) << good;
  EXPECT_TRUE(is_agent_name(std::string(63, 'a')));
  EXPECT_FALSE(is_agent_name(std::string(64, 'a')));
  for (std::string_view bad : {"", "1a", "-a", "_a", "a.b", "a/b", "..", "a b", "system", "ROOT", "Admin",
                               "__orchestrator__", "a\n", "\xc3\xa4"}) {
    EXPECT_FALSE(is_agent_name(bad)) << bad;
  }
}

TEST(Names, MessageFilesAreDigitsAndHexadecimals) {
  for (std::string_view good : {"1706123456789012345-a1b2c3d4.msg", "1-0123456789abcdefABCDEF0123456789.msg"}) {
    EXPECT_TRUE(is_message_file(good)) << good;
  }
  for (std::string_view bad :
       {"1-a1b2c3d.msg", "-a1b2c3d4.msg", "1-a1b2c3d4", "1-a1b2c3d4.msg.tmp", "1-a1b2c3dg.msg", ".msg", "x",
        "12345678901234567890-a1b2c3d4.msg", "1-0123456789abcdef0123456789abcdef0.msg", "../1-a1b2c3d4.msg"}) {
    EXPECT_FALSE(is_message_file(bad)) << bad;
  }
  EXPECT_TRUE(is_message_file(make_message_stem(1, 2) + ".msg"));
  EXPECT_EQ(timestamp_of("17-deadbeef.msg"), 17);
}

TEST(Names, OurNamesSortByCreation) {
  EXPECT_LT(make_message_stem(999'999'999'999, 9), make_message_stem(1'000'000'000'000, 1));
}

}  // namespace
}  // namespace warren::relay
