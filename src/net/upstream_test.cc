#include "net/upstream.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warren::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Use = Upstreams::Use;

Result<Upstreams> upstreams_of(const std::map<std::string, std::string>& variables) {
  return Upstreams::from_environment([&](const std::string& name) {
    auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

std::string proxy_of(const Upstreams& all, std::string_view target, Use use = Use::kTunnel) {
  const UpstreamProxy* proxy = all.find(*parse_host_port(target), use);
  return proxy == nullptr ? "" : proxy->at.text();
}

TEST(Upstreams, EachUseHasItsVariable) {
  Upstreams none = *upstreams_of({});
  EXPECT_EQ(proxy_of(none, "a.example:443"), "");
  EXPECT_THAT(none.names(), ElementsAre());

  Upstreams both =
      *upstreams_of({{"HTTPS_PROXY", "http://one:3128"}, {"http_proxy", "two"}, {"ALL_PROXY", "socks5://x"}});
  EXPECT_EQ(proxy_of(both, "a.example:443"), "one:3128");
  EXPECT_EQ(proxy_of(both, "a.example:80", Use::kPlainHttp), "two:80");
  EXPECT_THAT(both.names(), ElementsAre("one:3128", "two:80"));

  Upstreams all = *upstreams_of({{"all_proxy", "HTTP://[fd00::1]:8080/"}, {"https_proxy", " "}});
  EXPECT_EQ(proxy_of(all, "a.example:443"), "[fd00::1]:8080");
  EXPECT_EQ(proxy_of(all, "a.example:80", Use::kPlainHttp), "[fd00::1]:8080");
  EXPECT_THAT(all.names(), ElementsAre("[fd00::1]:8080"));

  EXPECT_EQ(proxy_of(*upstreams_of({{"https_proxy", "lower:1"}, {"HTTPS_PROXY", "upper:1"}}), "a.example:443"),
            "lower:1");
}

TEST(Upstreams, TheUserOfTheAddressIsAuthorization) {
  Upstreams all =
      *upstreams_of({{"https_proxy", "http://a%40b:p%3Aq@proxy.example:3128"}, {"http_proxy", "http://u@p:1"}});
  EXPECT_EQ(all.find(*parse_host_port("a.example:443"), Use::kTunnel)->authorization, "Basic YUBiOnA6cQ==");
  EXPECT_EQ(all.find(*parse_host_port("a.example:80"), Use::kPlainHttp)->authorization, "Basic dTo=");
  EXPECT_EQ(connect_request(*parse_host_port("a.example:443"), "Basic x"),
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nProxy-Authorization: Basic x\r\n\r\n");
  EXPECT_EQ(connect_request(*parse_host_port("a.example:443"), ""),
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
}

TEST(Upstreams, HostsInNoProxyAreReachedDirectly) {
  Upstreams all = *upstreams_of({{"all_proxy", "http://p:1"},
                                 {"NO_PROXY",
                                  "corp.example, .dot.example,*.star.example one.example:8443,10.0.0.0/8,"
                                  "192.168.1.1,[fd00::]/8,<local>,10.0.0.0/99"}});
  for (const char* direct : {"corp.example:443", "a.corp.example:443", "dot.example:1", "x.dot.example:1",
                             "a.star.example:1", "one.example:8443", "10.9.8.7:22", "192.168.1.1:80", "[fd12::1]:80",
                             "localhost:80", "127.0.0.1:80", "127.9.9.9:80", "[::1]:80"}) {
    EXPECT_EQ(proxy_of(all, direct), "") << direct;
  }
  for (const char* through :
       {"xcorp.example:443", "one.example:443", "11.0.0.1:22", "192.168.1.2:80", "[fe00::1]:80"}) {
    EXPECT_EQ(proxy_of(all, through), "p:1") << through;
  }
  Upstreams none = *upstreams_of({{"all_proxy", "socks5://p:1"}, {"no_proxy", "a,*"}});
  EXPECT_EQ(proxy_of(none, "b.example:443"), "");
}

TEST(Upstreams, WhatCannotBeUsedIsAnErrorThatDoesNotShowThePassword) {
  for (const char* bad : {"http://", "http://user:secret@", "http://user:secret@host:x", "http://user:sec/ret@host:1",
                          "http://user:secret%zz@host:1", "http://host secret:1", "socks5h://user:secret@host:1",
                          "https://user:secret@host:1", "user:secret://x"}) {
    Result<Upstreams> all = upstreams_of({{"HTTPS_PROXY", bad}});
    ASSERT_FALSE(all.ok()) << bad;
    EXPECT_THAT(all.error().message(), HasSubstr("HTTPS_PROXY")) << bad;
    EXPECT_THAT(all.error().message() + all.error().hint(), Not(HasSubstr("sec"))) << bad;
    EXPECT_NE(all.error().hint(), "") << bad;
  }
}

TEST(ConnectAnswer, OnlyASuccessOpensTheTunnel) {
  std::string good = "HTTP/1.1 200 Connection established\r\nA: b\r\n\r\n";
  EXPECT_EQ(**parse_connect_answer(good + "hello"), good.size());
  EXPECT_EQ(**parse_connect_answer("HTTP/1.0 200\r\n\r\n"), 16U);
  for (const char* part : {"", "H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r"}) {
    EXPECT_EQ(*parse_connect_answer(part), std::nullopt) << part;
  }
  EXPECT_THAT(parse_connect_answer("HTTP/1.1 407 Proxy\r\n\r\n").error().message(), HasSubstr("a user and a password"));
  EXPECT_THAT(parse_connect_answer("HTTP/1.1 503 Busy\x1b\r\n\r\n").error().message(), HasSubstr("503 Busy\\x1b"));
  for (const char* bad : {"x", "SSH-2.0", "HTTP/1.1 2000\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"}) {
    EXPECT_FALSE(parse_connect_answer(bad).ok()) << bad;
  }
  EXPECT_FALSE(parse_connect_answer("HTTP/1.1 200 OK\r\nA: " + std::string(20'000, 'x')).ok());
}

}  // namespace
}  // namespace warren::net
