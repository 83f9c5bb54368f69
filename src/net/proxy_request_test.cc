#include "net/proxy_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/tls_hello.h"

namespace warren::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProxyRequest, APlainRequestIsRewrittenForOneConnection) {
  Result<ProxyRequest> request = parse_proxy_request(
      "POST http://Example.com:8080/a?b HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\n"
      "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\nContent-Length: 3\r\nAccept: */*\r\n\r\n");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->target.text(), "example.com:8080");
  EXPECT_EQ(request->body_bytes, 3U);
  EXPECT_EQ(request->head,
            "POST /a?b HTTP/1.1\r\nHost: example.com:8080\r\nContent-Length: 3\r\nAccept: */*\r\n"
            "Connection: close\r\n\r\n");
}

TEST(ProxyRequest, AnotherProxyGetsTheWholeAddressAndItsPassword) {
  Result<ProxyRequest> request = parse_proxy_request("GET http://Example.com/a?b HTTP/1.1\r\nAccept: */*\r\n\r\n");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(head_for_proxy(*request, "Basic x"),
            "GET http://example.com/a?b HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\nConnection: close\r\n"
            "Proxy-Authorization: Basic x\r\n\r\n");
  EXPECT_EQ(head_for_proxy(*parse_proxy_request("GET http://[fd00::1]:81 HTTP/1.0\r\n\r\n"), ""),
            "GET http://[fd00::1]:81/ HTTP/1.0\r\nHost: [fd00::1]:81\r\nConnection: close\r\n\r\n");
}

TEST(ProxyRequest, ATunnelNeedsAPort) {
  EXPECT_TRUE(parse_proxy_request("CONNECT example.com:443 HTTP/1.1\r\n\r\n")->is_tunnel);
  EXPECT_FALSE(parse_proxy_request("CONNECT example.com HTTP/1.1\r\n\r\n").ok());
}

TEST(ProxyRequest, WhatServersReadDifferentlyIsRefused) {
  const std::string start = "POST http://a.example/ HTTP/1.1\r\n";
  for (const char* headers :
       {"Content-Length: 1\r\nContent-Length: 2\r\n", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: +1\r\n", "Content-Length: 1 1\r\n", "A: b\n c: d\r\n", " folded: x\r\n", "A : b\r\n",
        "no colon\r\n", ": x\r\n"}) {
    EXPECT_FALSE(parse_proxy_request(start + headers + "\r\n").ok()) << headers;
  }
  for (const char* line : {"GET / HTTP/1.1", "GET https://a.example/ HTTP/1.1", "GET http://u@a.example/ HTTP/1.1",
                           "GET http://a.example/#f HTTP/1.1", "GET http:///x HTTP/1.1", "GET http://a.example/ HTTP/2",
                           "GET http://a.example/ b HTTP/1.1", "GET\thttp://a.example/ HTTP/1.1", "GET", "",
                           "GET http://0x7f.1/ HTTP/1.1", "GET http://a.example:99999/ HTTP/1.1"}) {
    EXPECT_FALSE(parse_proxy_request(std::string(line) + "\r\n\r\n").ok()) << line;
  }
}

TEST(BodyFrame, EndsWhereTheBodyEnds) {
  BodyFrame plain(5);
  EXPECT_EQ(*plain.take("abc"), 3U);
  EXPECT_EQ(*plain.take("defGET /"), 2U);
  EXPECT_TRUE(plain.is_done());
  EXPECT_TRUE(BodyFrame(0).is_done());

  std::string chunked = "3;x=1\r\nabc\r\n0\r\nA: b\r\n\r\n";
  std::string all = chunked + "GET / HTTP/1.1\r\n";
  BodyFrame whole(std::nullopt);
  EXPECT_EQ(*whole.take(all), chunked.size());
  EXPECT_TRUE(whole.is_done());
  BodyFrame bytewise(std::nullopt);
  std::size_t taken = 0;
  for (char byte : all) taken += *bytewise.take(std::string_view(&byte, 1));
  EXPECT_EQ(taken, chunked.size());
  for (const char* bad : {"x\r\n", "-1\r\n", "3\nabc", "1\r\nab\r\n", "\r\n", "1000000000000000\r\n"}) {
    BodyFrame frame(std::nullopt);
    EXPECT_FALSE(frame.take(bad).ok()) << bad;
  }
  BodyFrame endless(std::nullopt);
  EXPECT_FALSE(endless.take("1;" + std::string(1000, 'x')).ok());
}

TEST(Socks, IsParsedAsItArrives) {
  using namespace std::string_literals;
  EXPECT_FALSE(parse_socks_greeting("\x05\x02\x00"s)->has_value());
  EXPECT_TRUE((*parse_socks_greeting("\x05\x02\x02\x00"s))->offers_no_password);
  EXPECT_FALSE((*parse_socks_greeting("\x05\x01\x02"s))->offers_no_password);
  EXPECT_FALSE(parse_socks_greeting("\x04\x01"s).ok());
  std::string request = "\x05\x01\x00\x03\x09"s + "a.example" + "\x01\xbb"s;
  for (std::size_t size = 0; size < request.size(); ++size) {
    Result<std::optional<SocksRequest>> part = parse_socks_request(request.substr(0, size));
    ASSERT_TRUE(part.ok());
    EXPECT_FALSE(part->has_value());
  }
  EXPECT_EQ((*parse_socks_request(request))->target.text(), "a.example:443");
  EXPECT_EQ((*parse_socks_request("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"s))->target.text(), "127.0.0.1:80");
  EXPECT_FALSE(parse_socks_request("\x05\x01\x00\x02....."s).ok());
  EXPECT_FALSE(parse_socks_request("\x05\x01\x00\x03\x03"
                                   "a b\x00\x50"s)
                   .ok());
  EXPECT_FALSE(parse_socks_request("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x00"s).ok());
}

std::string number(std::size_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string hello_for(std::string_view name, int names = 1) {
  std::string entry = number(0, 1) + number(name.size(), 2) + std::string(name);
  std::string list = number(entry.size(), 2) + entry;
  std::string extensions = number(10, 2) + number(2, 2) + "xx";
  for (int i = 0; i < names; ++i) extensions += number(0, 2) + number(list.size(), 2) + list;
  std::string body = number(0x0303, 2) + std::string(32, 'r') + number(0, 1) + number(2, 2) + "cc" + number(1, 1) +
                     number(0, 1) + number(extensions.size(), 2) + extensions;
  return number(1, 1) + number(body.size(), 3) + body;
}

std::string in_records(const std::string& handshake, std::size_t size) {
  std::string text;
  for (std::size_t at = 0; at < handshake.size(); at += size) {
    std::string part = handshake.substr(at, size);
    text += number(22, 1) + number(0x0301, 2) + number(part.size(), 2) + part;
  }
  return text;
}

TEST(TlsHello, TheServersNameIsFoundHoweverItIsSplit) {
  using Kind = TlsHello::Kind;
  for (std::size_t size : {1U, 7U, 1000U}) {
    std::string bytes = in_records(hello_for("a.example"), size);
    for (std::size_t count = 0; count < bytes.size(); ++count) {
      ASSERT_EQ(parse_tls_hello(bytes.substr(0, count)).kind, Kind::kIncomplete) << count;
    }
    TlsHello hello = parse_tls_hello(bytes + "more");
    EXPECT_EQ(hello.kind, Kind::kComplete);
    EXPECT_EQ(hello.server_name, "a.example");
  }
  EXPECT_EQ(parse_tls_hello(in_records(hello_for("a", 0), 1000)).server_name, std::nullopt);
  EXPECT_EQ(parse_tls_hello("GET /").kind, Kind::kNotTls);
  EXPECT_EQ(parse_tls_hello(in_records(hello_for("a.example", 2), 1000)).kind, Kind::kBroken);
  EXPECT_EQ(parse_tls_hello(in_records(number(2, 1) + number(4, 3) + "abcd", 1000)).kind, Kind::kBroken);
  EXPECT_EQ(parse_tls_hello(in_records(number(1, 1) + number(4, 3) + "abcd", 1000)).kind, Kind::kBroken);
  EXPECT_EQ(parse_tls_hello("\x16\x02").kind, Kind::kBroken);
  EXPECT_EQ(parse_tls_hello(number(22, 1) + number(0x0301, 2) + number(0, 2)).kind, Kind::kBroken);
  EXPECT_EQ(parse_tls_hello(in_records(number(1, 1) + number(0xffffff, 3) + std::string(100'000, 'x'), 16'000)).kind,
            Kind::kBroken);
}

}  // namespace
}  // namespace warren::net
