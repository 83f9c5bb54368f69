#include "relay/delivery/router.h"

#include <gtest/gtest.h>

#include "relay/root/config.h"
#include "testing/matchers.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    router.put_agent({"alice", 1, 0, "active"});
    router.put_agent({"bob", 1, 0, "active"});
    router.put_agent({"carol", 1, 0, "inactive"});
    router.put_agent({"dave", 1, 0, "terminated"});
  }
  std::string routes(std::string_view to, std::string_view sender = "alice") {
    Result<std::vector<Route>> found = router.resolve(to, sender);
    if (!found.ok()) return std::string(name_of(found.error().code()));
    std::string out;
    for (const Route& route : *found) out += route.recipient + ":" + std::string(name_of(route.state)) + " ";
    return out;
  }
  Router router{""};
};

TEST_F(RouterTest, ADirectMessageGoesToItsAgentAndWaitsForAnInactiveOne) {
  EXPECT_EQ(routes("bob"), "bob:pending ");
  EXPECT_EQ(routes("alice"), "alice:pending ");
  EXPECT_EQ(routes("carol"), "carol:stored ");
  EXPECT_EQ(error_of(router.resolve("dave", "alice")), Code::kNotFound);
  EXPECT_EQ(error_of(router.resolve("nobody", "alice")), Code::kNotFound);
  EXPECT_EQ(error_of(router.resolve("../bob", "alice")), Code::kInvalid);
}

TEST_F(RouterTest, ABroadcastReachesAllActiveAgentsExceptTheSender) {
  EXPECT_EQ(routes("*"), "bob:pending ");
  EXPECT_EQ(routes("*", "carol"), "alice:pending bob:pending ");
}

TEST_F(RouterTest, AChannelReachesItsSubscribers) {
  EXPECT_EQ(error_of(router.resolve("#news", "alice")), Code::kNotFound);
  for (const char* name : {"alice", "bob", "carol", "dave"}) router.subscribe("news", name);
  EXPECT_EQ(routes("#news"), "bob:pending carol:stored ");
  router.unsubscribe("news", "bob");
  EXPECT_EQ(routes("#news"), "carol:stored ");
}

TEST_F(RouterTest, LeadIsTheConfiguredAgentOrElseTheAgentOfThatNameOrElseNobody) {
  EXPECT_EQ(routes("Lead"), "Lead:held ");
  router.put_agent({"Lead", 1, 0, "active"});
  EXPECT_EQ(routes("Lead"), "Lead:pending ");
  Router configured("bob");
  EXPECT_EQ(configured.find_lead(), "");
  configured.put_agent({"bob", 1, 0, "active"});
  EXPECT_EQ(configured.resolve("Lead", "x")->front().recipient, "bob");
}

TEST(RelayConfig, UnknownKeysAndWrongValuesAreRefusedByName) {
  EXPECT_EQ(parse_config("{}")->message_bytes_max, 1U << 20);
  EXPECT_EQ(parse_config(R"({"settle_ms": 250, "lead": "bob"})")->settle, std::chrono::milliseconds(250));
  for (const char* bad :
       {R"({"setle_ms": 1})", R"({"settle_ms": -1})", R"({"settle_ms": "1"})", R"({"lead": "root"})", "[]"}) {
    EXPECT_EQ(error_of(parse_config(bad)), Code::kInvalid) << bad;
  }
  EXPECT_NE(parse_config(R"({"setle_ms": 1})").error().message().find("setle_ms"), std::string::npos);
}

TEST_F(RouterTest, LeadIsTheSpawnerWhenNobodyElseLeads) {
  router.set_spawner("bob", "alice");
  router.set_spawner("alice", "dave");
  EXPECT_EQ(routes("Lead", "bob"), "alice:pending ");
  EXPECT_EQ(routes("Lead", "alice"), "Lead:held ");  // dave is gone
  router.put_agent({"Lead", 1, 0, "active"});
  EXPECT_EQ(routes("Lead", "bob"), "Lead:pending ");
}

}  // namespace
}  // namespace warren::relay
