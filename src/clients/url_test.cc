#include "clients/url.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Url, SplitsIntoItsParts) {
  Url url = parse_url("Redis://ann:p%40ss@host:6379/0/a%2Fb?timeout=5s&x=%26#part").value();
  EXPECT_EQ(url.scheme, "redis");
  EXPECT_EQ(url.user, "ann");
  EXPECT_EQ(url.password, "p@ss");
  EXPECT_EQ(url.hosts, std::vector<std::string>{"host:6379"});
  EXPECT_EQ(url.path, "/0/a%2Fb");
  EXPECT_EQ(*url.find("timeout"), "5s");
  EXPECT_EQ(*url.find("x"), "&");
  EXPECT_EQ(url.find("y"), nullptr);
  EXPECT_EQ(without_secrets(url), "redis://host:6379/0/a%2Fb");
}

TEST(Url, HasSeveralHosts) {
  EXPECT_EQ(parse_url("redis+sentinel://a:1,[::1]:2,c/x").value().hosts,
            (std::vector<std::string>{"a:1", "[::1]:2", "c"}));
  EXPECT_EQ(parse_host_port("[::1]:2", 6379).value().host, "::1");
  EXPECT_EQ(parse_host_port("c", 6379).value().port, 6379);
}

TEST(Url, RefusesWhatIsNotOne) {
  for (const char* text : {"", "host", "://host", "1x://host", "a b://host", "redis://h:0", "redis://h:65536",
                           "redis://h:x", "redis://[::1", "redis://[::1]x", "redis://a,,b", "redis://a,", "redis://:1",
                           "redis://u:%zz@h", "redis://u:%0@h", "redis://u:%00@h", "redis://h/\n"}) {
    EXPECT_EQ(parse_url(text).error().code(), Code::kInvalid) << text;
  }
  EXPECT_EQ(parse_url("redis://u:secret%zz@h").error().message().find("secret"), std::string::npos);
}

TEST(Url, EncodesWhatItDecodes) { EXPECT_EQ(decode_percent("a%20b/%FF").value(), "a b/\xff"); }

}  // namespace
}  // namespace warren
