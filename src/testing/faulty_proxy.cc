#include "testing/faulty_proxy.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/check.h"

namespace warren::testing {
namespace {

constexpr int kLookMs = 5;  // how soon a new mode is noticed by connections on which nothing happens

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Fd connect_to(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(port);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

bool send_all(int to, const char* data, std::size_t size) {
  while (size > 0) {
    ssize_t sent = ::send(to, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

void make_close_reset(int fd) {
  linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace

FaultyProxy::FaultyProxy(std::uint16_t target_port) : target_port_(target_port) {
  listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  WARREN_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  WARREN_CHECK(::listen(listener_.get(), 128) == 0);
  WARREN_CHECK(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FaultyProxy::~FaultyProxy() {
  is_ending_ = true;
  acceptor_.join();
  for (std::thread& server : servers_) server.join();
}

void FaultyProxy::set_pace(std::size_t piece_bytes, std::chrono::milliseconds pause) {
  piece_bytes_ = piece_bytes;
  pause_ms_ = static_cast<int>(pause.count());
}

void FaultyProxy::accept_all() {
  while (!is_ending_) {
    pollfd one{listener_.get(), POLLIN, 0};
    if (::poll(&one, 1, kLookMs) <= 0) continue;
    Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.is_open()) continue;
    ++connection_count_;
    servers_.emplace_back([this, fd = std::move(client)]() mutable { serve(std::move(fd)); });
  }
}

void FaultyProxy::serve(Fd client) {
  Fd server;
  std::size_t left = answer_limit_;
  while (!is_ending_) {
    Mode mode = mode_;
    if (mode == Mode::kReset) make_close_reset(client.get());
    if (mode == Mode::kReset || mode == Mode::kCut) return;
    if (mode == Mode::kHang) {
      pause_for(std::chrono::milliseconds(kLookMs));
      continue;
    }
    if (!server.is_open()) server = connect_to(target_port_);
    if (!server.is_open()) return;
    pollfd both[] = {{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}};
    if (::poll(both, 2, kLookMs) <= 0 || mode_ != mode) continue;
    if (both[0].revents != 0 && !pass_on(client.get(), server.get())) return;
    bool is_mute = mode == Mode::kMute || (mode == Mode::kPass && left == 0);
    if (both[1].revents != 0 && is_mute) pause_for(std::chrono::milliseconds(kLookMs));
    else if (both[1].revents != 0 && !answer(server.get(), client.get(), left)) return;
  }
}

bool FaultyProxy::pass_on(int from, int to) {
  char buffer[64 << 10];
  ssize_t got = ::recv(from, buffer, sizeof buffer, 0);
  return got > 0 && send_all(to, buffer, static_cast<std::size_t>(got));
}

bool FaultyProxy::answer(int server, int client, std::size_t& left) {
  Mode mode = mode_;
  char buffer[64 << 10];
  std::size_t wanted = mode == Mode::kPass ? std::min(left, sizeof buffer) : sizeof buffer;
  ssize_t got = ::recv(server, buffer, wanted, 0);
  if (got <= 0) return false;
  auto size = static_cast<std::size_t>(got);
  if (mode == Mode::kSlow) send_slowly(client, buffer, size);
  else send_all(client, buffer, mode == Mode::kHalf ? size / 2 : size);
  if (mode == Mode::kPass) left -= size;
  return mode != Mode::kHalf;
}

void FaultyProxy::send_slowly(int to, const char* data, std::size_t size) {
  while (size > 0 && mode_ == Mode::kSlow && !is_ending_) {
    pause_for(std::chrono::milliseconds(pause_ms_.load()));
    std::size_t piece = std::min(size, piece_bytes_.load());
    if (!send_all(to, data, piece)) return;
    data += piece;
    size -= piece;
  }
  send_all(to, data, size);
}

void FaultyProxy::pause_for(std::chrono::milliseconds time) {
  for (auto left = time; left.count() > 0 && !is_ending_;) {
    auto step = std::min(left, std::chrono::milliseconds(kLookMs));
    std::this_thread::sleep_for(step);
    left -= step;
  }
}

}  // namespace warren::testing
