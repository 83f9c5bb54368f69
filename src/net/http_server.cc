#include "net/http_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <httplib.h>

#include "base/ascii.h"
#include "base/path.h"
#include "os/error.h"
#include "os/files/dir_reader.h"
#include "os/files/host_files.h"

namespace warren::net {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kPatience{5};   // for a client to send its whole request, and to take the answer
constexpr milliseconds kCrowdedPatience{100};  // to send it while other clients wait for a thread
constexpr milliseconds kCrowdPoll{20};
constexpr std::size_t kWaitingClients = 128;  // more are turned away, so that they cannot use up our descriptors
constexpr milliseconds kStopPoll{20};

bool is_loopback_host(std::string_view host) {
  std::string text(host);
  in_addr four{};
  in6_addr six{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24U) == 127;
  if (::inet_pton(AF_INET6, text.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return to_lower(host) == "localhost";
}

// The host in a Host header, without port and brackets; empty if it is not well-formed.
std::string_view host_of(std::string_view header) {
  bool is_bracketed = header.starts_with('[');
  std::size_t end = is_bracketed ? header.find(']') : header.find(':');
  if (is_bracketed && end == header.npos) return "";
  std::string_view host = is_bracketed ? header.substr(1, end - 1) : header.substr(0, end);
  std::string_view port = end == header.npos ? "" : header.substr(end + (is_bracketed ? 1 : 0));
  bool is_port = port.empty() || (port[0] == ':' && parse_number<std::uint16_t>(port.substr(1)));
  return is_port ? host : "";
}

// A connection for the library. Unlike the library's own, it limits the time for the whole request and not for each
// byte, and it gives up early on a client that sends nothing while others wait for a thread.
class ClientStream final : public httplib::Stream {
 public:
  ClientStream(int socket, const std::atomic<std::size_t>& waiting) : socket_(socket), waiting_(waiting) {}

  bool is_readable() const override { return next_ < filled_ || wait(POLLIN, start_ + kPatience); }
  bool is_writable() const override { return wait(POLLOUT, Steady::now() + kPatience); }

  ssize_t read(char* to, std::size_t size) override {
    if (next_ == filled_) {
      if (!wait(POLLIN, start_ + kPatience)) return -1;
      ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (got <= 0) return got;
      next_ = 0;
      filled_ = static_cast<std::size_t>(got);
    }
    std::size_t count = std::min(size, filled_ - next_);
    std::copy_n(buffer_.data() + next_, count, to);
    next_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, std::size_t size) override {
    if (!is_writable()) return -1;
    return ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}  // unused
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  bool wait(short events, Steady::time_point deadline) const {
    for (;;) {
      Steady::time_point now = Steady::now();
      bool is_crowded = (events & POLLIN) != 0 && waiting_ > 0;
      Steady::time_point end = is_crowded ? std::min(deadline, start_ + kCrowdedPatience) : deadline;
      pollfd ready{socket_, events, 0};
      milliseconds left = std::chrono::ceil<milliseconds>(end - now);
      int timeout = static_cast<int>(std::clamp(left, milliseconds(0), kCrowdPoll).count());
      int found = ::poll(&ready, 1, timeout);
      if (found > 0) return true;
      if (found < 0 && errno != EINTR) return false;
      if (now >= end) return false;
    }
  }

  int socket_;
  const std::atomic<std::size_t>& waiting_;
  Steady::time_point start_ = Steady::now();
  std::array<char, 4096> buffer_{};
  std::size_t next_ = 0;
  std::size_t filled_ = 0;
};

// Counts the clients that wait for a thread. A task that is turned away runs at once, in the thread that accepts
// clients; Server recognises it by that and only closes the connection.
class ClientQueue final : public httplib::ThreadPool {
 public:
  ClientQueue(std::size_t threads, std::atomic<std::size_t>& waiting) : ThreadPool(threads), waiting_(waiting) {}

  void enqueue(std::function<void()> task) override {
    if (waiting_ >= kWaitingClients) return task();
    ++waiting_;
    ThreadPool::enqueue([this, task = std::move(task)] {
      --waiting_;
      task();
    });
  }

 private:
  std::atomic<std::size_t>& waiting_;
};

Status check_ip(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1 || ::inet_pton(AF_INET6, host.c_str(), &six) == 1) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not a valid address", quote(host)),
               "use a numeric address: 127.0.0.1 or [::1]");
}

int port_of(int socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size) != 0) return -1;
  if (name.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&name)->sin_port);
  if (name.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&name)->sin6_port);
  return -1;
}

// The library does not expose its connections, and waits for the slowest of them: they are found by their port.
Status end_connections(int port) {
  Fd dir = WARREN_TRY(open_host_dir("/proc/self/fd"));
  DirReader open_files = WARREN_TRY(DirReader::adopt(std::move(dir)));
  while (const DirReader::Entry* entry = WARREN_TRY(open_files.next())) {
    std::optional<int> number = parse_number<int>(entry->name);
    if (number && port_of(*number) == port) ::shutdown(*number, SHUT_RDWR);
  }
  return Ok{};
}

}  // namespace

bool HttpAddress::is_loopback() const { return is_loopback_host(host); }

std::string HttpAddress::text() const {
  return host.find(':') != host.npos ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<HttpAddress> parse_http_address(std::string_view text) {
  HttpAddress address;
  std::size_t colon = text.rfind(':');
  std::string_view port = colon == text.npos ? text : text.substr(colon + 1);
  std::optional<std::uint16_t> number = parse_number<std::uint16_t>(port);
  if (!number) {
    return Error(Code::kInvalid, fmt::format("{} is not a valid address to listen on", quote(text)),
                 "use [ADDRESS:]PORT with a port from 0 (any free one) to 65535");
  }
  address.port = *number;
  if (colon == text.npos) return address;
  std::string_view host = text.substr(0, colon);
  bool is_bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  address.host = is_bracketed ? host.substr(1, host.size() - 2) : host;
  if (address.host == "localhost") address.host = "127.0.0.1";
  WARREN_TRY(check_ip(address.host));
  if (is_bracketed != (address.host.find(':') != host.npos)) {
    return Error(Code::kInvalid, fmt::format("{} is not a valid address to listen on", quote(text)),
                 "write an IPv6 address in brackets, and other addresses without");
  }
  return address;
}

struct HttpServer::State {
  struct Server : httplib::Server {
    // Closes its socket even if it never started to listen, unlike the library's class.
    ~Server() override {
      if (svr_sock_ != INVALID_SOCKET) ::close(svr_sock_);
    }

    bool process_and_close_socket(socket_t socket) override {
      bool is_turned_away = std::this_thread::get_id() == accepting;
      bool is_answered = false;
      if (!is_turned_away) {
        ClientStream stream(socket, waiting);
        bool is_closed = false;
        is_answered = process_request(stream, true, is_closed, nullptr);
      }
      ::shutdown(socket, SHUT_RDWR);
      ::close(socket);
      return is_answered;
    }

    std::atomic<std::size_t> waiting = 0;  // clients without a thread
    std::atomic<std::thread::id> accepting;
  };

  Server server;
  HttpAddress address;
  std::map<std::string, std::map<std::string, HttpHandler, std::less<>>, std::less<>> handlers;  // path → method
  std::thread listener;
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;  // under mutex

  void answer(const httplib::Request& request, httplib::Response& response);
  HttpResponse respond(const httplib::Request& request);
};

HttpResponse HttpServer::State::respond(const httplib::Request& request) {
  if (address.is_loopback() && !is_loopback_host(host_of(request.get_header_value("Host")))) {
    return {.status = 403, .body = "this server answers only to loopback names\n"};
  }
  auto found = handlers.find(request.path);
  if (found == handlers.end()) return {.status = 404, .body = "there is nothing at this path\n"};
  auto handler = found->second.find(request.method == "HEAD" ? "GET" : request.method);
  if (handler == found->second.end()) return {.status = 405, .body = "this path does not support that method\n"};
  HttpRequest given{.method = request.method, .path = request.path, .body = request.body};
  for (const auto& [name, value] : request.params) given.query[name] = value;
  return handler->second(given);
}

void HttpServer::State::answer(const httplib::Request& request, httplib::Response& response) {
  HttpResponse given = respond(request);
  response.status = given.status;
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_content(given.body, given.type);
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::open(const HttpAddress& address, HttpOptions options) {
  if (options.exposure == Exposure::kLoopback && !address.is_loopback()) {
    return Error(Code::kDenied, fmt::format("{} can be reached from other machines", quote(address.host)));
  }
  auto state = std::make_unique<State>();
  State::Server& server = state->server;
  server.new_task_queue = [&server, threads = options.threads] { return new ClientQueue(threads, server.waiting); };
  // The library's default lets several servers share a port, each getting some of the requests.
  server.set_socket_options([](int socket) {
    int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_tcp_nodelay(true);
  server.set_payload_max_length(options.body_bytes_max);
  errno = 0;
  state->address = address;
  if (address.port == 0) {
    int port = server.bind_to_any_port(address.host);
    if (port <= 0) return system_error(errno != 0 ? errno : EADDRINUSE, fmt::format("listen on {}", address.host));
    state->address.port = static_cast<std::uint16_t>(port);
  } else if (!server.bind_to_port(address.host, address.port)) {
    int failed = errno != 0 ? errno : EADDRINUSE;
    if (failed == EADDRINUSE) return Error(Code::kBusy, fmt::format("{} is in use by another program", address.text()));
    return system_error(failed, fmt::format("listen on {}", address.text()));
  }
  auto answer = [state = state.get()](const httplib::Request& request, httplib::Response& response) {
    state->answer(request, response);
  };
  server.Get(".*", answer);
  server.Post(".*", answer);
  server.Put(".*", answer);
  server.Patch(".*", answer);
  server.Delete(".*", answer);
  server.Options(".*", answer);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

const HttpAddress& HttpServer::address() const { return state_->address; }

void HttpServer::handle(std::string_view method, std::string_view path, HttpHandler handler) {
  state_->handlers[std::string(path)][std::string(method)] = std::move(handler);
}

void HttpServer::start() {
  state_->listener = std::thread([state = state_.get()] {
    state->server.accepting = std::this_thread::get_id();
    state->server.listen_after_bind();
    std::lock_guard lock(state->mutex);
    state->has_ended = true;
    state->ended.notify_all();
  });
  // The library cannot be stopped before it is running.
  std::unique_lock lock(state_->mutex);
  while (!state_->has_ended && !state_->server.is_running()) state_->ended.wait_for(lock, std::chrono::milliseconds(1));
}

void HttpServer::stop() {
  if (!state_->listener.joinable()) return;
  state_->server.stop();
  std::unique_lock lock(state_->mutex);
  while (!state_->has_ended) {
    end_connections(state_->address.port).ignore("then the slow ones end at their timeout");
    state_->ended.wait_for(lock, kStopPoll);
  }
  lock.unlock();
  state_->listener.join();
}

}  // namespace warren::net
