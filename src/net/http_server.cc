#include "net/http_server.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <httplib.h>

#include "base/ascii.h"
#include "base/path.h"
#include "os/dir_reader.h"
#include "os/error.h"
#include "os/host_files.h"

namespace warren::net {
namespace {

constexpr time_t kPatienceSeconds = 5;  // for a client to send or receive
constexpr std::chrono::milliseconds kStopPoll{20};

bool is_loopback_host(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// The host in a Host header, without port and brackets.
std::string_view host_of(std::string_view header) {
  if (header.starts_with('[')) return header.substr(1, header.find(']') - 1);
  return header.substr(0, header.find(':'));
}

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
  // Closes its socket even if it never started to listen, unlike the library's class.
  struct Server : httplib::Server {
    ~Server() override {
      if (svr_sock_ != INVALID_SOCKET) ::close(svr_sock_);
    }
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
  httplib::Server& server = state->server;
  std::size_t threads = options.threads;
  server.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
  // The library's default lets several servers share a port, each getting some of the requests.
  server.set_socket_options([](int socket) {
    int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_tcp_nodelay(true);
  server.set_payload_max_length(options.body_bytes_max);
  server.set_read_timeout(kPatienceSeconds);
  server.set_write_timeout(kPatienceSeconds);
  server.set_keep_alive_max_count(1);  // a persistent client would occupy a thread
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
