#include "clients/redis.h"

#include <gtest/gtest.h>

#include "clients/url_options.h"
#include "testing/matchers.h"

namespace warren::redis {
namespace {

using std::chrono::milliseconds;
using ::warren::testing::error_of;

Result<ClientOptions> parse(std::string_view text) {
  Url url = WARREN_TRY(parse_url(text));
  return parse_client_url(url, milliseconds(10'000));
}

TEST(RedisUrl, NamesOneServer) {
  auto plain = parse("redis://host");
  ASSERT_OK(plain);
  EXPECT_EQ(plain->kind, ClientOptions::Kind::kServer);
  EXPECT_EQ(plain->hosts[0].port, 6379);
  EXPECT_EQ(plain->database, 0);
  EXPECT_FALSE(plain->password);
  EXPECT_FALSE(plain->has_tls);
  EXPECT_EQ(plain->timeout, milliseconds(10'000));
  auto full = parse("rediss://user:p%40ss@[::1]:7000/3?timeout=250ms&connections=2&ca=%2Fetc%2Fca.pem");
  ASSERT_OK(full);
  EXPECT_EQ(full->hosts[0].host, "::1");
  EXPECT_EQ(full->hosts[0].port, 7000);
  EXPECT_EQ(full->user, "user");
  EXPECT_EQ(full->password, "p@ss");
  EXPECT_EQ(full->database, 3);
  EXPECT_TRUE(full->has_tls);
  EXPECT_EQ(full->ca_file, "/etc/ca.pem");
  EXPECT_EQ(full->timeout, milliseconds(250));
  EXPECT_EQ(full->connections_max, 2U);
}

TEST(RedisUrl, NamesSeveralMachines) {
  auto sentinels = parse("redis+sentinel://:pw@a,b:1000/my%2Fname/5?sentinel_password=other");
  ASSERT_OK(sentinels);
  EXPECT_EQ(sentinels->kind, ClientOptions::Kind::kSentinel);
  EXPECT_EQ(sentinels->hosts[0].port, 26379);
  EXPECT_EQ(sentinels->hosts[1].port, 1000);
  EXPECT_EQ(sentinels->master, "my/name");
  EXPECT_EQ(sentinels->database, 5);
  EXPECT_EQ(sentinels->sentinel_password, "other");
  auto cluster = parse("rediss+cluster://a,b,c");
  ASSERT_OK(cluster);
  EXPECT_EQ(cluster->kind, ClientOptions::Kind::kCluster);
  EXPECT_EQ(cluster->hosts.size(), 3U);
  EXPECT_TRUE(cluster->has_tls);
}

TEST(RedisUrl, IsRefusedWithoutRepeatingAPassword) {
  for (const char* bad : {"redis://:geheim@", "redis://:geheim@a,b", "redis://:geheim@a/x", "redis://:geheim@a/-1",
                          "redis+sentinel://:geheim@a", "redis+cluster://:geheim@a/1", "redis+other://:geheim@a",
                          "redis://:geheim@a?timeout=1h30", "redis://:geheim@a?connections=many"}) {
    auto parsed = parse(bad);
    ASSERT_EQ(error_of(parsed), Code::kInvalid) << bad;
    EXPECT_EQ(parsed.error().message().find("geheim"), std::string::npos) << bad;
  }
  EXPECT_EQ(error_of(parse("redis://user@a")), Code::kInvalid) << "a user without a password";
}

TEST(UrlOptions, DurationsHaveUnitsAndLimits) {
  auto of = [](std::string_view text) {
    return duration_option(*parse_url("x://h?t=" + std::string(text)), "t", milliseconds(7));
  };
  EXPECT_EQ(*of("500ms"), milliseconds(500));
  EXPECT_EQ(*of("2s"), milliseconds(2000));
  EXPECT_EQ(*of("60m"), milliseconds(3'600'000));
  EXPECT_EQ(*duration_option(*parse_url("x://h"), "t", milliseconds(7)), milliseconds(7));
  for (const char* bad : {"", "5", "0s", "-1s", "61m", "s", "1.5s", "99999999999s"}) {
    EXPECT_EQ(error_of(of(bad)), Code::kInvalid) << bad;
  }
}

TEST(UrlOptions, UnknownOnesAreRefusedWithTheKnownOnes) {
  constexpr std::string_view kKnown[] = {"one", "two"};
  EXPECT_OK(check_options(*parse_url("x://h?one=1&two=2"), kKnown));
  auto checked = check_options(*parse_url("x://h?three=3"), kKnown);
  ASSERT_EQ(error_of(checked), Code::kInvalid);
  EXPECT_EQ(checked.error().hint(), "options: one, two");
}

}  // namespace
}  // namespace warren::redis
