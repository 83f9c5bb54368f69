#include "net/proxy.h"

#include <chrono>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warren::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A proxy on a port of the loopback device that allows nothing: what matters here is decided before.
class ProxyTest : public ::testing::Test {
 protected:
  static constexpr int kHeadMs = 400;

  void SetUp() override {
    listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(::listen(listener_.get(), 8), 0);
    ASSERT_EQ(::pipe(stop_.data()), 0);
    HostRules rules = *HostRules::parse(std::vector<std::string>{"allowed.example"});
    proxy_ = std::make_unique<Proxy>(
        rules, Upstreams(),
        [this](const ProxyEvent& event) {
          std::lock_guard lock(mutex_);
          reasons_.push_back(event.reason);
        },
        ProxyLimits{.head_ms = kHeadMs});
    thread_ = std::thread([this] { proxy_->serve(listener_, stop_[0]); });
  }

  void TearDown() override {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
  }

  // What the proxy answers to these bytes, before it ends the connection.
  std::string talk(std::string_view bytes) {
    Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    socklen_t size = sizeof at;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size);
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    auto began = std::chrono::steady_clock::now();
    std::string answer;
    std::array<char, 1024> part;
    for (ssize_t got = 0; (got = ::recv(client.get(), part.data(), part.size(), 0)) > 0;) {
      answer.append(part.data(), static_cast<std::size_t>(got));
    }
    waited_ = std::chrono::steady_clock::now() - began;
    return answer;
  }

  bool was_at_once() const { return waited_ < std::chrono::milliseconds(kHeadMs / 2); }

  std::vector<std::string> reasons() {
    std::lock_guard lock(mutex_);
    return std::exchange(reasons_, {});
  }

 private:
  Fd listener_;
  std::array<int, 2> stop_{};
  std::unique_ptr<Proxy> proxy_;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> reasons_;
  std::chrono::steady_clock::duration waited_{};
};

TEST_F(ProxyTest, ARequestWithLoneLineFeedsIsRefusedAtOnce) {
  for (const char* bad : {"GET http://allowed.example/ HTTP/1.1\n\n", "GET http://allowed.example/ HTTP/1.1\nHost: x\n",
                          "CONNECT allowed.example:443 HTTP/1.1\n", "GET http://allowed.example/ HTTP/1.1\r\nA: b\n"}) {
    std::string answer = talk(bad);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << bad;
    EXPECT_THAT(answer, HasSubstr("lines end with CR LF")) << bad;
    EXPECT_TRUE(was_at_once()) << bad;
    EXPECT_THAT(reasons(), ElementsAre(HasSubstr("ends with LF alone")));
  }
}

TEST_F(ProxyTest, Socks4IsRefusedAtOnceInItsOwnWords) {
  std::string request("\4\1\0\120\177\0\0\1user\0", 13);
  EXPECT_EQ(talk(request), std::string("\0\133\0\0\0\0\0\0", 8));
  EXPECT_TRUE(was_at_once());
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("SOCKS4")));
}

TEST_F(ProxyTest, TlsToTheProxyItselfIsRefusedAtOnce) {
  EXPECT_THAT(talk(std::string("\x16\x03\x01\x02\x00\x01", 6)), StartsWith("\x15\x03"));
  EXPECT_TRUE(was_at_once());
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("begins with http://")));
}

TEST_F(ProxyTest, WhatIsNoProtocolAtAllIsRefusedAtOnce) {
  EXPECT_THAT(talk(std::string("\0\0", 2)), StartsWith("HTTP/1.1 400 "));
  EXPECT_TRUE(was_at_once());
}

TEST_F(ProxyTest, HalfARequestTimesOutWithAnAnswer) {
  for (const char* half : {"GET http://allowed.example/ HTTP/1.1\r\nHost: x\r\n", "CONN"}) {
    EXPECT_THAT(talk(half), StartsWith("HTTP/1.1 408 ")) << half;
    EXPECT_THAT(reasons(), ElementsAre(HasSubstr("half a request")));
  }
  EXPECT_EQ(talk("\5"), "");
  EXPECT_THAT(reasons(), ElementsAre(HasSubstr("half a SOCKS5 request")));
  EXPECT_EQ(talk(""), "");
  EXPECT_THAT(reasons(), ElementsAre()) << "who asks for nothing is not refused anything";
}

TEST_F(ProxyTest, TraceIsRefused) {
  for (const char* method : {"TRACE", "trace", "Trace", "TRACK"}) {
    EXPECT_THAT(talk(std::string(method) + " http://allowed.example/ HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  }
}

}  // namespace
}  // namespace warren::net
