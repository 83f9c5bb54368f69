#include "mcp/session.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/path.h"
#include "mcp/conformance.h"

namespace warren::mcp {
namespace {

constexpr std::size_t kBatchMax = 100;
constexpr std::size_t kSessionSubscriptionsMax = 1000;  // each subscriptions/listen counts as one at least
constexpr std::array<std::string_view, 8> kLogLevels{"debug", "info",     "notice", "warning",
                                                     "error", "critical", "alert",  "emergency"};

Answer ping(Request&) { return Json::object(); }

Answer discover(Request& request) {
  return Json{{"supportedVersions", stateless_revisions()},
              {"capabilities", request.service.capabilities(request.revision)},
              {"instructions", request.service.instructions()}};
}

constexpr int kLongTtl = 3'600'000;  // what does not change while the server runs
constexpr std::array<MethodEntry, 10> kMethods{{
    {.name = "ping", .call = ping, .is_stateless = false},
    {.name = "server/discover", .call = discover, .is_in_sessions = false, .ttl_ms = kLongTtl},
    {.name = "tools/list", .call = list_tools, .ttl_ms = kLongTtl},
    {.name = "tools/call", .call = call_tool_method},
    {.name = "resources/list", .call = list_resources, .ttl_ms = 0},
    {.name = "resources/templates/list", .call = list_templates, .ttl_ms = kLongTtl},
    {.name = "resources/read", .call = read_resource, .ttl_ms = 0},
    {.name = "prompts/list", .call = list_prompts, .ttl_ms = kLongTtl},
    {.name = "prompts/get", .call = get_prompt},
    {.name = "completion/complete", .call = complete},
}};

RpcError too_many_subscriptions() {
  return {.code = kInternalError,
          .message = fmt::format("too many subscriptions; a client has at most {}", kSessionSubscriptionsMax)};
}

Json subscription_meta(const Request& request) { return {{kMetaSubscription, request.id}}; }

// Holds messages back until it is opened. Shared by the notices of a subscription.
class Gate {
 public:
  explicit Gate(std::function<void(Json)> send) : send_(std::move(send)) {}

  void pass(Json message) {
    {
      std::lock_guard lock(mutex_);
      if (!is_open_) return held_.push_back(std::move(message));
    }
    send_(std::move(message));
  }

  void open() {
    std::vector<Json> held;
    {
      std::lock_guard lock(mutex_);
      is_open_ = true;
      held = std::exchange(held_, {});
    }
    for (Json& message : held) send_(std::move(message));
  }

 private:
  std::function<void(Json)> send_;
  std::mutex mutex_;
  bool is_open_ = false;  // under mutex_, as what follows
  std::vector<Json> held_;
};

bool is_about_resources(std::string_view method) { return method.starts_with("resources/"); }

RpcError unknown_method(const std::string& method, Revision revision) {
  return {.code = kMethodNotFound,
          .message = fmt::format("there is no method {} in revision {}", quote(method), name_of(revision))};
}

}  // namespace

std::optional<int> find_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kLogLevels.size(); ++i) {
    if (kLogLevels[i] == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

const MethodEntry* find_method(std::string_view name, Revision revision) {
  for (const MethodEntry& one : kMethods) {
    if (one.name == name && (has_sessions(revision) ? one.is_in_sessions : one.is_stateless)) return &one;
  }
  return nullptr;
}

void Request::notify(std::string_view about, Json what) const {
  if (!*is_cancelled) outlet->send(notification_message(about, std::move(what)));
}

void log(const Request& request, std::string_view level, Json data) {
  std::optional<int> wanted;
  if (has_sessions(request.revision)) {
    wanted = request.session.log_level();
  } else if (auto asked = find_text(meta_of(request.params), kMetaLogLevel)) {
    wanted = find_log_level(*asked);
  }
  if (!wanted || *find_log_level(level) < *wanted) return;
  request.notify("notifications/message", {{"level", level}, {"logger", "warren"}, {"data", std::move(data)}});
}

std::optional<RpcError> find_stateless_problem(const Json& params) {
  const Json& meta = meta_of(params);
  auto named = meta.find(kMetaVersion);
  if (named == meta.end() || !named->is_string()) {
    return invalid_params(fmt::format("the request needs {} in its _meta, a string", quote(kMetaVersion)));
  }
  std::optional<Revision> found = find_revision(named->get<std::string>());
  if (!found || has_sessions(*found)) {
    return RpcError{.code = kUnsupportedVersion,
                    .message = "Unsupported protocol version",
                    .data = {{"supported", stateless_revisions()}, {"requested", *named}}};
  }
  auto capabilities = meta.find(kMetaCapabilities);
  if (capabilities == meta.end() || !capabilities->is_object()) {
    return invalid_params(fmt::format("the request needs {} in its _meta, an object", quote(kMetaCapabilities)));
  }
  return std::nullopt;
}

// Collects the answers of a batch; the last one sends them.
class Session::Batch {
 public:
  explicit Batch(std::shared_ptr<Outlet> outlet) : outlet_(std::move(outlet)) {}
  ~Batch() {
    if (!answers_.empty()) outlet_->send(answers_);
  }
  void add(Json answer) {
    std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
  }

 private:
  std::shared_ptr<Outlet> outlet_;
  std::mutex mutex_;
  Json answers_ = Json::array();  // under mutex_
};

Session::Session(Service& service, Subscriptions& subscriptions, Options options)
    : service_(service), subscriptions_(subscriptions), options_(std::move(options)) {}

Session::~Session() {
  for (const auto& [uri, id] : subscribed_) subscriptions_.remove(id);
  for (const auto& [id, running] : running_) {
    for (std::uint64_t one : running.subscriptions) subscriptions_.remove(one);
  }
}

void Session::receive(std::string_view text, const std::shared_ptr<Outlet>& outlet) {
  Result<Json> value = parse_json(text);
  if (value.ok()) return receive_value(*value, outlet, text.size());
  outlet->send(error_message(nullptr, {.code = kParseError, .message = value.error().message()}));
}

void Session::receive_value(const Json& value, const std::shared_ptr<Outlet>& outlet, std::size_t size_bytes) {
  Arrival arrival{.outlet = outlet, .size_bytes = size_bytes};
  if (value.is_array()) return receive_batch(value, arrival);
  receive_one(value, arrival, [outlet](const Json& answer) { outlet->send(answer); });
}

void Session::receive_batch(const Json& list, const Arrival& arrival) {
  std::optional<Revision> now = revision();
  std::string problem;
  if (!now || !has_batches(*now)) problem = "a batch of messages is only for revision 2025-03-26";
  else if (list.empty()) problem = "a batch has at least one message";
  else if (list.size() > kBatchMax) problem = fmt::format("a batch has at most {} messages", kBatchMax);
  if (!problem.empty()) {
    arrival.outlet->send(error_message(nullptr, {.code = kInvalidRequest, .message = problem}));
    return;
  }
  auto batch = std::make_shared<Batch>(arrival.outlet);  // shared by the answers that are still to come
  Arrival part{.outlet = arrival.outlet, .size_bytes = arrival.size_bytes / list.size(), .is_in_batch = true};
  for (const Json& one : list) {
    receive_one(one, part, [batch](Json answer) { batch->add(std::move(answer)); });
  }
}

void Session::receive_one(const Json& value, const Arrival& arrival, const Reply& reply) {
  std::variant<RpcMessage, BadMessage> read = read_message(value);
  if (auto* bad = std::get_if<BadMessage>(&read)) return reply(error_message(bad->id, bad->error));
  auto& message = std::get<RpcMessage>(read);
  switch (message.kind) {
    case RpcMessage::Kind::kRequest: return handle_request(std::move(message), arrival, reply);
    case RpcMessage::Kind::kNotification: return handle_notification(message);
    case RpcMessage::Kind::kResponse: return;  // we ask nothing
  }
}

// Notifications are never answered, unknown and malformed ones included.
void Session::handle_notification(const RpcMessage& message) {
  if (message.method != "notifications/cancelled") return;
  if (auto id = message.params.find("requestId"); id != message.params.end()) cancel(*id);
}

std::variant<Revision, RpcError> Session::revision_of(const RpcMessage& message) const {
  const Json& meta = meta_of(message.params);
  auto named = meta.find(kMetaVersion);
  if (named == meta.end()) {
    if (std::optional<Revision> now = revision()) return *now;
    return RpcError{.code = kInvalidParams,
                    .message = fmt::format("the request has no {} in its _meta, and there was no 'initialize'",
                                           quote(kMetaVersion))};
  }
  if (std::optional<RpcError> problem = find_stateless_problem(message.params)) return *std::move(problem);
  return *find_revision(named->get<std::string>());
}

Answer Session::initialize(const Json& params, bool is_in_batch) {
  std::optional<std::string> wanted = find_text(params, "protocolVersion");
  if (!wanted) return invalid_params("'initialize' needs 'protocolVersion', a string");
  if (is_in_batch) return RpcError{.code = kInvalidRequest, .message = "'initialize' must not be part of a batch"};
  std::optional<Revision> found = find_revision(*wanted);
  Revision chosen = found && has_sessions(*found) ? *found : kNewestWithSessions;
  {
    std::lock_guard lock(mutex_);
    revision_ = chosen;
  }
  return Json{{"protocolVersion", name_of(chosen)},
              {"capabilities", service_.capabilities(chosen)},
              {"serverInfo", service_.server_info(chosen)},
              {"instructions", service_.instructions()}};
}

void Session::handle_request(RpcMessage message, const Arrival& arrival, const Reply& reply) {
  bool is_stateless = meta_of(message.params).contains(kMetaVersion);
  if (message.method == "initialize" && !is_stateless) {
    return reply(answer_message(message.id, initialize(message.params, arrival.is_in_batch)));
  }
  if (message.method == "ping" && !is_stateless) return reply(result_message(message.id, Json::object()));
  std::variant<Revision, RpcError> revision = revision_of(message);
  if (auto* error = std::get_if<RpcError>(&revision)) return reply(error_message(message.id, *error));
  if (arrival.is_in_batch && message.method == "subscriptions/listen") {
    // It is answered when it ends; the other answers of the batch would wait for that.
    RpcError refused{.code = kInvalidRequest, .message = "'subscriptions/listen' must not be part of a batch"};
    return reply(error_message(message.id, refused));
  }
  auto request = std::make_shared<Request>(Request{.service = service_,
                                                   .session = *this,
                                                   .revision = std::get<Revision>(revision),
                                                   .id = std::move(message.id),
                                                   .method = std::move(message.method),
                                                   .params = std::move(message.params),
                                                   .outlet = arrival.outlet,
                                                   .is_cancelled = std::make_shared<std::atomic<bool>>(false)});
  if (!begin(*request, arrival.size_bytes)) {
    return reply(error_message(request->id, {.code = kInvalidRequest, .message = "a request with this id is running"}));
  }
  start(std::move(request), reply);
}

// What is quick and depends on the order of messages is done at once, the rest where the transport runs it.
void Session::start(std::shared_ptr<Request> request, const Reply& reply) {
  bool has_state = has_sessions(request->revision);
  if (is_about_resources(request->method) && !service_.serves_resources()) {
    return finish(*request, reply, unknown_method(request->method, request->revision));
  }
  if (!has_state && request->method == "subscriptions/listen") return listen(request, reply);
  if (has_state && request->method == "resources/subscribe") return finish(*request, reply, subscribe(*request));
  if (has_state && request->method == "resources/unsubscribe") return finish(*request, reply, unsubscribe(*request));
  if (has_state && request->method == "logging/setLevel")
    return finish(*request, reply, set_log_level(request->params));
  if (!options_.run) return serve(request, reply);
  if (options_.run([this, request, reply] { serve(request, reply); })) return;
  finish(*request, reply, RpcError{.code = kInternalError, .message = "the server cannot take more requests now"});
}

void Session::serve(const std::shared_ptr<Request>& request, const Reply& reply) {
  const MethodEntry* method = find_method(request->method, request->revision);
  if (method == nullptr) return finish(*request, reply, unknown_method(request->method, request->revision));
  Answer answer = RpcError{};
  if (Status rights = service_.refresh_view(); !rights.ok()) {
    return finish(*request, reply, rpc_error(rights.error()));
  }
  try {  // a value of an unexpected type would be our mistake; the client gets an answer all the same
    answer = decorated(*request, method->call(*request));
    if (auto* result = std::get_if<Json>(&answer); result != nullptr && !has_sessions(request->revision)) {
      if (method->ttl_ms) {
        (*result)["ttlMs"] = *method->ttl_ms;
        (*result)["cacheScope"] = "private";
      }
    }
  } catch (const std::exception& thrown) {
    answer = RpcError{.code = kInternalError, .message = fmt::format("internal error: {}", thrown.what())};
  }
  finish(*request, reply, std::move(answer));
}

Answer Session::decorated(const Request& request, Answer answer) const {
  auto* result = std::get_if<Json>(&answer);
  if (result == nullptr || has_sessions(request.revision)) return answer;
  (*result)["resultType"] = "complete";
  (*result)["_meta"][kMetaServer] = service_.server_info(request.revision);
  return answer;
}

void Session::finish(const Request& request, const Reply& reply, Answer answer) {
  if (!*request.is_cancelled) reply(answer_message(request.id, std::move(answer)));
  forget(request.id);
}

bool Session::begin(const Request& request, std::size_t size_bytes) {
  std::lock_guard lock(mutex_);
  Running running{.is_cancelled = request.is_cancelled, .size_bytes = size_bytes, .subscriptions = {}, .end = {}};
  return running_.try_emplace(dump_json(request.id), std::move(running)).second;
}

void Session::forget(const Json& id) {
  std::lock_guard lock(mutex_);
  running_.erase(dump_json(id));
  finished_.notify_all();
}

void Session::cancel(const Json& id) {
  std::vector<std::uint64_t> ended;
  {
    std::lock_guard lock(mutex_);
    auto found = running_.find(dump_json(id));
    if (found == running_.end()) return;
    *found->second.is_cancelled = true;
    if (!found->second.end) return;  // it ends by itself
    ended = std::move(found->second.subscriptions);
    running_.erase(found);
    --listening_;
  }
  for (std::uint64_t one : ended) subscriptions_.remove(one);
}

std::size_t Session::in_flight() const {
  std::lock_guard lock(mutex_);
  return running_.size() - listening_;
}

std::size_t Session::in_flight_bytes() const {
  std::lock_guard lock(mutex_);
  std::size_t size_bytes = 0;
  for (const auto& [id, running] : running_) size_bytes += running.size_bytes;
  return size_bytes;
}

bool Session::is_listening() const {
  std::lock_guard lock(mutex_);
  return listening_ > 0;
}

void Session::wait_until_fewer_than(std::size_t count) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return running_.size() - listening_ < count; });
}

void Session::wait_for_room(std::size_t count, std::size_t size_bytes) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] {
    std::size_t used = 0;
    for (const auto& [id, running] : running_) used += running.size_bytes;
    return running_.size() - listening_ < count && used < size_bytes;
  });
}

void Session::end_subscriptions() {
  std::vector<Running> ended;
  {
    std::lock_guard lock(mutex_);
    for (auto one = running_.begin(); one != running_.end();) {
      if (!one->second.end) {
        ++one;
        continue;
      }
      ended.push_back(std::move(one->second));
      one = running_.erase(one);
    }
    listening_ = 0;
  }
  for (const Running& one : ended) {
    for (std::uint64_t id : one.subscriptions) subscriptions_.remove(id);
    one.end(Json::object());
  }
}

void Session::cancel_all() {
  std::lock_guard lock(mutex_);
  for (auto& [id, running] : running_) *running.is_cancelled = true;
}

std::optional<Revision> Session::revision() const {
  std::lock_guard lock(mutex_);
  return revision_;
}

std::optional<int> Session::log_level() const {
  std::lock_guard lock(mutex_);
  return log_level_;
}

Answer Session::set_log_level(const Json& params) {
  std::optional<std::string> name = find_text(params, "level");
  std::optional<int> level = name ? find_log_level(*name) : std::nullopt;
  if (!level)
    return invalid_params("'level' must be debug, info, notice, warning, error, critical, alert or emergency");
  std::lock_guard lock(mutex_);
  log_level_ = level;
  return Json::object();
}

Answer Session::subscribe(Request& request) {
  if (Status rights = service_.refresh_view(); !rights.ok()) return rpc_error(rights.error());
  std::optional<std::string> uri = find_text(request.params, "uri");
  if (!uri) return invalid_params("'uri' must be a string");
  if (service_.options().is_conformance && conformance::is_resource(*uri)) return Json::object();  // it never changes
  Result<std::string> path = resource_path(request, *uri, "read");
  if (!path.ok()) return rpc_error(path.error());
  {
    std::lock_guard lock(mutex_);
    if (subscribed_.contains(*uri)) return Json::object();
  }
  if (count_subscriptions() >= kSessionSubscriptionsMax) return too_many_subscriptions();
  std::shared_ptr<Outlet> to = options_.notices ? options_.notices : request.outlet;
  Result<std::uint64_t> id = subscriptions_.add(*path, [to, uri = *uri] {
    to->send(notification_message("notifications/resources/updated", {{"uri", uri}}));
  });
  if (!id.ok()) return rpc_error(id.error());
  std::lock_guard lock(mutex_);
  if (!subscribed_.emplace(*uri, *id).second) subscriptions_.remove(*id);
  return Json::object();
}

Answer Session::unsubscribe(Request& request) {
  std::optional<std::string> uri = find_text(request.params, "uri");
  if (!uri) return invalid_params("'uri' must be a string");
  std::lock_guard lock(mutex_);
  if (auto found = subscribed_.find(*uri); found != subscribed_.end()) {
    subscriptions_.remove(found->second);
    subscribed_.erase(found);
  }
  return Json::object();
}

std::size_t Session::count_subscriptions() const {
  std::lock_guard lock(mutex_);
  std::size_t count = subscribed_.size();
  for (const auto& [id, running] : running_) {
    if (running.end) count += std::max<std::size_t>(running.subscriptions.size(), 1);
  }
  return count;
}

// All of them, or none and the reason.
std::variant<std::vector<std::uint64_t>, RpcError> Session::add_listened(const std::shared_ptr<Request>& request,
                                                                         const std::vector<WatchedResource>& wanted,
                                                                         const std::function<void(Json)>& notice) {
  std::vector<std::uint64_t> added;
  for (const WatchedResource& one : wanted) {
    Result<std::uint64_t> id =
        subscriptions_.add(one.path, [notice, meta = subscription_meta(*request), uri = one.uri] {
          notice({{"_meta", meta}, {"uri", uri}});
        });
    if (!id.ok()) {
      for (std::uint64_t former : added) subscriptions_.remove(former);
      return rpc_error(id.error());
    }
    added.push_back(*id);
  }
  return added;
}

// Answered when it ends. What the client asks for and we do not have is left out of the acknowledgement.
void Session::listen(const std::shared_ptr<Request>& request, const Reply& reply) {
  auto filter = request->params.find("notifications");
  if (filter == request->params.end() || !filter->is_object()) {
    return finish(*request, reply, invalid_params("'notifications' must be an object"));
  }
  if (Status rights = service_.refresh_view(); !rights.ok()) return finish(*request, reply, rpc_error(rights.error()));
  Json agreed = Json::object();
  std::vector<WatchedResource> wanted;
  std::size_t former = count_subscriptions();
  if (former >= kSessionSubscriptionsMax) return finish(*request, reply, too_many_subscriptions());
  if (auto uris = filter->find("resourceSubscriptions"); uris != filter->end() && uris->is_array()) {
    if (uris->size() > kSessionSubscriptionsMax - former) return finish(*request, reply, too_many_subscriptions());
    for (const Json& uri : *uris) {
      Result<std::string> path = uri.is_string() ? resource_path(*request, uri.get<std::string>(), "read")
                                                 : Error(Code::kInvalid, "a URI must be a string");
      if (!path.ok()) return finish(*request, reply, invalid_params(path.error().message()));
      wanted.push_back({.uri = uri.get<std::string>(), .path = *path});
    }
    agreed["resourceSubscriptions"] = *uris;
  }
  request->params = Json::object();  // a subscription lasts, and this may be large
  // Subscribed first, so that no change after the acknowledgement is missed. It is the first message all the same.
  auto gate = std::make_shared<Gate>(
      [request](Json message) { request->notify("notifications/resources/updated", std::move(message)); });
  auto added = add_listened(request, wanted, [gate](Json message) { gate->pass(std::move(message)); });
  if (auto* refused = std::get_if<RpcError>(&added)) return finish(*request, reply, std::move(*refused));
  Json acknowledged{{"_meta", subscription_meta(*request)}, {"notifications", std::move(agreed)}};
  request->outlet->send(notification_message("notifications/subscriptions/acknowledged", std::move(acknowledged)));
  gate->open();
  keep_listening(request, reply, std::move(std::get<std::vector<std::uint64_t>>(added)));
}

void Session::keep_listening(const std::shared_ptr<Request>& request, const Reply& reply,
                             std::vector<std::uint64_t> added) {
  std::lock_guard lock(mutex_);
  auto found = running_.find(dump_json(request->id));
  if (*request->is_cancelled) {  // meanwhile
    for (std::uint64_t one : added) subscriptions_.remove(one);
    running_.erase(found);
    finished_.notify_all();
    return;
  }
  ++listening_;
  found->second.size_bytes = 0;
  found->second.subscriptions = std::move(added);
  found->second.end = [this, request, reply](const Json&) {
    Json result{{"resultType", "complete"}, {"_meta", subscription_meta(*request)}};
    result["_meta"][kMetaServer] = service_.server_info(request->revision);
    reply(result_message(request->id, std::move(result)));
  };
  finished_.notify_all();
}

}  // namespace warren::mcp
