#include "net/web_server.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/fd.h"
#include "testing/matchers.h"

namespace warren::net {
namespace {

class WebServerTest : public ::testing::Test {
 protected:
  void serve(WebHandler handler, WebOptions options = {}, WebHeadCheck check = {}) {
    server_ = WebServer::start({.host = "127.0.0.1", .port = 0}, options, std::move(handler), std::move(check)).value();
  }

  Fd connect() {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_->address().port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return fd;
  }

  Fd ask(std::string_view method, std::string_view body = {}) {
    Fd fd = connect();
    std::string request = fmt::format(
        "{} /p?q=1 HTTP/1.1\r\nHost: x\r\nX-Name: Value\r\nContent-Length: {}\r\nConnection: "
        "close\r\n\r\n{}",
        method, body.size(), body);
    EXPECT_OK(write_all(fd.get(), as_bytes(request)));
    return fd;
  }

  // Everything until the end of the connection.
  static std::string read_rest(const Fd& fd) {
    std::string all;
    std::string part(4096, '\0');
    for (;;) {
      Result<std::size_t> got = read_some(fd.get(), as_mutable_bytes(part));
      if (!got.ok() || *got == 0) return all;
      all += part.substr(0, *got);
    }
  }

  static std::string read_until(const Fd& fd, std::string_view wanted) {
    std::string all;
    std::string byte(1, '\0');
    while (!all.ends_with(wanted)) {
      Result<std::size_t> got = read_some(fd.get(), as_mutable_bytes(byte));
      if (!got.ok() || *got == 0) return all + "(end)";
      all += byte;
    }
    return all;
  }

  std::unique_ptr<WebServer> server_;
};

TEST_F(WebServerTest, ARequestIsAnsweredFromAnyThread) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  serve([&](WebRequest request, std::shared_ptr<WebReply> reply) {
    std::lock_guard lock(mutex);
    threads.emplace_back([request, reply] {
      reply->answer(201, {{"X-Answer", "yes"}},
                    fmt::format("{} {} {} {}", request.method, request.path, request.header("x-name"), request.body));
    });
  });
  std::string answer = read_rest(ask("POST", "hello"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 201")) << answer;
  EXPECT_NE(answer.find("X-Answer: yes"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("POST /p Value hello")) << answer;
  for (std::thread& one : threads) one.join();
}

TEST_F(WebServerTest, ARefusedRequestIsAnsweredBeforeItsBodyCame) {
  serve([](WebRequest, const std::shared_ptr<WebReply>& reply) { reply->answer(200, {}, "served"); }, {},
        [](const WebRequest& request) -> std::optional<WebRefusal> {
          if (request.header("x-name") == "good") return std::nullopt;
          return WebRefusal{.status = 401, .headers = {{"X-Why", "name"}}, .body = "no"};
        });
  Fd client = connect();
  ASSERT_OK(write_all(client.get(), as_bytes("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")));
  std::string answer = read_rest(client);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 401")) << answer;
  EXPECT_NE(answer.find("X-Why: name"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("no")) << answer;
  Fd good = connect();
  ASSERT_OK(write_all(good.get(), as_bytes("GET / HTTP/1.1\r\nHost: x\r\nX-Name: good\r\nConnection: close\r\n\r\n")));
  EXPECT_TRUE(read_rest(good).ends_with("served"));
}

TEST_F(WebServerTest, ARequestThatCanBeReadInTwoWaysIsRefused) {
  serve([](WebRequest, const std::shared_ptr<WebReply>& reply) { reply->answer(200, {}, "served"); });
  for (std::string_view headers : {"Content-Length: 3\r\nContent-Length: 4\r\n", "Host: y\r\nContent-Length: 0\r\n",
                                   "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                                   "Authorization: a\r\nauthorization: b\r\n", "Mcp-Name: a\r\nMCP-Name: b\r\n"}) {
    Fd client = connect();
    std::string request =
        fmt::format("POST / HTTP/1.1\r\nHost: x\r\n{}\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", headers);
    ASSERT_OK(write_all(client.get(), as_bytes(request)));
    std::string answer = read_rest(client);
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 400")) << headers << answer;
    EXPECT_EQ(answer.find("served"), std::string::npos) << headers << answer;
  }
}

TEST_F(WebServerTest, UnreadAnswersOfAllClientsAreBounded) {
  std::mutex mutex;
  std::condition_variable changed;
  int crowded = 0;
  int served = 0;
  serve(
      [&](WebRequest, const std::shared_ptr<WebReply>& reply) {
        bool is_crowded = reply->is_crowded();
        reply->answer(is_crowded ? 503 : 200, {}, is_crowded ? "" : std::string(std::size_t{8} << 20, 'x'));
        std::lock_guard lock(mutex);
        ++(is_crowded ? crowded : served);
        changed.notify_all();
      },
      {.all_unsent_bytes_max = std::size_t{20} << 20});
  std::vector<Fd> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(ask("GET"));
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), [&] { return crowded + served == 10; }));
  EXPECT_EQ(served, 3);
  lock.unlock();
  clients.clear();
  // Once they are gone, there is room again.
  for (int i = 0; i < 1000 && read_rest(ask("GET")).find("xxx") == std::string::npos; ++i) ASSERT_LT(i, 999);
}

TEST_F(WebServerTest, AStreamStaysOpenUntilItIsEnded) {
  std::shared_ptr<WebReply> kept;
  serve([&](WebRequest, std::shared_ptr<WebReply> reply) {
    reply->begin_stream({{"Content-Type", "text/event-stream"}});
    EXPECT_TRUE(reply->write("one;"));
    kept = std::move(reply);
  });
  Fd client = ask("GET");
  EXPECT_NE(read_until(client, "one;").find("200 OK"), std::string::npos);
  EXPECT_TRUE(kept->write("two;"));
  EXPECT_FALSE(read_until(client, "two;").ends_with("(end)"));
  kept->end_stream();
  EXPECT_FALSE(kept->write("three;"));
  EXPECT_EQ(read_rest(client).find("three"), std::string::npos);
}

TEST_F(WebServerTest, AClientThatGoesAwayIsNoticedByTheNextWrites) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_gone = false;
  std::shared_ptr<WebReply> kept;
  serve([&](WebRequest, std::shared_ptr<WebReply> reply) {
    reply->when_gone([&] {
      std::lock_guard lock(mutex);
      is_gone = true;
      changed.notify_all();
    });
    reply->begin_stream({});
    reply->write("x");
    kept = std::move(reply);
  });
  {
    Fd client = ask("GET");
    read_until(client, "x");
  }
  std::unique_lock lock(mutex);
  for (int i = 0; i < 3000 && !is_gone; ++i) {
    lock.unlock();
    kept->write("more");
    lock.lock();
    changed.wait_for(lock, std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(is_gone);
  lock.unlock();
  EXPECT_FALSE(kept->write("x"));
}

TEST_F(WebServerTest, ABodyThatIsTooLargeIsRefused) {
  serve([](WebRequest, std::shared_ptr<WebReply> reply) { reply->answer(200, {}, ""); }, {.body_bytes_max = 10});
  EXPECT_TRUE(read_rest(ask("POST", "0123456789")).starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(read_rest(ask("POST", "0123456789a")).starts_with("HTTP/1.1 413"));
}

TEST_F(WebServerTest, AStreamThatIsNotReadIsGivenUp) {
  std::shared_ptr<WebReply> kept;
  std::mutex mutex;
  std::condition_variable opened;
  serve(
      [&](WebRequest, std::shared_ptr<WebReply> reply) {
        reply->begin_stream({});
        std::lock_guard lock(mutex);
        kept = std::move(reply);
        opened.notify_all();
      },
      {.unsent_bytes_max = 1 << 20});
  Fd client = ask("GET");
  std::unique_lock lock(mutex);
  opened.wait(lock, [&] { return kept != nullptr; });
  std::string block(64 << 10, 'x');
  int written = 0;
  while (written < 1000 && kept->write(block)) ++written;
  EXPECT_LT(written, 1000);
}

TEST_F(WebServerTest, StoppingAnswersWhatIsOpen) {
  std::shared_ptr<WebReply> unanswered;
  std::shared_ptr<WebReply> stream;
  std::mutex mutex;
  std::condition_variable arrived;
  serve([&](WebRequest request, std::shared_ptr<WebReply> reply) {
    std::lock_guard lock(mutex);
    if (request.method == "GET") {
      reply->begin_stream({});
      reply->write("open");
      stream = std::move(reply);
    } else {
      unanswered = std::move(reply);
    }
    arrived.notify_all();
  });
  Fd first = ask("POST", "x");
  Fd second = ask("GET");
  {
    std::unique_lock lock(mutex);
    arrived.wait(lock, [&] { return unanswered && stream; });
  }
  server_->stop();
  EXPECT_TRUE(read_rest(first).starts_with("HTTP/1.1 503"));
  EXPECT_NE(read_rest(second).find("open"), std::string::npos);
  unanswered->answer(200, {}, "too late");  // nothing happens
  server_.reset();
  EXPECT_FALSE(stream->write("too late"));
}

TEST_F(WebServerTest, ConnectionsWithoutAnAcceptedRequestMakeRoomForOthers) {
  auto handler = [](WebRequest, std::shared_ptr<WebReply> reply) { reply->answer(200, {}, "yes"); };
  auto check = [](const WebRequest& request) -> std::optional<WebRefusal> {
    if (request.header("authorization") == "me") return std::nullopt;
    return WebRefusal{.status = 401, .headers = {}, .body = {}};
  };
  serve(handler, {.connections_max = 4}, check);
  constexpr std::string_view kAllowed = "GET /p HTTP/1.1\r\nHost: x\r\nAuthorization: me\r\n\r\n";
  Fd known = connect();
  ASSERT_OK(write_all(known.get(), as_bytes(kAllowed)));
  EXPECT_TRUE(read_until(known, "yes").ends_with("yes"));
  std::vector<Fd> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(connect());
    write_all(strangers.back().get(), as_bytes("GET /p HTTP/1.1\r\nHost: x\r\n")).ignore("it may be closed already");
  }
  Fd late = connect();
  ASSERT_OK(write_all(late.get(), as_bytes(kAllowed)));
  EXPECT_TRUE(read_until(late, "yes").ends_with("yes"));
  EXPECT_EQ(read_rest(strangers.front()), "");            // it was closed
  ASSERT_OK(write_all(known.get(), as_bytes(kAllowed)));  // and this one was not
  EXPECT_TRUE(read_until(known, "yes").ends_with("yes"));
}

TEST_F(WebServerTest, ARequestWhoseHeadDoesNotComeIsGivenUpEarly) {
  serve([](WebRequest, std::shared_ptr<WebReply> reply) { reply->answer(200, {}, "yes"); },
        {.idle_seconds = 3600, .newcomer_seconds = 1});
  Fd silent = connect();
  timeval patience{.tv_sec = 60, .tv_usec = 0};
  ASSERT_EQ(::setsockopt(silent.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  ASSERT_OK(write_all(silent.get(), as_bytes("GET /p HTTP/1.1\r\nHo")));
  std::string answer(4096, '\0');
  Result<std::size_t> got = 1;
  while (got.ok() && *got > 0) got = read_some(silent.get(), as_mutable_bytes(answer));
  EXPECT_OK(got);  // the end of the stream, and not of our patience
  EXPECT_EQ(answer.find("yes"), std::string::npos);
}

TEST_F(WebServerTest, APortInUseIsAnError) {
  serve([](WebRequest, std::shared_ptr<WebReply> reply) { reply->answer(200, {}, ""); });
  EXPECT_EQ(testing::error_of(WebServer::start(server_->address(), {}, [](WebRequest, std::shared_ptr<WebReply>) {})),
            Code::kBusy);
}

}  // namespace
}  // namespace warren::net
