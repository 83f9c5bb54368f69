#include "net/http_server.h"

#include <chrono>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "os/fd.h"

namespace warren::net {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Fd connect_to(const HttpServer& server) {
  Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.address().port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return client;
}

std::string read_all(const Fd& client) {
  std::string answer;
  std::string buffer(4096, '\0');
  for (;;) {
    Result<std::size_t> got = read_some(client.get(), as_mutable_bytes(buffer));
    if (!got.ok() || *got == 0) return answer;
    answer.append(buffer, 0, *got);
  }
}

std::string ask(const HttpServer& server, std::string_view line, std::string_view host = "127.0.0.1",
                std::string_view body = "") {
  Fd client = connect_to(server);
  std::string request = fmt::format("{} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                                    line, host, body.size(), body);
  EXPECT_TRUE(write_all(client.get(), as_bytes(request)).ok());
  return read_all(client);
}

std::unique_ptr<HttpServer> open_server() {
  auto server = HttpServer::open({});
  EXPECT_TRUE(server.ok());
  (*server)->handle("GET", "/a", [](const HttpRequest&) { return HttpResponse{.body = "hello\n"}; });
  (*server)->handle("POST", "/a", [](const HttpRequest& request) {
    return HttpResponse{.status = 201, .body = request.body + request.query.at("q"), .type = "application/json"};
  });
  (*server)->start();
  return std::move(server).take_value();
}

TEST(HttpServer, AnswersByMethodAndPath) {
  auto server = open_server();
  EXPECT_NE(server->address().port, 0);
  std::string got = ask(*server, "GET /a");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(got, HasSubstr("\r\n\r\nhello\n"));
  std::string posted = ask(*server, "POST /a?q=x%20y", "localhost:80", "body ");
  EXPECT_THAT(posted, StartsWith("HTTP/1.1 201"));
  EXPECT_THAT(posted, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(posted, HasSubstr("body x y"));
  EXPECT_THAT(ask(*server, "HEAD /a"), Not(HasSubstr("hello")));
  EXPECT_THAT(ask(*server, "GET /b"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(*server, "DELETE /a"), StartsWith("HTTP/1.1 405"));
}

TEST(HttpServer, SurvivesWhatIsNotHttpAndVeryLongPaths) {
  auto server = open_server();
  {
    Fd client = connect_to(*server);
    ASSERT_TRUE(write_all(client.get(), as_bytes("\x01\x02 nonsense\r\n\r\n")).ok());
    ::shutdown(client.get(), SHUT_WR);
    read_all(client);
  }
  EXPECT_THAT(ask(*server, "GET /" + std::string(8000, 'x')), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(*server, "GET /" + std::string(100'000, 'x')), StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(ask(*server, "POST /a?q=1", "127.0.0.1", std::string(2U << 20, 'x')), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(ask(*server, "GET /a"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, StopsThoughClientsAreSlowAndFreesThePort) {
  auto server = open_server();
  std::vector<Fd> idle;
  for (int i = 0; i < 5; ++i) {
    idle.push_back(connect_to(*server));
    ASSERT_TRUE(write_all(idle.back().get(), as_bytes("GET /a HTTP/1.1\r\nX-Slow:")).ok());
  }
  HttpAddress address = server->address();
  EXPECT_EQ(HttpServer::open(address).error().code(), Code::kBusy);
  server->stop();
  server->stop();
  for (const Fd& client : idle) read_all(client);  // ended
  EXPECT_TRUE(HttpServer::open(address).ok());
  EXPECT_TRUE(HttpServer::open(address).ok());  // the previous one was never started, yet released the port
}

TEST(HttpServer, AnswersOnlyToLoopbackNames) {
  auto server = open_server();
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:9100", "127.8.9.10", "localhost", "LocalHost:1", "[::1]", "[::1]:80"}) {
    EXPECT_THAT(ask(*server, "GET /a", host), StartsWith("HTTP/1.1 200")) << host;
  }
  for (const char* host :
       {"127.evil.example", "127.0.0.1.evil.example", "127.1", "127.0.0.1:80:80", "127.0.0.1:x", "localhost.evil",
        "[::1]evil.example", "[::1", "[::2]", "evil.example", "10.0.0.1", "", "::1"}) {
    EXPECT_THAT(ask(*server, "GET /a", host), StartsWith("HTTP/1.1 403")) << host;
  }
}

TEST(HttpServer, SilentClientsDoNotKeepOthersFromBeingAnswered) {
  auto server = open_server();
  std::vector<Fd> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(connect_to(*server));
    std::string_view begun = i % 2 == 0 ? "" : "GET /a HTTP/1.1\r\nX-Slow:";
    ASSERT_TRUE(write_all(silent.back().get(), as_bytes(begun)).ok());
  }
  auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(ask(*server, "GET /a"), StartsWith("HTTP/1.1 200"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  for (const Fd& client : silent) EXPECT_THAT(read_all(client), Not(HasSubstr("200"))) << "dropped";
}

TEST(HttpServer, ARequestMustArriveWithinSecondsHoweverOftenAByteComes) {
  auto server = open_server();
  Fd client = connect_to(*server);
  auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::seconds(30)) {
    if (::send(client.get(), "x", 1, MSG_NOSIGNAL) != 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

TEST(HttpServer, MoreClientsThanItKeepsAreTurnedAwayAndItLivesOn) {
  auto server = open_server();
  std::vector<Fd> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(connect_to(*server));
  std::string answer;
  for (int i = 0; i < 100 && !answer.starts_with("HTTP/1.1 200"); ++i) {
    answer = ask(*server, "GET /a");
    if (answer.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, StaysOnLoopbackByDefault) {
  EXPECT_EQ(HttpServer::open({.host = "0.0.0.0"}).error().code(), Code::kDenied);
  EXPECT_TRUE(HttpServer::open({.host = "0.0.0.0"}, {.exposure = Exposure::kAnywhere}).ok());
}

TEST(HttpAddress, IsReadAndRefused) {
  EXPECT_EQ(parse_http_address("9100")->text(), "127.0.0.1:9100");
  EXPECT_EQ(parse_http_address("localhost:0")->text(), "127.0.0.1:0");
  EXPECT_EQ(parse_http_address("[::1]:80")->text(), "[::1]:80");
  EXPECT_TRUE(parse_http_address("[::1]:80")->is_loopback());
  EXPECT_FALSE(parse_http_address("10.0.0.1:80")->is_loopback());
  for (const char* bad : {"", ":", "x", "-1", "65536", "80x", "example.org:80", ":80", "::1:80", "[127.0.0.1]:80",
                          "1.2.3:80", "[]:80", "127.0.0.1:", "127.0.0.1:80:"}) {
    EXPECT_EQ(parse_http_address(bad).error().code(), Code::kInvalid) << bad;
  }
}

}  // namespace
}  // namespace warren::net
