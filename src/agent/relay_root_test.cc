#include "agent/relay_root.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(RelayRoot, IsWhatWasGivenOrTheVariableOrInTheHomeDirectory) {
  ::setenv("HOME", "/home/me", 1);
  ::setenv("WARREN_RELAY_ROOT", "/var/relay", 1);
  EXPECT_EQ(*find_relay_root("/given"), "/given");
  EXPECT_EQ(*find_relay_root(""), "/var/relay");
  EXPECT_EQ(*find_relay_root(std::nullopt), "/var/relay");
  ::setenv("WARREN_RELAY_ROOT", "", 1);
  EXPECT_EQ(*find_relay_root(std::nullopt), "/home/me/.agent-relay");
  ::unsetenv("WARREN_RELAY_ROOT");
  EXPECT_EQ(*find_relay_root(std::nullopt), "/home/me/.agent-relay");
}

}  // namespace
}  // namespace warren
