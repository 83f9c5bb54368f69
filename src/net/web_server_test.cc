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
  void serve(WebHandler handler, WebOptions options = {}) {
    server_ = WebServer::start({.host = "127.0.0.1", .port = 0}, options, std::move(handler)).value();
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

TEST_F(WebServerTest, APortInUseIsAnError) {
  serve([](WebRequest, std::shared_ptr<WebReply> reply) { reply->answer(200, {}, ""); });
  EXPECT_EQ(testing::error_of(WebServer::start(server_->address(), {}, [](WebRequest, std::shared_ptr<WebReply>) {})),
            Code::kBusy);
}

}  // namespace
}  // namespace warren::net
