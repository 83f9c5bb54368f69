#include "mcp/session.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/path.h"

namespace warren::mcp {
namespace {

constexpr std::size_t kBatchMax = 100;
constexpr std::chrono::minutes kQuestionPatience{5};
constexpr std::size_t kQuestionsOfSession = 2;
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

bool is_about_resources(std::string_view method) { return method.starts_with("resources/"); }

bool is_long_call(const Request& request) {
  if (request.method != "tools/call") return false;
  const Tool* tool = request.service.find_tool(find_text(request.params, "name").value_or(""));
  return tool != nullptr && is_long(*tool);
}

Error too_many_long_calls() {
  return Error(Code::kBusy,
               fmt::format("{} calls of run or apply are under way, and no more are possible", Service::kLongCallsMax),
               "Nothing was done. Call it again when one of them has ended or was cancelled.");
}

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
  if (watched_list_) subscriptions_.remove(*watched_list_);
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
    case RpcMessage::Kind::kResponse: return handle_response(message);
  }
}

// Notifications are never answered, unknown and malformed ones included.
void Session::handle_notification(const RpcMessage& message) {
  if (message.method == "notifications/initialized" && revision()) return watch_list();
  if (message.method != "notifications/cancelled") return;
  if (auto id = message.params.find("requestId"); id != message.params.end()) cancel(*id);
}

// One to nothing that was asked, or too late, is ignored.
void Session::handle_response(const RpcMessage& message) {
  std::lock_guard lock(mutex_);
  auto found = questions_.find(dump_json(message.id));
  if (found == questions_.end()) return;
  found->second = {.is_answered = true, .result = message.result};
  finished_.notify_all();
}

Result<Json> Session::ask_client(const Request& request, std::string_view method, Json params) {
  if (!service_.begin_question()) return Error(Code::kBusy, "too many other users are being asked something");
  Json id;
  {
    std::lock_guard lock(mutex_);
    if (questions_.size() >= kQuestionsOfSession) {
      service_.end_question();
      return Error(Code::kBusy, "earlier questions to this client are not answered yet");
    }
    id = fmt::format("warren-{}", ++last_question_);
    questions_.emplace(dump_json(id), Question{});
  }
  request.outlet->send(request_message(id, method, std::move(params)));
  std::unique_lock lock(mutex_);
  Question& question = questions_[dump_json(id)];
  finished_.wait_for(lock, kQuestionPatience,
                     [&] { return question.is_answered || *request.is_cancelled || !may_ask_; });
  Question asked = std::move(question);
  questions_.erase(dump_json(id));
  service_.end_question();
  if (*request.is_cancelled) return Error(Code::kUnavailable, "the call was cancelled");
  if (asked.result) return *std::move(asked.result);
  return Error(Code::kUnavailable, asked.is_answered ? "the client answered the question with an error"
                                                     : "the client did not answer the question in time");
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
    auto capabilities = params.find("capabilities");
    client_capabilities_ = capabilities != params.end() && capabilities->is_object() ? *capabilities : Json::object();
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
  CallKind kind = is_long_call(*request) ? CallKind::kLong : CallKind::kShort;
  if (kind == CallKind::kLong && !(request->long_place = service_.begin_long_call())) {
    return finish(*request, reply, decorated(*request, refuse_call(*request, too_many_long_calls())));
  }
  if (!options_.run) return serve(request, reply);
  if (options_.run(kind, [this, request, reply] { serve(request, reply); })) return;
  finish(*request, reply, RpcError{.code = kOverloaded, .message = "the server cannot take more requests now"});
}

void Session::serve(const std::shared_ptr<Request>& request, const Reply& reply) {
  const MethodEntry* method = find_method(request->method, request->revision);
  if (method == nullptr) return finish(*request, reply, unknown_method(request->method, request->revision));
  Answer answer = RpcError{};
  if (request->outlet->is_crowded()) {
    return finish(*request, reply, RpcError{.code = kOverloaded, .message = "too many answers were not read yet"});
  }
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
  request->long_place.reset();  // whoever has the answer may call again
  finish(*request, reply, std::move(answer));
}

Answer Session::decorated(const Request& request, Answer answer) const {
  auto* result = std::get_if<Json>(&answer);
  if (result == nullptr || has_sessions(request.revision)) return answer;
  if (!result->contains("resultType")) (*result)["resultType"] = "complete";
  (*result)["_meta"][kMetaServer] = service_.server_info(request.revision);
  return answer;
}

void Session::finish(const Request& request, const Reply& reply, Answer answer) {
  if (!*request.is_cancelled) reply(answer_message(request.id, std::move(answer)));
  forget(request.id);
}

bool Session::begin(const Request& request, std::size_t size_bytes) {
  bool is_call = request.method == "tools/call" && request.params.is_object();
  auto tool = is_call ? request.params.find("name") : request.params.end();
  std::lock_guard lock(mutex_);
  Running running{.is_cancelled = request.is_cancelled,
                  .is_command = is_call && tool != request.params.end() && *tool == "run",
                  .size_bytes = size_bytes,
                  .subscriptions = {},
                  .end = {}};
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
    finished_.notify_all();          // it may wait for an answer
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

bool Session::wait_until_fewer_than(std::size_t count, std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  return finished_.wait_for(lock, at_most, [&] { return running_.size() - listening_ < count; });
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
    may_ask_ = false;
    finished_.notify_all();
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
  finished_.notify_all();
}

void Session::cancel_commands() {
  std::lock_guard lock(mutex_);
  for (auto& [id, running] : running_) {
    if (running.is_command) *running.is_cancelled = true;
  }
  finished_.notify_all();
}

std::optional<Revision> Session::revision() const {
  std::lock_guard lock(mutex_);
  return revision_;
}

Json Session::client_capabilities() const {
  std::lock_guard lock(mutex_);
  return client_capabilities_;
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

}  // namespace warren::mcp
