#include "clients/http.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/path.h"
#include "os/processes/capture.h"
#include "testing/matchers.h"
#include "testing/scripted_server.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using std::chrono::milliseconds;
using testing::answer_with;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedAnswer;
using testing::ScriptedRequest;
using testing::ScriptedServer;

std::unique_ptr<HttpClient> open_client(HttpClientOptions options = {}) {
  return HttpClient::open(std::move(options)).value();
}

ScriptedAnswer show(const ScriptedRequest& request) { return answer_with(200, request.head + "|" + request.body); }

TEST(Http, SendsMethodPathHeadersAndBodyAsGiven) {
  ScriptedServer server(show);
  auto client = open_client();
  std::string body("a\0b", 3);
  HttpAnswer answer = client
                          ->call({.method = "PUT",
                                  .url = server.url() + "/a/../%2F/b?z=1&a=%20",
                                  .headers = {{"X-One", "1"}, {"X-Empty", ""}},
                                  .body = as_bytes(body)})
                          .value();
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr("PUT /a/../%2F/b?z=1&a=%20 HTTP/1.1\r\n"));
  EXPECT_THAT(answer.body, HasSubstr("X-One: 1\r\n"));
  EXPECT_THAT(answer.body, HasSubstr("X-Empty:\r\n"));
  EXPECT_THAT(answer.body, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(answer.body, Not(HasSubstr("Content-Type")));
  EXPECT_THAT(answer.body, Not(HasSubstr("Expect")));
  EXPECT_TRUE(answer.body.ends_with(std::string("|a\0b", 4)));
}

TEST(Http, KnowsEveryMethod) {
  ScriptedServer server([](const ScriptedRequest& request) {
    if (request.begins("HEAD")) return answer_with(204, "", "X-Size: 7\r\n");
    return show(request);
  });
  auto client = open_client();
  HttpAnswer head = client->call({.method = "HEAD", .url = server.url() + "/a"}).value();
  EXPECT_EQ(head.status, 204);
  EXPECT_EQ(*head.find("x-size"), "7");
  EXPECT_EQ(head.find("x-other"), nullptr);
  for (const char* method : {"GET", "DELETE", "POST", "PUT", "PATCH"}) {
    HttpAnswer answer = client->call({.method = method, .url = server.url() + "/a"}).value();
    EXPECT_TRUE(answer.body.starts_with(std::string(method) + " /a HTTP/1.1\r\n")) << answer.body;
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(Http, AnErrorStatusIsAnAnswer) {
  ScriptedServer server([](const ScriptedRequest&) { return answer_with(503, "later"); });
  HttpAnswer answer = open_client()->call({.url = server.url()}).value();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "later");
  EXPECT_FALSE(answer.is_success());
}

TEST(Http, ARedirectIsAnAnswerUnlessItIsToBeFollowed) {
  ScriptedServer server([](const ScriptedRequest& request) {
    if (request.begins("GET /a ")) return answer_with(302, "", "Location: /b\r\n");
    return answer_with(200, "arrived");
  });
  EXPECT_EQ(open_client()->call({.url = server.url() + "/a"}).value().status, 302);
  HttpAnswer followed = open_client({.redirects_max = 2})->call({.url = server.url() + "/a"}).value();
  EXPECT_EQ(followed.body, "arrived");
  EXPECT_EQ(followed.find("location"), nullptr);
}

TEST(Http, ManyThreadsShareAFewConnections) {
  ScriptedServer server(show);
  auto client = open_client();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      std::string body = std::to_string(i) + std::string(10000, 'x');
      for (int n = 0; n < 50; ++n) {
        auto answer = client->call({.method = "POST", .url = server.url(), .body = as_bytes(body)});
        if (answer.ok() && answer->body.ends_with(body)) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
  EXPECT_LE(server.connections(), 8);
}

TEST(Http, AConnectionThatTheServerClosedIsReplaced) {
  ScriptedServer server([](const ScriptedRequest&) {
    ScriptedAnswer answer = answer_with(200, "x");
    answer.after = ScriptedAnswer::After::kClose;
    return answer;
  });
  auto client = open_client();
  for (int i = 0; i < 3; ++i) EXPECT_OK(client->call({.method = "PUT", .url = server.url(), .body = as_bytes("abc")}));
}

TEST(Http, AnAnswerOverTheLimitIsRefused) {
  ScriptedServer server([](const ScriptedRequest&) { return answer_with(200, std::string(100'000, 'x')); });
  auto client = open_client();
  EXPECT_EQ(client->call({.url = server.url(), .answer_bytes_max = 100'000}).value().body.size(), 100'000U);
  EXPECT_EQ(error_of(client->call({.url = server.url(), .answer_bytes_max = 99'999})), Code::kTooLarge);
}

TEST(Http, EndlessHeadersAndAFalseLengthAreSurvived) {
  ScriptedServer server([](const ScriptedRequest& request) {
    if (request.begins("GET /length")) {
      return ScriptedAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\nabc",
                            ScriptedAnswer::After::kClose};
    }
    std::string headers;
    while (headers.size() < (std::size_t{1} << 20)) headers += "X-Header: " + std::string(1000, 'x') + "\r\n";
    return answer_with(200, "", headers);
  });
  auto client = open_client();
  EXPECT_EQ(error_of(client->call({.url = server.url() + "/headers"})), Code::kTooLarge);
  EXPECT_EQ(error_of(client->call({.url = server.url() + "/length"})), Code::kTooLarge);
}

TEST(Http, NoAnswerIsUnavailableWithinTheTimeout) {
  ScriptedServer server([](const ScriptedRequest& request) {
    if (request.begins("GET /half")) {
      return ScriptedAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", ScriptedAnswer::After::kClose};
    }
    if (request.begins("GET /headers")) {
      return ScriptedAnswer{"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Le", ScriptedAnswer::After::kClose};
    }
    if (request.begins("GET /garbage")) return ScriptedAnswer{"\x01\x02\x03\r\n\r\n", ScriptedAnswer::After::kClose};
    if (request.begins("GET /none")) return ScriptedAnswer{"", ScriptedAnswer::After::kClose};
    return ScriptedAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", ScriptedAnswer::After::kHang};
  });
  auto client = open_client();
  for (const char* path : {"/half", "/headers", "/garbage", "/none"}) {
    EXPECT_EQ(error_of(client->call({.url = server.url() + path})), Code::kUnavailable) << path;
  }
  auto hung = client->call({.url = server.url() + "/hang?secret", .timeout = milliseconds(200)});
  ASSERT_EQ(error_of(hung), Code::kUnavailable);
  EXPECT_EQ(hung.error().message(), "GET " + server.url() + ": no answer within 200 ms");
}

TEST(Http, NobodyThereIsUnavailable) {
  std::string url;
  {
    ScriptedServer server(show);
    url = server.url();
  }
  auto answer = open_client()->call({.url = "http://ann:secret@" + url.substr(7) + "/x"});
  ASSERT_EQ(error_of(answer), Code::kUnavailable);
  EXPECT_THAT(answer.error().message(), Not(HasSubstr("secret")));
}

TEST(Http, ProxiesComeFromTheEnvironment) {
  ScriptedServer proxy(show);
  ::setenv("http_proxy", proxy.url().c_str(), 1);
  auto answer = open_client()->call({.url = "http://service.invalid/a"});
  ::unsetenv("http_proxy");
  ASSERT_OK(answer);
  EXPECT_TRUE(answer->body.starts_with("GET http://service.invalid/a HTTP/1.1\r\n")) << answer->body;
}

TEST(Http, ACheckOfAddressesIsNotPassedAroundByAProxy) {
  ScriptedServer proxy(show);
  ScriptedServer server(show);
  const char* former = ::getenv("no_proxy");
  std::optional<std::string> no_proxy = former != nullptr ? std::optional<std::string>(former) : std::nullopt;
  ::setenv("no_proxy", "", 1);  // it may name this machine
  ::setenv("http_proxy", proxy.url().c_str(), 1);
  std::string seen;
  auto client = open_client({.check_address = [&](std::string_view, std::uint16_t port) -> Status {
    seen = std::to_string(port);
    return Ok{};
  }});
  auto answer = client->call({.url = server.url() + "/a"});
  ::unsetenv("http_proxy");
  if (no_proxy) ::setenv("no_proxy", no_proxy->c_str(), 1);
  else ::unsetenv("no_proxy");
  ASSERT_OK(answer);
  EXPECT_EQ(seen, std::to_string(server.port()));
  EXPECT_EQ(proxy.connections(), 0);
}

TEST(Http, AnAddressCanBeRefused) {
  ScriptedServer server(show);
  std::string seen;
  auto client = open_client({.check_address = [&](std::string_view address, std::uint16_t port) -> Status {
    seen = std::string(address) + " " + std::to_string(port);
    return Error(Code::kInvalid, "private address");
  }});
  auto answer = client->call({.url = server.url()});
  ASSERT_EQ(error_of(answer), Code::kDenied);
  EXPECT_THAT(answer.error().message(), HasSubstr("private address"));
  EXPECT_EQ(seen, "127.0.0.1 " + std::to_string(server.port()));
  EXPECT_EQ(server.connections(), 0);
}

TEST(Http, TheAddressOfARedirectIsCheckedToo) {
  ScriptedServer inner(show);
  ScriptedServer outer(
      [&](const ScriptedRequest&) { return answer_with(302, "", "Location: " + inner.url() + "/\r\n"); });
  auto client = open_client({.redirects_max = 2, .check_address = [&](std::string_view, std::uint16_t port) -> Status {
                               if (port == outer.port()) return Ok{};
                               return Error(Code::kDenied, "private address");
                             }});
  EXPECT_EQ(error_of(client->call({.url = outer.url()})), Code::kDenied);
  EXPECT_EQ(outer.connections(), 1);
  EXPECT_EQ(inner.connections(), 0);
}

TEST(Http, BadCallsAreRefusedBeforeTheyAreSent) {
  auto client = open_client();
  EXPECT_EQ(error_of(client->call({.url = "file:///etc/passwd"})), Code::kInvalid);
  EXPECT_EQ(error_of(client->call({.url = "http://127.0.0.1/a b"})), Code::kInvalid);
  EXPECT_EQ(error_of(client->call({.url = "http://127.0.0.1:99999/"})), Code::kInvalid);
  EXPECT_EQ(error_of(client->call({.method = "GET /x", .url = "http://127.0.0.1/"})), Code::kInvalid);
  EXPECT_EQ(error_of(client->call({.url = "http://127.0.0.1/", .headers = {{"a", "b\r\nc: d"}}})), Code::kInvalid);
  EXPECT_EQ(error_of(client->call({.url = "http://127.0.0.1/", .headers = {{"a: b", "c"}}})), Code::kInvalid);
}

// A real TLS server with a certificate of its own, which no system trusts.
class TlsServer {
 public:
  TlsServer() {
    EXPECT_EQ(
        run_captured({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                      "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key(), "-out", certificate()},
                     dir_.path())
            .value()
            .status,
        0);
    for (int attempt = 0; attempt < 20 && port_ == 0; ++attempt)
      start(20000 + (::getpid() * 7 + attempt * 101) % 20000);
    EXPECT_NE(port_, 0);
  }
  ~TlsServer() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  std::string certificate() const { return dir_.file("certificate.pem"); }
  std::string url(std::string_view host = "127.0.0.1") const { return fmt::format("https://{}:{}/", host, port_); }

 private:
  std::string key() const { return dir_.file("key.pem"); }

  // openssl writes "ACCEPT" once it listens, and ends if the port is taken.
  void start(int port) {
    std::string log = dir_.file("log");
    std::string command = fmt::format("exec openssl s_server -accept 127.0.0.1:{} -www -key {} -cert {} >{} 2>&1", port,
                                      key(), certificate(), log);
    std::string shell = "sh";
    std::string flag = "-c";
    char* words[] = {shell.data(), flag.data(), command.data(), nullptr};
    ASSERT_EQ(::posix_spawnp(&pid_, "sh", nullptr, nullptr, words, environ), 0);
    while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
      std::ifstream file(log);
      std::string text((std::istreambuf_iterator<char>(file)), {});
      if (text.find("ACCEPT") != std::string::npos) {
        port_ = port;
        return;
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
    pid_ = 0;
  }

  testing::TempDir dir_;
  ::pid_t pid_ = 0;
  int port_ = 0;
};

TEST(Http, ACertificateThatIsNotTrustedIsRefused) {
  TlsServer server;
  auto refused = open_client()->call({.url = server.url()});
  ASSERT_EQ(error_of(refused), Code::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("certificate"));

  auto trusting = open_client({.ca_file = server.certificate()});
  EXPECT_EQ(trusting->call({.url = server.url()}).value().status, 200);
  EXPECT_EQ(error_of(trusting->call({.url = server.url("localhost")})), Code::kUnavailable);  // not its name
}

}  // namespace
}  // namespace warren
