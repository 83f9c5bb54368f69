#include "net/host_rules.h"

#include <gtest/gtest.h>

namespace warren::net {
namespace {

HostRules rules_of(const std::vector<std::string>& words) {
  Result<HostRules> rules = HostRules::parse(words);
  EXPECT_TRUE(rules.ok()) << (rules.ok() ? "" : rules.error().message());
  return rules.ok() ? *rules : HostRules();
}

bool allows(const HostRules& rules, std::string_view target) {
  Result<HostPort> parsed = parse_host_port(target);
  EXPECT_TRUE(parsed.ok()) << target;
  return parsed.ok() && rules.judge(*parsed).is_allowed;
}

TEST(HostRules, NamesAreComparedAsNames) {
  HostRules rules = rules_of({"API.Example.com.", "*.example.org:443"});
  EXPECT_TRUE(allows(rules, "api.example.com:443"));
  EXPECT_TRUE(allows(rules, "aPi.example.COM.:80"));
  EXPECT_TRUE(allows(rules, "a.b.example.org:443"));
  for (const char* other : {"example.com:443", "xapi.example.com:443", "api.example.com.evil.net:443",
                            "example.org:443", "xexample.org:443", "a.example.org:80", "api.example.com:22"}) {
    EXPECT_FALSE(allows(rules, other)) << other;
  }
}

TEST(HostRules, WhatOnlySomeLibrariesReadAsAnAddressIsNoHost) {
  for (const char* bad :
       {"0x7f.1", "127.1", "2130706433", "0177.0.0.1", "1.2.3.4.5", "0x7f000001", "a.0x10", "", ".", "a..b", "-a.b",
        "a b", "a\xc3\xbc.de", "[127.0.0.1]", "[::1", "fe80::1%eth0", "a/b", "user@host", "h\n"}) {
    EXPECT_FALSE(parse_host(bad).ok()) << bad;
  }
  EXPECT_EQ(parse_host("[::ffff:127.0.0.1]")->name, "127.0.0.1");
  EXPECT_EQ(parse_host("[2001:DB8::1]")->text(), "[2001:db8::1]");
  EXPECT_FALSE(parse_host(std::string(254, 'a')).ok());
}

TEST(HostRules, AnAddressIsAllowedOnlyByItself) {
  HostRules rules = rules_of({"127.0.0.1:8443", "10.1.0.0/16:443", "[fd00::]/8:*"});
  EXPECT_TRUE(allows(rules, "127.0.0.1:8443"));
  EXPECT_TRUE(allows(rules, "[::ffff:127.0.0.1]:8443"));
  EXPECT_TRUE(allows(rules, "10.1.2.3:443"));
  EXPECT_TRUE(allows(rules, "[fd12::1]:22"));
  EXPECT_FALSE(allows(rules, "127.0.0.1:8444"));
  EXPECT_FALSE(allows(rules, "10.2.0.1:443"));
  EXPECT_FALSE(allows(rules, "8.8.8.8:443"));
}

TEST(HostRules, ANameMustNotLeadToAnAddressThatIsNotPublic) {
  HostRules rules = rules_of({"example.com", "10.0.0.7"});
  HostPort target = *parse_host_port("example.com:443");
  for (const char* bad : {"127.0.0.1",
                          "10.0.0.1",
                          "172.31.0.1",
                          "192.168.1.1",
                          "169.254.169.254",
                          "100.64.0.1",
                          "0.0.0.0",
                          "255.255.255.255",
                          "224.0.0.1",
                          "::1",
                          "::",
                          "fe80::1",
                          "fc00::1",
                          "::ffff:127.0.0.1",
                          "::127.0.0.1",
                          "64:ff9b::7f00:1",
                          "2002:7f00:1::",
                          "2001::1",
                          "2001:db8::1",
                          "ff02::1"}) {
    EXPECT_FALSE(rules.may_lead_to(target, *Address::parse(bad))) << bad;
  }
  for (const char* good : {"8.8.8.8", "172.32.0.1", "2606:4700::1", "64:ff9b::808:808", "10.0.0.7"}) {
    EXPECT_TRUE(rules.may_lead_to(target, *Address::parse(good))) << good;
  }
  HostRules local = rules_of({"localhost:8080"});
  EXPECT_TRUE(local.may_lead_to(*parse_host_port("localhost:8080"), *Address::parse("::1")));
  EXPECT_FALSE(local.may_lead_to(*parse_host_port("localhost:8080"), *Address::parse("10.0.0.1")));
}

TEST(HostRules, APortOtherThanTheWebsMustBeNamed) {
  HostRules rules = rules_of({"a.example,b.example:22", "c.example:*"});
  EXPECT_FALSE(rules.judge(*parse_host_port("a.example:443")).is_port_named);
  EXPECT_TRUE(rules.judge(*parse_host_port("b.example:22")).is_port_named);
  EXPECT_TRUE(rules.judge(*parse_host_port("c.example:9999")).is_allowed);
  EXPECT_FALSE(allows(rules, "a.example:8080"));
}

TEST(HostRules, SetsStandForTheirHosts) {
  HostRules rules = rules_of({"pypi", "github"});
  EXPECT_TRUE(allows(rules, "files.pythonhosted.org:443"));
  EXPECT_TRUE(allows(rules, "raw.githubusercontent.com:443"));
  EXPECT_FALSE(allows(rules, "example.com:443"));
}

TEST(HostRules, WhatIsNoRuleIsRefused) {
  for (const char* bad :
       {"", ",", "*", "*.com", "nonsense", "a.example:0", "a.example:70000", "a.example:x", "a.example/path",
        "https://a.example", "10.0.0.0/33", "10.0.0.0/0", "*.10.0.0.1", "a.*.example"}) {
    EXPECT_FALSE(HostRules::parse(std::vector<std::string>{bad}).ok()) << bad;
  }
}

TEST(HostRules, AMistakeIsAnsweredWithWhatToWrite) {
  auto hint_for = [](const char* word) { return HostRules::parse(std::vector<std::string>{word}).error().hint(); };
  EXPECT_EQ(hint_for("http://a.example"), "write 'a.example'");
  EXPECT_EQ(hint_for("HTTPS://u:p@A.example:8443/x?y#z"), "write 'a.example:8443'");
  EXPECT_EQ(hint_for("http://x"), "write 'x:80'");
  EXPECT_EQ(hint_for("https://x/"), "write 'x:443'");
  EXPECT_EQ(hint_for("https://[fd00::1]/"), "write '[fd00::1]'");
  EXPECT_EQ(hint_for("https://"), "write HOST or HOST:PORT");
  for (const char* all : {"0.0.0.0/0", "[::]/0", "::/0", "*", "*:443"}) {
    EXPECT_NE(hint_for(all).find("--net all"), std::string::npos) << all;
  }
}

}  // namespace
}  // namespace warren::net
