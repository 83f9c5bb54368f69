#include "os/user.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using ::warren::testing::error_of;

TEST(HostUser, IsFoundByNameAndByNumber) {
  auto named = find_host_user("root");
  ASSERT_OK(named);
  EXPECT_EQ(named->uid, 0U);
  EXPECT_EQ(named->home, "/root");
  auto numbered = find_host_user("0");
  ASSERT_OK(numbered);
  EXPECT_EQ(numbered->name, "root");
}

TEST(HostUser, ANumberNeedsNoEntry) {
  auto user = find_host_user("2000123456:77");
  ASSERT_OK(user);
  EXPECT_EQ(user->uid, 2000123456U);
  EXPECT_EQ(user->gid, 77U);
  EXPECT_EQ(user->groups, (std::vector<gid_t>{77}));
  EXPECT_TRUE(user->name.empty());
}

TEST(HostUser, AnUnknownNameAndAHalfNumberAreNotUsers) {
  for (const char* name : {"no-such-user-here", "", "12:", "12:x", "4294967295", "-1"}) {
    EXPECT_EQ(error_of(find_host_user(name)), Code::kNotFound) << name;
  }
}

}  // namespace
}  // namespace warren
