#include "clients/stream.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"

namespace warren {
namespace {

constexpr std::chrono::milliseconds kBlockingRead{100};  // a recv() without a poll() before it waits this long

Error gone(std::string_view why) { return {Code::kUnavailable, std::string(why)}; }

Result<Fd> connect_socket(const addrinfo& address, Stream::Instant until) {
  Fd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return system_error(errno, "open a socket");
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return gone(std::strerror(errno));
    WARREN_TRY(wait_for_socket(fd.get(), POLLOUT, until));
    int failed = 0;
    socklen_t size = sizeof failed;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed != 0) return gone(std::strerror(failed));
  }
  int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  return fd;
}

Result<Fd> connect_by_name(const HostPort& to, Stream::Instant until) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  int failed = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &wanted, &found);
  if (failed == EAI_ADDRFAMILY || failed == EAI_NONAME) {  // a machine with loopback devices alone
    wanted.ai_flags = 0;
    failed = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &wanted, &found);
  }
  if (failed != 0) return gone(::gai_strerror(failed));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  Result<Fd> fd = gone("it has no address");
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    fd = connect_socket(*one, until);
    if (fd.ok()) break;
  }
  return fd;
}

// So that an answer costs one system call. Everything else says MSG_DONTWAIT.
Status make_blocking(int fd) {
  timeval time{.tv_sec = 0, .tv_usec = std::chrono::microseconds(kBlockingRead).count()};
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0 && ::fcntl(fd, F_SETFL, 0) == 0) return Ok{};
  return system_error(errno, "prepare a socket");
}

}  // namespace

Result<std::unique_ptr<Stream>> Stream::connect(const HostPort& to, const std::optional<TlsOptions>& tls,
                                                Instant until) {
  Fd fd = WARREN_TRY(
      connect_by_name(to, until).within([&] { return fmt::format("connect to {} port {}", quote(to.host), to.port); }));
  std::unique_ptr<Stream> stream(new Stream(std::move(fd)));
  if (tls) stream->tls_ = WARREN_TRY(Tls::connect(stream->fd_.get(), *tls, until));
  else WARREN_TRY(make_blocking(stream->fd_.get()));
  return stream;
}

Result<std::size_t> Stream::read_some(MutableBytes out, Instant until) {
  if (tls_) {
    std::size_t got = WARREN_TRY(tls_->read_some(out, until));
    if (got == 0) return gone("the connection was closed");
    return got;
  }
  bool may_block = std::chrono::steady_clock::now() + kBlockingRead <= until;
  for (;; may_block = false) {
    if (!may_block) WARREN_TRY(wait_for_socket(fd_.get(), POLLIN, until));
    ssize_t got = ::recv(fd_.get(), out.data(), out.size(), may_block ? 0 : MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return gone("the connection was closed");
    if (errno != EAGAIN && errno != EINTR) return gone(std::strerror(errno));
  }
}

Status Stream::write_all(Bytes data, Instant until) {
  if (tls_) return tls_->write_all(data, until);
  while (!data.empty()) {
    ssize_t sent = ::send(fd_.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) data = data.subspan(static_cast<std::size_t>(sent));
    else if (errno == EAGAIN) WARREN_TRY(wait_for_socket(fd_.get(), POLLOUT, until));
    else if (errno != EINTR) return gone(std::strerror(errno));
  }
  return Ok{};
}

void Stream::abandon() {
  linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

bool Stream::is_idle() const {
  pollfd one{fd_.get(), POLLIN | POLLRDHUP, 0};
  return ::poll(&one, 1, 0) == 0;
}

}  // namespace warren
