#include "testing/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/bytes.h"

namespace warren::testing {
namespace {

std::size_t body_size(const std::string& head) {
  const char* found = ::strcasestr(head.c_str(), "\r\ncontent-length:");
  return found == nullptr ? 0 : std::strtoull(found + std::strlen("\r\ncontent-length:"), nullptr, 10);
}

bool read_request(int fd, std::string& buffer, ScriptedRequest& request) {
  std::string chunk(65536, '\0');
  auto read_more = [&] {
    ::ssize_t got = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (got > 0) buffer.append(chunk, 0, static_cast<std::size_t>(got));
    return got > 0;
  };
  std::size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!read_more()) return false;
  }
  request.head = buffer.substr(0, end + 2);
  std::size_t size = body_size(request.head);
  while (buffer.size() < end + 4 + size) {
    if (!read_more()) return false;
  }
  request.body = buffer.substr(end + 4, size);
  buffer.erase(0, end + 4 + size);
  return true;
}

}  // namespace

ScriptedAnswer answer_with(int status, std::string_view body, std::string_view headers) {
  return {.bytes =
              fmt::format("HTTP/1.1 {} Any\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(), headers, body)};
}

ScriptedServer::ScriptedServer(Script script)
    : script_(std::move(script)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  ::setenv("no_proxy", "127.0.0.1,localhost", 1);  // whatever the tester's environment says
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener_.get(), 64), 0);
  EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  stopped_.notify_all();
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
}

std::string ScriptedServer::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

void ScriptedServer::accept_all() {
  while (true) {
    Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::lock_guard lock(mutex_);
    if (!connection.is_open() || is_stopping_) return;
    open_.push_back(connection.get());
    int number = ++connections_;
    threads_.emplace_back([this, number, fd = connection.release()] { serve(Fd(fd), number); });
  }
}

void ScriptedServer::serve(Fd connection, int number) {
  std::string buffer;
  ScriptedRequest request{.connection = number};
  while (read_request(connection.get(), buffer, request)) {
    ++requests_;
    ScriptedAnswer answer = script_(request);
    std::string_view rest = answer.bytes;
    while (!rest.empty()) {
      ::ssize_t sent = ::send(connection.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    if (answer.after == ScriptedAnswer::After::kClose || !rest.empty()) break;
    if (answer.after == ScriptedAnswer::After::kHang) {
      std::unique_lock lock(mutex_);
      stopped_.wait(lock, [this] { return is_stopping_; });
    }
  }
  std::lock_guard lock(mutex_);
  std::erase(open_, connection.get());
  connection = Fd();
}

}  // namespace warren::testing
