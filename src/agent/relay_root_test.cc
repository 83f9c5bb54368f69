#include "agent/relay_root.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(RelayRoot, IsWhatWasGivenOrTheVariableOrInTheHomeDirectory) {
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(*find_relay_root("/given", "/var/relay"), "/given");
  EXPECT_EQ(*find_relay_root("", "/var/relay"), "/var/relay");
  EXPECT_EQ(*find_relay_root(std::nullopt, "/var/relay"), "/var/relay");
  EXPECT_EQ(*find_relay_root(std::nullopt, ""), "/home/me/.agent-relay");
  EXPECT_EQ(*find_relay_root(std::nullopt, std::nullopt), "/home/me/.agent-relay");
}

}  // namespace
}  // namespace warren
