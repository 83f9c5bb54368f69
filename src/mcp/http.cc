#include "mcp/http.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/base64.h"
#include "base/path.h"
#include "crypto/hmac.h"
#include "mcp/http_session.h"
#include "mcp/session.h"
#include "net/address.h"
#include "net/web_server.h"
#include "os/threads/worker.h"

namespace warren::mcp {
namespace {

using net::WebReply;
using net::WebRequest;
using Reply = std::shared_ptr<WebReply>;
using Steady = std::chrono::steady_clock;

constexpr std::string_view kEndpoint = "/mcp";
constexpr std::chrono::minutes kSessionLife{60};  // without a request
constexpr std::chrono::seconds kKeepAliveEvery{15};
constexpr std::chrono::seconds kStopPatience{2};
constexpr std::size_t kReceivers = 2;  // threads that take requests and never wait for what is called

std::string random_id() {
  std::string bytes(16, '\0');
  fill_with_random(as_mutable_bytes(bytes));
  std::string text;
  for (char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

bool is_loopback_name(std::string_view host) {
  if (to_lower(host) == "localhost") return true;
  std::optional<net::Address> address = net::Address::parse(host);
  return address && address->is_loopback();
}

// HOST[:PORT], [ADDRESS][:PORT] → the host; "" if it is anything else.
std::string_view host_part(std::string_view authority) {
  bool is_bracketed = authority.starts_with('[');
  std::size_t end = authority.find(is_bracketed ? ']' : ':');
  if (is_bracketed && end == authority.npos) return {};
  std::string_view host = is_bracketed ? authority.substr(1, end - 1) : authority.substr(0, end);
  std::string_view port = end == authority.npos ? std::string_view() : authority.substr(end + (is_bracketed ? 1 : 0));
  bool is_port = port.empty() || (port[0] == ':' && parse_number<std::uint16_t>(port.substr(1)));
  return is_port ? host : std::string_view();
}

std::string_view host_of_origin(std::string_view origin) {
  for (std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return host_part(origin.substr(scheme.size()));
  }
  return {};
}

bool is_same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

net::WebRefusal refusal_of(int status, int code, std::string message, net::WebHeaders headers = {}) {
  headers.emplace_back("Content-Type", "application/json");
  return {.status = status,
          .headers = std::move(headers),
          .body = dump_json(error_message(nullptr, {.code = code, .message = std::move(message)}))};
}

void refuse(WebReply& reply, int status, int code, std::string message, net::WebHeaders headers = {}) {
  net::WebRefusal refusal = refusal_of(status, code, std::move(message), std::move(headers));
  reply.answer(refusal.status, std::move(refusal.headers), std::move(refusal.body));
}

// =?base64?…?= stands for the bytes that a header cannot have.
std::optional<std::string> decode_header(std::string_view value) {
  constexpr std::string_view kStart = "=?base64?";
  if (!value.starts_with(kStart) || !value.ends_with("?=")) return std::string(value);
  return decode_base64(value.substr(kStart.size(), value.size() - kStart.size() - 2));
}

// What 2026-07-28 wants of the headers of a request; nullopt if they agree with the body.
std::optional<RpcError> find_header_mismatch(const WebRequest& request, const Json& message) {
  auto mismatch = [](std::string_view header, std::string_view body) {
    return RpcError{
        .code = kHeaderMismatch,
        .message = fmt::format("Header mismatch: {} is not the {} of the body, or is missing", header, body)};
  };
  const Json& params = message.contains("params") ? message["params"] : message;
  std::string version = find_text(meta_of(params), kMetaVersion).value_or("");
  // Blanks around a value are not part of it (RFC 9110, 5.5).
  auto header_value = [&](const std::string& name) { return trimmed(request.header(name)); };
  if (header_value("mcp-protocol-version") != version) return mismatch("MCP-Protocol-Version", kMetaVersion);
  std::string method = find_text(message, "method").value_or("");
  if (header_value("mcp-method") != method) return mismatch("Mcp-Method", "method");
  const char* source = method == "resources/read" ? "uri" : "name";
  if (method != "tools/call" && method != "resources/read" && method != "prompts/get") return std::nullopt;
  std::optional<std::string> name = decode_header(header_value("mcp-name"));
  if (!name || !request.headers.contains("mcp-name") || *name != find_text(params, source).value_or("")) {
    return mismatch("Mcp-Name", source);
  }
  return std::nullopt;
}

// What is wrong with a request of the stateless era.
std::optional<RpcError> find_lone_problem(const WebRequest& request, const Json& message) {
  Json params = message.value("params", Json::object());
  std::optional<RpcError> problem = find_stateless_problem(params);
  // Where both name a revision and not the same one, that is what is wrong, whichever of them we know.
  bool has_both = request.headers.contains("mcp-protocol-version") && find_text(meta_of(params), kMetaVersion);
  if (problem && !(problem->code == kUnsupportedVersion && has_both)) return problem;
  std::optional<RpcError> mismatch = find_header_mismatch(request, message);
  return mismatch ? mismatch : problem;
}

// A request of the stateless era, with all that serves it; it lives as long as the answer is awaited.
struct LoneRequest {
  std::shared_ptr<StreamOutlet> outlet;  // shared with the session
  std::unique_ptr<Session> session;
  std::atomic<bool> is_gone = false;  // the client
};

// The session must already be removed from sessions_.
void end_session(HttpSession& session) {
  session.session->cancel_all();
  session.notices->end();
}

class HttpDoorImpl final : public HttpDoor {
 public:
  HttpDoorImpl(Service& service, HttpDoorOptions options)
      : service_(service),
        options_(std::move(options)),
        subscriptions_(service),
        receivers_({.priority = Worker::Priority::kNormal, .threads_max = kReceivers}),
        calls_(options_.threads, Service::kLongCallsMax) {}
  ~HttpDoorImpl() override { stop(); }

  Status open() {
    auto take = [this](WebRequest request, const Reply& reply) {
      auto shared = std::make_shared<WebRequest>(std::move(request));
      if (!receivers_.submit([this, shared, reply] { handle(*shared, reply); }).ok()) reply->answer(503, {}, "");
    };
    server_ = WARREN_TRY(net::WebServer::start(options_.address, {}, take,
                                               [this](const WebRequest& request) { return find_refusal(request); }));
    return keeper_.submit([this] { keep_streams_alive(); });
  }

  const net::HttpAddress& address() const override { return server_->address(); }
  void stop() override;

 private:
  void handle(const WebRequest& request, const Reply& reply);
  std::optional<net::WebRefusal> find_refusal(const WebRequest& request) const;  // by its headers alone
  void handle_post(const WebRequest& request, const Reply& reply);
  void serve_lone(const WebRequest& request, const Json& message, const Reply& reply);
  void forget_lone(const std::shared_ptr<LoneRequest>& lone);
  void begin_session(const Json& message, const Reply& reply);
  void serve_in_session(const std::shared_ptr<HttpSession>& session, const Json& message, const Reply& reply);
  void handle_get(const WebRequest& request, const Reply& reply);
  void handle_delete(const WebRequest& request, const Reply& reply);
  std::shared_ptr<HttpSession> find_session(const WebRequest& request, WebReply& reply);
  void drop_old_sessions();                        // under mutex_
  std::shared_ptr<HttpSession> take_least_used();  // under mutex_; null: all are in use
  void keep_streams_alive();

  Service& service_;
  HttpDoorOptions options_;
  Subscriptions subscriptions_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<HttpSession>> sessions_;  // under mutex_, as what follows; shared by requests
  std::list<std::shared_ptr<LoneRequest>> lone_;                  // shared by what cancels them
  bool is_stopped_ = false;
  Worker receivers_;
  CallThreads calls_;
  Worker keeper_;
  std::unique_ptr<net::WebServer> server_;
};

// Names that lead here may belong to anybody (DNS rebinding), and pages in a browser may call us: both show in headers.
std::optional<net::WebRefusal> HttpDoorImpl::find_refusal(const WebRequest& request) const {
  bool is_local = options_.address.is_loopback();
  std::string_view host = host_part(request.header("host"));
  if (host.empty() || (is_local && !is_loopback_name(host))) {
    return refusal_of(403, kInvalidRequest, "this server answers only to the names of this machine");
  }
  if (request.headers.contains("origin")) {
    std::string_view origin = host_of_origin(request.header("origin"));
    bool is_good = !origin.empty() && (is_local ? is_loopback_name(origin) : to_lower(origin) == to_lower(host));
    if (!is_good) return refusal_of(403, kInvalidRequest, "requests of this Origin are not served");
  }
  if (options_.token.empty()) return std::nullopt;
  constexpr std::string_view kBearer = "bearer ";
  std::string_view given = request.header("authorization");
  bool is_bearer = given.size() > kBearer.size() && to_lower(given.substr(0, kBearer.size())) == kBearer;
  if (is_bearer && is_same_secret(trimmed(given.substr(kBearer.size())), options_.token)) return std::nullopt;
  return refusal_of(401, kInvalidRequest, "a bearer token is needed", {{"WWW-Authenticate", "Bearer"}});
}

void HttpDoorImpl::handle(const WebRequest& request, const Reply& reply) {
  if (reply->is_crowded()) {
    return refuse(*reply, 503, kInternalError, "too many answers were not read yet", {{"Retry-After", "1"}});
  }
  if (request.path != kEndpoint) return refuse(*reply, 404, kInvalidRequest, "there is nothing here; use /mcp");
  if (request.method == "POST") return handle_post(request, reply);
  if (request.method == "GET") return handle_get(request, reply);
  if (request.method == "DELETE") return handle_delete(request, reply);
  refuse(*reply, 405, kInvalidRequest, "use POST, GET or DELETE", {{"Allow", "GET, POST, DELETE"}});
}

void HttpDoorImpl::handle_post(const WebRequest& request, const Reply& reply) {
  std::string type = to_lower(request.header("content-type"));
  if (!type.starts_with("application/json")) {
    return refuse(*reply, 415, kInvalidRequest, "the Content-Type must be application/json");
  }
  Result<Json> message = parse_json(request.body);
  if (!message.ok()) return refuse(*reply, 400, kParseError, message.error().message());
  bool names_revision = message->is_object() && message->contains("params") && (*message)["params"].is_object() &&
                        meta_of((*message)["params"]).contains(kMetaVersion);
  std::optional<Revision> header = find_revision(request.header("mcp-protocol-version"));
  if (names_revision || (header && !has_sessions(*header))) return serve_lone(request, *message, reply);
  if (request.headers.contains("mcp-protocol-version") && !header) {
    return refuse(*reply, 400, kInvalidRequest, "this MCP-Protocol-Version is not supported");
  }
  bool begins = message->is_object() && message->value("method", Json()) == "initialize";
  if (begins && !request.headers.contains("mcp-session-id")) return begin_session(*message, reply);
  std::shared_ptr<HttpSession> session = find_session(request, *reply);
  if (session) serve_in_session(session, *message, reply);
}

void HttpDoorImpl::serve_lone(const WebRequest& request, const Json& message, const Reply& reply) {
  bool is_request = message.is_object() && message.contains("id") && message.contains("method");
  if (message.is_object() && !message.contains("id")) return reply->answer(202, {}, "");  // there are none to act on
  if (is_request) {
    if (std::optional<RpcError> problem = find_lone_problem(request, message)) {
      return reply->answer(400, {{"Content-Type", "application/json"}},
                           dump_json(error_message(message["id"], *problem)));
    }
  }
  auto lone = std::make_shared<LoneRequest>();
  std::weak_ptr<LoneRequest> weak = lone;
  auto run = [this, weak](CallKind kind, std::function<void()> call) {
    return calls_.run(kind, [this, held = weak.lock(), call = std::move(call)] {
      call();
      forget_lone(held);
    });
  };
  lone->outlet = std::make_shared<StreamOutlet>(reply, nullptr);
  lone->session = std::make_unique<Session>(service_, subscriptions_, Session::Options{.run = run, .notices = {}});
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_) return reply->answer(503, {}, "");
    lone_.push_back(lone);
  }
  // A client that closes the connection cancels its request. A thread may still be in it, so it ends there.
  reply->when_gone([this, weak] {
    std::shared_ptr<LoneRequest> gone = weak.lock();
    if (!gone) return;
    gone->is_gone = true;
    gone->session->cancel_all();
    forget_lone(gone);
  });
  lone->session->receive_value(message, lone->outlet);
  if (lone->is_gone) lone->session->cancel_all();  // it went before there was anything to cancel
  bool is_served = lone->session->is_listening() || lone->session->in_flight() > 0;
  if (!is_served) forget_lone(lone);
}

void HttpDoorImpl::forget_lone(const std::shared_ptr<LoneRequest>& lone) {
  std::lock_guard lock(mutex_);
  lone_.remove(lone);
}

void HttpDoorImpl::begin_session(const Json& message, const Reply& reply) {
  auto made = std::make_shared<HttpSession>();
  made->id = random_id();
  made->log = std::make_shared<EventLog>();
  made->notices = std::make_shared<StreamOutlet>(nullptr, made->log);
  std::weak_ptr<HttpSession> weak = made;
  auto run = [this, weak](CallKind kind, std::function<void()> call) {
    return calls_.run(kind, [held = weak.lock(), call = std::move(call)] { call(); });
  };
  made->session =
      std::make_unique<Session>(service_, subscriptions_, Session::Options{.run = run, .notices = made->notices});
  made->used = Steady::now();
  std::shared_ptr<HttpSession> ended;
  {
    std::lock_guard lock(mutex_);
    drop_old_sessions();
    if (sessions_.size() >= options_.sessions_max) ended = take_least_used();
    if (is_stopped_ || sessions_.size() >= options_.sessions_max) {
      return refuse(*reply, 503, kInternalError, "there are too many sessions");
    }
    sessions_.emplace(made->id, made);
  }
  if (ended) end_session(*ended);
  auto outlet = std::make_shared<StreamOutlet>(reply, made->log, net::WebHeaders{{"Mcp-Session-Id", made->id}});
  made->session->receive_value(message, outlet);
  if (made->session->revision()) return;
  std::lock_guard lock(mutex_);  // it has failed
  sessions_.erase(made->id);
}

void HttpDoorImpl::serve_in_session(const std::shared_ptr<HttpSession>& session, const Json& message,
                                    const Reply& reply) {
  auto outlet = std::make_shared<StreamOutlet>(reply, session->log);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(session->streams, [](const auto& one) { return one.second.expired(); });
    session->streams[outlet->stream()] = outlet;
  }
  session->session->receive_value(message, outlet);
}

std::shared_ptr<HttpSession> HttpDoorImpl::find_session(const WebRequest& request, WebReply& reply) {
  std::string id(request.header("mcp-session-id"));
  if (id.empty()) {
    refuse(reply, 400, kInvalidRequest, "the header Mcp-Session-Id is needed; 'initialize' begins a session");
    return nullptr;
  }
  std::lock_guard lock(mutex_);
  auto found = sessions_.find(id);
  if (found == sessions_.end()) {
    refuse(reply, 404, kInvalidRequest, "there is no such session");
    return nullptr;
  }
  found->second->used = Steady::now();
  return found->second;
}

void HttpDoorImpl::drop_old_sessions() {
  Steady::time_point oldest = Steady::now() - kSessionLife;
  std::erase_if(sessions_, [&](const auto& one) { return one.second->used < oldest && one.second.use_count() == 1; });
}

// Clients that begin one session after the other, and end none, keep nobody out.
std::shared_ptr<HttpSession> HttpDoorImpl::take_least_used() {
  auto least = sessions_.end();
  for (auto one = sessions_.begin(); one != sessions_.end(); ++one) {
    if (one->second.use_count() > 1) continue;  // a request is in it
    if (least == sessions_.end() || one->second->used < least->second->used) least = one;
  }
  if (least == sessions_.end()) return nullptr;
  std::shared_ptr<HttpSession> taken = std::move(least->second);
  sessions_.erase(least);
  return taken;
}

void HttpDoorImpl::handle_get(const WebRequest& request, const Reply& reply) {
  if (request.header("accept").find("text/event-stream") == std::string_view::npos) {
    return refuse(*reply, 406, kInvalidRequest, "the Accept header must list text/event-stream");
  }
  if (!request.headers.contains("mcp-session-id")) {
    return refuse(*reply, 405, kInvalidRequest, "a stream needs a session", {{"Allow", "POST"}});
  }
  std::shared_ptr<HttpSession> session = find_session(request, *reply);
  if (!session) return;
  if (!request.headers.contains("last-event-id")) return session->notices->resume(reply, {});
  std::optional<EventLog::Rest> rest = session->log->after(request.header("last-event-id"));
  if (!rest) return refuse(*reply, 400, kInvalidRequest, "this Last-Event-ID is not known");
  if (rest->stream == session->notices->stream()) return session->notices->resume(reply, rest->events);
  std::shared_ptr<StreamOutlet> stream;
  {
    std::lock_guard lock(mutex_);
    stream = session->streams[rest->stream].lock();
  }
  if (stream) return stream->resume(reply, rest->events);
  reply->begin_stream(event_stream_headers());
  for (const std::string& event : rest->events) reply->write(event);
  reply->end_stream();
}

void HttpDoorImpl::handle_delete(const WebRequest& request, const Reply& reply) {
  std::shared_ptr<HttpSession> session = find_session(request, *reply);
  if (!session) return;
  {
    std::lock_guard lock(mutex_);
    sessions_.erase(session->id);
  }
  end_session(*session);
  reply->answer(204, {}, "");
}

// Also notices clients that are gone: nothing else is sent on a quiet stream.
void HttpDoorImpl::keep_streams_alive() {
  while (keeper_.sleep_for(kKeepAliveEvery)) {
    std::vector<std::shared_ptr<StreamOutlet>> open;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [id, session] : sessions_) open.push_back(session->notices);
      for (const std::shared_ptr<LoneRequest>& one : lone_) open.push_back(one->outlet);
    }
    for (const std::shared_ptr<StreamOutlet>& one : open) one->keep_alive();
  }
}

void HttpDoorImpl::stop() {
  std::list<std::shared_ptr<LoneRequest>> lone;
  std::map<std::string, std::shared_ptr<HttpSession>> sessions;
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    is_stopped_ = true;
    lone = lone_;
    sessions = sessions_;
  }
  keeper_.stop();
  for (const auto& one : lone) one->session->end_subscriptions();
  auto is_busy = [&] {
    return std::any_of(lone.begin(), lone.end(), [](const auto& one) { return one->session->in_flight() > 0; }) ||
           std::any_of(sessions.begin(), sessions.end(),
                       [](const auto& one) { return one.second->session->in_flight() > 0; });
  };
  for (auto until = Steady::now() + kStopPatience; is_busy() && Steady::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const auto& one : lone) one->session->cancel_all();
  for (const auto& [id, session] : sessions) {
    session->session->cancel_all();
    session->notices->end();
  }
  if (server_) server_->stop();
  receivers_.stop();
  calls_.stop();
  std::lock_guard lock(mutex_);
  lone_.clear();
  sessions_.clear();
}

}  // namespace

Result<std::unique_ptr<HttpDoor>> HttpDoor::start(Service& service, HttpDoorOptions options) {
  if (!options.address.is_loopback() && options.token.empty()) {
    return Error(Code::kDenied, fmt::format("{} can be reached from other machines, and no token protects it",
                                            quote(options.address.text())));
  }
  auto door = std::make_unique<HttpDoorImpl>(service, std::move(options));
  WARREN_TRY(door->open());
  return std::unique_ptr<HttpDoor>(std::move(door));
}

}  // namespace warren::mcp
