#include "net/proxy.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "net/proxy_request.h"
#include "net/tls_hello.h"
#include "os/error.h"

namespace warren::net {
namespace {

using Outcome = ProxyEvent::Outcome;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kRelayBytes = std::size_t{64} << 10;
constexpr std::size_t kAddressesMax = 8;
constexpr std::int64_t kNamelessMs = 60'000;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  Address address;
};

SocketAddress socket_address(const Address& address, std::uint16_t port) {
  SocketAddress made;
  made.address = address;
  if (address.is_v6()) {
    auto& six = reinterpret_cast<sockaddr_in6&>(made.storage);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    std::memcpy(six.sin6_addr.s6_addr, address.bytes().data(), 16);
    made.size = sizeof six;
  } else {
    auto& four = reinterpret_cast<sockaddr_in&>(made.storage);
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&four.sin_addr, address.bytes().data(), 4);
    made.size = sizeof four;
  }
  return made;
}

Result<std::vector<Address>> resolve(const Host& host) {
  if (host.address) return std::vector<Address>{*host.address};
  if (host.name == "localhost") return std::vector<Address>{*Address::parse("127.0.0.1"), *Address::parse("::1")};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  int failed = ::getaddrinfo(host.name.c_str(), nullptr, &hints, &list);
  if (failed != 0) {
    Code code = failed == EAI_AGAIN ? Code::kTimeout : Code::kUnavailable;
    return Error(code, fmt::format("cannot resolve it: {}", ::gai_strerror(failed)));
  }
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<Address> found;
  for (const addrinfo* one = list; one != nullptr && found.size() < kAddressesMax; one = one->ai_next) {
    std::optional<Address> address = Address::of(*one->ai_addr);
    if (address) found.push_back(*address);
  }
  return found;
}

// Waits for one of `events` on `fd`. kTimeout when time is up, kUnavailable when `stop` says so.
Status wait_for_socket(int fd, short events, int stop, int timeout_ms) {
  std::array<pollfd, 2> all{pollfd{fd, events, 0}, pollfd{stop, POLLIN, 0}};
  int ready = 0;
  do ready = ::poll(all.data(), all.size(), timeout_ms);
  while (ready < 0 && errno == EINTR);
  if (ready == 0) return Error(Code::kTimeout, "it does not answer");
  if (ready < 0) return system_error(errno, "poll");
  if (all[1].revents != 0) return Error(Code::kUnavailable, "the run has ended");
  return Ok{};
}

Result<Fd> connect_to(const SocketAddress& to, int stop, int timeout_ms) {
  Fd socket(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return system_error(errno, "open a socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.size) != 0) {
    if (errno != EINPROGRESS) return system_error(errno, "connect");
    WARREN_TRY(wait_for_socket(socket.get(), POLLOUT, stop, timeout_ms));
    int failed = 0;
    socklen_t size = sizeof failed;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed != 0) return system_error(failed, "connect");
  }
  int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return socket;
}

// Bytes on their way from one socket to the other.
struct Flow {
  int from = -1;
  int to = -1;
  std::string pending;
  bool has_ended = false;  // nothing more will come
  bool is_closed = false;  // and `to` knows it

  short wanted_from() const { return !has_ended && pending.size() < kRelayBytes ? POLLIN : 0; }
  short wanted_to() const { return pending.empty() ? 0 : POLLOUT; }
};

// Decides which of the bytes that a client sends go on to the server.
class Gate {
 public:
  virtual ~Gate() = default;
  // Returns the bytes to send now; the gate may hold some back. An error ends the connection.
  virtual Result<std::string> pass(std::string_view bytes) = 0;
  virtual bool is_finished() const { return false; }  // nothing more will pass
};

// Until the first bytes have shown that TLS asks for the right host.
class TunnelGate final : public Gate {
 public:
  TunnelGate(const HostPort& target, HostRules::Verdict verdict) : target_(target), verdict_(verdict) {}

  Result<std::string> pass(std::string_view bytes) override {
    if (is_open_) return std::string(bytes);
    held_ += bytes;
    TlsHello hello = parse_tls_hello(held_);
    switch (hello.kind) {
      case TlsHello::Kind::kIncomplete: return std::string();
      case TlsHello::Kind::kBroken: return Error(Code::kNotPermitted, "it begins like TLS, but is not");
      case TlsHello::Kind::kNotTls:
        if (!verdict_.is_port_named) return Error(Code::kNotPermitted, "not TLS, on a port that no rule names");
        break;
      case TlsHello::Kind::kComplete: WARREN_TRY(check_name(hello.server_name)); break;
    }
    is_open_ = true;
    return std::exchange(held_, "");
  }

 private:
  Status check_name(const std::optional<std::string>& name) const {
    if (target_.host.address) {
      if (!name) return Ok{};
      return Error(Code::kNotPermitted, fmt::format("TLS asks an address for {}", quote(name->substr(0, 253))));
    }
    if (!name) return Error(Code::kNotPermitted, "TLS without a server name");
    Result<Host> asked = parse_host(*name);
    if (asked.ok() && *asked == target_.host) return Ok{};
    return Error(Code::kNotPermitted, fmt::format("TLS asks for {}", quote(name->substr(0, 253))));
  }

  const HostPort& target_;
  HostRules::Verdict verdict_;
  std::string held_;
  bool is_open_ = false;
};

// The body of one request, and nothing after it.
class BodyGate final : public Gate {
 public:
  explicit BodyGate(std::optional<std::uint64_t> body_bytes) : frame_(body_bytes) {}

  Result<std::string> pass(std::string_view bytes) override {
    std::size_t count = WARREN_TRY(frame_.take(bytes));
    return std::string(bytes.substr(0, count));
  }
  bool is_finished() const override { return frame_.is_done(); }

 private:
  BodyFrame frame_;
};

// Whether a line ends with LF alone, so that the end of a head may never come.
bool has_lone_line_feed(std::string_view text) {
  for (std::size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) {
    if (at == 0 || text[at - 1] != '\r') return true;
  }
  return false;
}

// Where the client's bytes go.
struct Way {
  Fd socket;
  const UpstreamProxy* upstream = nullptr;  // the proxy at its other end, if it is not the host itself
  std::string first;                        // what the host has sent already
};

class Connection {
 public:
  Connection(ProxyState& state, Fd client, int stop)
      : state_(state), limits_(state.limits), client_(std::move(client)), stop_(stop) {}

  void serve() {
    int flags = ::fcntl(client_.get(), F_GETFL);
    ::fcntl(client_.get(), F_SETFL, flags | O_NONBLOCK);
    deadline_ = SteadyClock::now() + std::chrono::milliseconds(limits_.head_ms);
    if (!fill().ok()) return;  // nothing was asked for
    constexpr char kSocks4 = 4;
    constexpr char kSocks5 = 5;
    constexpr char kTlsRecord = 22;
    switch (input_.front()) {
      case kSocks5: return serve_socks();
      case kSocks4: return refuse_socks4();
      case kTlsRecord: return refuse_tls();
      default: return serve_http();
    }
  }

 private:
  // Reads at least one more byte of what the client wants.
  Status fill() {
    for (;;) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - SteadyClock::now()).count();
      if (left <= 0) return Error(Code::kUnavailable, "too slow");
      WARREN_TRY(wait_for_socket(client_.get(), POLLIN, stop_, static_cast<int>(left)));
      std::array<char, 4096> bytes;
      ssize_t got = ::recv(client_.get(), bytes.data(), bytes.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return Error(Code::kUnavailable, "closed");
      input_.append(bytes.data(), static_cast<std::size_t>(got));
      return Ok{};
    }
  }

  // What can never become a request is refused before its end.
  void serve_http() {
    std::size_t end = 0;
    while ((end = input_.find("\r\n\r\n")) == input_.npos) {
      if (input_.size() > kHeadBytes)
        return refuse_head(431, "Request Header Fields Too Large", "the head is too long");
      if (!is_token(input_.substr(0, 1)))
        return refuse_head(400, "Bad Request", "bad request: neither HTTP nor SOCKS5");
      if (has_lone_line_feed(input_))
        return refuse_head(400, "Bad Request", "bad request: a line ends with LF alone; lines end with CR LF");
      Status more = fill();
      if (more.ok()) continue;
      if (more.error().code() == Code::kTimeout)
        refuse_head(408, "Request Timeout", "half a request, and then nothing for too long");
      return;
    }
    end += 4;
    if (end > kHeadBytes) return refuse_head(431, "Request Header Fields Too Large", "the head is too long");
    Result<ProxyRequest> request = parse_proxy_request(std::string_view(input_).substr(0, end));
    if (!request.ok()) return refuse_head(400, "Bad Request", request.error().message());
    input_.erase(0, end);
    HostRules::Verdict verdict = state_.rules.judge(request->target);
    Result<Way> way =
        open_way(request->target, verdict, request->is_tunnel ? Upstreams::Use::kTunnel : Upstreams::Use::kPlainHttp);
    if (!way.ok()) {
      bool is_refused = way.error().code() == Code::kNotPermitted;
      return answer(is_refused ? 403 : 502, is_refused ? "Forbidden" : "Bad Gateway", way.error().message());
    }
    if (request->is_tunnel) {
      send_now("HTTP/1.1 200 Connection established\r\n\r\n");
      TunnelGate gate(request->target, verdict);
      return relay(std::move(way).take_value(), "", gate, request->target);
    }
    BodyGate gate(request->body_bytes);
    std::string head =
        way->upstream != nullptr ? head_for_proxy(*request, way->upstream->authorization) : request->head;
    relay(std::move(way).take_value(), std::move(head), gate, request->target);
  }

  void serve_socks() {
    Result<std::optional<SocksGreeting>> greeting = parse_socks_greeting(input_);
    while (greeting.ok() && !*greeting) {
      if (!fill_socks()) return;
      greeting = parse_socks_greeting(input_);
    }
    bool is_understood = greeting.ok() && (*greeting)->offers_no_password;
    send_now(std::string_view(is_understood ? "\x05\x00" : "\x05\xff", 2));
    if (!is_understood) return refused({}, "SOCKS5 without 'no password'");
    input_.erase(0, (*greeting)->size);
    Result<std::optional<SocksRequest>> request = parse_socks_request(input_);
    while (request.ok() && !*request) {
      if (!fill_socks()) return;
      request = parse_socks_request(input_);
    }
    if (!request.ok()) {
      refused({}, request.error().message());
      return answer_socks(1);
    }
    input_.erase(0, (*request)->size);
    const HostPort& target = (*request)->target;
    if (!(*request)->is_connect) {
      refused(target, "SOCKS5 command other than CONNECT");
      return answer_socks(7);
    }
    HostRules::Verdict verdict = state_.rules.judge(target);
    Result<Way> way = open_way(target, verdict, Upstreams::Use::kTunnel);
    if (!way.ok()) return answer_socks(way.error().code() == Code::kNotPermitted ? 2 : 4);
    answer_socks(0);
    TunnelGate gate(target, verdict);
    relay(std::move(way).take_value(), "", gate, target);
  }

  bool fill_socks() {
    Status more = fill();
    bool is_late = !more.ok() && more.error().code() == Code::kTimeout;
    if (is_late) refused({}, "half a SOCKS5 request, and then nothing for too long");
    return more.ok();
  }

  void refuse_socks4() {
    refused({}, "SOCKS4; the proxy understands SOCKS5, HTTP and CONNECT");
    constexpr std::array<char, 8> kRejected{0, 91};
    send_now({kRejected.data(), kRejected.size()});
    linger();
  }

  void refuse_tls() {
    refused({}, "TLS to the proxy itself, whose address begins with http://");
    constexpr std::array<char, 7> kAlert{21, 3, 1, 0, 2, 2, 40};  // fatal: handshake failure
    send_now({kAlert.data(), kAlert.size()});
    linger();
  }

  // Checks, resolves and connects; records what fails. kNotPermitted: refused.
  Result<Way> open_way(const HostPort& target, HostRules::Verdict verdict, Upstreams::Use use) {
    if (!verdict.is_allowed) {
      refused(target, "", rule_for(target));
      return Error(Code::kNotPermitted, fmt::format("{} is not allowed in this run", target.text()));
    }
    const UpstreamProxy* upstream = state_.upstreams.find(target, use);
    if (upstream != nullptr) return open_way_through(*upstream, target, use);
    Result<std::vector<Address>> addresses = resolve(target.host);
    if (!addresses.ok()) return failure(target, addresses.error().message());
    std::string problem = "it has no address";
    const Address* bad = nullptr;
    for (const Address& address : *addresses) {
      if (!state_.rules.may_lead_to(target, address)) {
        bad = &address;
        continue;
      }
      Result<Fd> server = connect_to(socket_address(address, target.port), stop_, limits_.connect_ms);
      if (server.ok()) return Way{.socket = std::move(server).take_value()};
      problem = server.error().message();
      bad = nullptr;
    }
    return bad != nullptr ? not_public(target, *bad) : failure(target, problem);
  }

  // Fails at once while the name service does not answer.
  Result<std::vector<Address>> resolve_if_possible(const Host& host) {
    auto now = std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now().time_since_epoch()).count();
    if (!host.address && now < state_.nameless_until_ms) return Error(Code::kTimeout, "the name service is silent");
    Result<std::vector<Address>> addresses = resolve(host);
    bool is_silent = !addresses.ok() && addresses.error().code() == Code::kTimeout;
    if (is_silent) state_.nameless_until_ms = now + kNamelessMs;
    return addresses;
  }

  // It resolves the name again, so one address that is not allowed is enough to refuse. Where names cannot be resolved
  // here, the rules for names are all there is.
  Result<Way> open_way_through(const UpstreamProxy& upstream, const HostPort& target, Upstreams::Use use) {
    Result<std::vector<Address>> seen = resolve_if_possible(target.host);
    if (seen.ok()) {
      auto bad = std::find_if(seen->begin(), seen->end(),
                              [&](const Address& address) { return !state_.rules.may_lead_to(target, address); });
      if (bad != seen->end()) return not_public(target, *bad);
    }
    Way way{.upstream = &upstream};
    Status opened = connect_upstream(upstream, way);
    if (opened.ok() && use == Upstreams::Use::kTunnel) opened = open_tunnel(target, way);
    if (opened.ok()) return way;
    return failure(target, fmt::format("the proxy {}: {}", upstream.at.text(), opened.error().message()));
  }

  Status connect_upstream(const UpstreamProxy& upstream, Way& way) {
    std::vector<Address> addresses = WARREN_TRY(resolve(upstream.at.host));
    Error problem(Code::kUnavailable, "it has no address");
    for (const Address& address : addresses) {
      Result<Fd> server = connect_to(socket_address(address, upstream.at.port), stop_, limits_.connect_ms);
      if (!server.ok()) {
        problem = server.error();
        continue;
      }
      way.socket = std::move(server).take_value();
      return Ok{};
    }
    return problem;
  }

  Status open_tunnel(const HostPort& target, Way& way) {
    std::string request = connect_request(target, way.upstream->authorization);
    ssize_t sent = ::send(way.socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(request.size())) return Error(Code::kUnavailable, "it does not read");
    auto until = SteadyClock::now() + std::chrono::milliseconds(limits_.tunnel_ms);
    for (;;) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - SteadyClock::now()).count();
      WARREN_TRY(wait_for_socket(way.socket.get(), POLLIN, stop_, static_cast<int>(std::max<std::int64_t>(left, 0))));
      std::array<char, 4096> bytes;
      ssize_t got = ::recv(way.socket.get(), bytes.data(), bytes.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return Error(Code::kUnavailable, "it has closed the connection");
      way.first.append(bytes.data(), static_cast<std::size_t>(got));
      std::optional<std::size_t> head = WARREN_TRY(parse_connect_answer(way.first));
      if (!head) continue;
      way.first.erase(0, *head);
      return Ok{};
    }
  }

  static std::string rule_for(const HostPort& target) {
    bool is_web = target.port == 80 || target.port == 443;
    return is_web && target.host.name.find_first_of(".:") != std::string::npos ? target.host.text() : target.text();
  }

  Error not_public(const HostPort& target, const Address& address) {
    std::string why = fmt::format("it leads to {}, which is not a public address", address.text());
    refused(target, why, rule_for({Host{address.text(), address}, target.port}));
    return {Code::kNotPermitted, fmt::format("{}: {}", target.text(), why)};
  }
  Error failure(const HostPort& target, std::string why) {
    state_.record({Outcome::kFailed, target.host.text(), target.port, why, ""});
    return {Code::kUnavailable, fmt::format("{}: {}", target.text(), why)};
  }
  void refused(const HostPort& target, const std::string& why, const std::string& allow = "") {
    state_.record({Outcome::kRefused, target.host.name.empty() ? "" : target.host.text(), target.port, why, allow});
  }

  void refuse_head(int status, std::string_view title, const std::string& why) {
    refused({}, why);
    answer(status, title, why);
  }

  void answer(int status, std::string_view title, std::string_view why) {
    std::string body = fmt::format("warren: {}\n", why);
    if (status == 403) body += "Whoever started this run can allow it with --net.\n";
    send_now(
        fmt::format("HTTP/1.1 {} {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n"
                    "Connection: close\r\n\r\n{}",
                    status, title, body.size(), body));
    linger();
  }

  void answer_socks(char code) {
    std::array<char, 10> reply{5, code, 0, 1};
    send_now({reply.data(), reply.size()});
  }

  // Short, on a connection that has sent nothing before: fits into the socket's buffer.
  void send_now(std::string_view bytes) { ::send(client_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  // Unread bytes would turn our answer into a reset.
  void linger() {
    ::shutdown(client_.get(), SHUT_WR);
    deadline_ = std::min(deadline_, SteadyClock::now() + std::chrono::seconds(2));
    while (input_.size() < kHeadBytes * 4 && fill().ok()) continue;
  }

  // Carries bytes both ways until both sides have ended. The request's head goes first.
  void relay(Way way, std::string head, Gate& gate, const HostPort& target) {
    Flow up{.from = client_.get(), .to = way.socket.get(), .pending = std::move(head)};
    Flow down{.from = way.socket.get(), .to = client_.get(), .pending = std::move(way.first)};
    if (!up.pending.empty()) record_reached(target);
    std::string first = std::exchange(input_, "");
    if (!pass_up(gate, first, up, target)) return;
    for (;;) {
      bool is_over = down.is_closed && (up.is_closed || gate.is_finished());
      if (is_over || !exchange(up, down, gate, target)) break;
    }
    // The gate may have been closed with an error, which is recorded; otherwise the host was reached.
    if (!is_refused_) record_reached(target);
  }

  // Before anything is sent on, so that the record has it when the client has its answer.
  void record_reached(const HostPort& target) {
    if (!is_reached_) state_.record({Outcome::kReached, target.host.text(), target.port, "", ""});
    is_reached_ = true;
  }

  bool pass_up(Gate& gate, std::string_view bytes, Flow& up, const HostPort& target) {
    Result<std::string> passed = gate.pass(bytes);
    if (!passed.ok()) {
      refused(target, passed.error().message());
      is_refused_ = true;
      return false;
    }
    if (!passed->empty()) record_reached(target);
    up.pending += *passed;
    if (gate.is_finished())
      up.has_ended = up.is_closed = true;  // but the server may take a half-closed client for gone
    return true;
  }

  // Waits for either side and moves what can be moved. False: the end.
  bool exchange(Flow& up, Flow& down, Gate& gate, const HostPort& target) {
    auto both = [](short a, short b) { return static_cast<short>(a | b); };
    std::array<pollfd, 3> all{pollfd{up.from, both(up.wanted_from(), down.wanted_to()), 0},
                              pollfd{down.from, both(down.wanted_from(), up.wanted_to()), 0}, pollfd{stop_, POLLIN, 0}};
    // A descriptor without wanted events still reports its end, for ever.
    for (pollfd& one : all) {
      if (one.events == 0) one.fd = -1;
    }
    // After the last byte of a request its client only waits, which is not yet the end.
    bool is_ending = down.has_ended || (up.has_ended && !gate.is_finished());
    int ready = ::poll(all.data(), all.size(), is_ending ? limits_.closing_ms : limits_.idle_ms);
    if (ready < 0) return errno == EINTR;
    if (ready == 0 || all[2].revents != 0) return false;
    bool client_is_ready = all[0].revents != 0;
    bool server_is_ready = all[1].revents != 0;
    if (client_is_ready && up.wanted_from() != 0) {
      std::string bytes;
      if (!receive(up, bytes)) return false;
      if (!bytes.empty() && !pass_up(gate, bytes, up, target)) return false;
    }
    if (server_is_ready && down.wanted_from() != 0 && !receive(down, down.pending)) return false;
    return push(up) && push(down);
  }

  static bool receive(Flow& flow, std::string& into) {
    std::array<char, kRelayBytes> bytes;
    ssize_t got = ::recv(flow.from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) flow.has_ended = true;
    into.append(bytes.data(), static_cast<std::size_t>(got));
    return true;
  }

  static bool push(Flow& flow) {
    while (!flow.pending.empty()) {
      ssize_t sent = ::send(flow.to, flow.pending.data(), flow.pending.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (sent < 0) return false;
      flow.pending.erase(0, static_cast<std::size_t>(sent));
    }
    if (flow.has_ended && !flow.is_closed) {
      ::shutdown(flow.to, SHUT_WR);
      flow.is_closed = true;
    }
    return true;
  }

  ProxyState& state_;
  const ProxyLimits& limits_;
  Fd client_;
  int stop_;
  SteadyClock::time_point deadline_;
  std::string input_;  // read from the client, and not used yet
  bool is_refused_ = false;
  bool is_reached_ = false;
};

}  // namespace

void Proxy::start(Fd client, int stop) {
  {
    std::lock_guard lock(mutex_);
    if (active_ >= state_.limits.connections) return;
    ++active_;
  }
  auto finish = [this] {
    std::lock_guard lock(mutex_);
    --active_;
    ended_.notify_all();
  };
  try {
    std::thread([this, finish, stop, client = std::move(client)]() mutable {
      Connection(state_, std::move(client), stop).serve();
      finish();
    }).detach();
  } catch (const std::system_error&) {
    finish();  // no thread: the connection is closed
  }
}

void Proxy::serve(const Fd& listener, int stop) {
  for (;;) {
    std::array<pollfd, 2> all{pollfd{listener.get(), POLLIN, 0}, pollfd{stop, POLLIN, 0}};
    if (::poll(all.data(), all.size(), -1) < 0 && errno != EINTR) break;
    if (all[1].revents != 0) break;
    if (all[0].revents == 0) continue;
    Fd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client.is_open()) start(std::move(client), stop);
  }
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return active_ == 0; });
}

}  // namespace warren::net
