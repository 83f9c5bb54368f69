#include "clients/redis.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/ascii.h"
#include "base/path.h"
#include "clients/redis_connection.h"
#include "clients/url_options.h"

namespace warren::redis {
namespace {

using Instant = std::chrono::steady_clock::time_point;

constexpr std::uint16_t kServerPort = 6379;
constexpr std::uint16_t kSentinelPort = 26379;
constexpr std::chrono::milliseconds kPause{50};  // before asking a server again that is not ready

// A refusal of the server begins with a word that says what it is about.
struct Refusal {
  std::string_view word;
  Code code;
  bool passes;  // the same command may succeed shortly; it was not executed
};

constexpr Refusal kRefusals[] = {
    {"NOAUTH", Code::kDenied, false},         {"WRONGPASS", Code::kDenied, false},
    {"NOPERM", Code::kDenied, false},         {"OOM", Code::kNoSpace, false},
    {"WRONGTYPE", Code::kCorrupt, false},     {"MISCONF", Code::kIo, false},
    {"READONLY", Code::kReadOnly, true},      {"LOADING", Code::kUnavailable, true},
    {"MASTERDOWN", Code::kUnavailable, true}, {"CLUSTERDOWN", Code::kUnavailable, true},
    {"TRYAGAIN", Code::kUnavailable, true},   {"BUSY", Code::kUnavailable, true},
    {"NOREPLICAS", Code::kUnavailable, true},
};

std::string_view first_word(std::string_view text) { return text.substr(0, text.find(' ')); }

const Refusal* find_refusal(std::string_view text) {
  // A script that reads keys beyond those it was called with, while their slot is moving. Such scripts write at their
  // end at most.
  static constexpr Refusal kMoving{"ERR", Code::kUnavailable, true};
  if (text.find("access a non local key") != text.npos) return &kMoving;
  for (const Refusal& one : kRefusals) {
    if (first_word(text) == one.word) return &one;
  }
  return nullptr;
}

Error error_of_server(std::string_view text) {
  const Refusal* refusal = find_refusal(text);
  Code code = refusal != nullptr ? refusal->code : Code::kIo;
  auto has = [&](std::string_view words) { return text.find(words) != text.npos; };
  if (has("max number of clients")) code = Code::kUnavailable;
  if (has("user executing the script can't") || has("ACL failure in script")) code = Code::kDenied;
  std::string message = quote(text);  // printable, without its quotes
  return {code, "Redis: " + message.substr(1, message.size() - 2)};
}

// "MOVED 3999 10.0.0.1:6381" or "ASK …": where to. An empty host is the one that was asked.
std::optional<HostPort> parse_redirection(std::string_view text, const HostPort& asked) {
  std::string_view target = text.substr(text.rfind(' ') + 1);
  std::size_t colon = target.rfind(':');
  if (colon == target.npos) return std::nullopt;
  auto port = parse_number<std::uint16_t>(target.substr(colon + 1));
  if (!port) return std::nullopt;
  std::string host(target.substr(0, colon));
  return HostPort{.host = host.empty() || host == "?" ? asked.host : host, .port = *port};
}

Result<ClientOptions> parse_scheme_of_redis(const Url& url) {
  ClientOptions options;
  std::string_view scheme = url.scheme;
  options.has_tls = scheme.starts_with("rediss");
  scheme.remove_prefix(options.has_tls ? 6 : 5);
  if (scheme == "+sentinel") options.kind = ClientOptions::Kind::kSentinel;
  else if (scheme == "+cluster") options.kind = ClientOptions::Kind::kCluster;
  else if (!scheme.empty()) {
    return Error(Code::kInvalid, fmt::format("{} is not a scheme of Redis", quote(url.scheme)),
                 "redis, rediss, redis+sentinel, redis+cluster, rediss+sentinel or rediss+cluster");
  }
  return options;
}

Status parse_path_of_redis(std::string_view path, ClientOptions& options) {
  if (path.starts_with('/')) path.remove_prefix(1);
  if (options.kind == ClientOptions::Kind::kSentinel) {
    std::size_t slash = path.find('/');
    options.master = WARREN_TRY(decode_percent(path.substr(0, slash)));
    if (options.master.empty()) {
      return Error(Code::kInvalid, "the URL does not name the master", "redis+sentinel://HOST,HOST/NAME/DATABASE");
    }
    path = slash == path.npos ? std::string_view() : path.substr(slash + 1);
  }
  if (path.empty()) return Ok{};
  auto database = parse_number<int>(path);
  if (!database || *database < 0) {
    return Error(Code::kInvalid, fmt::format("the URL names database {}, which is not a number", quote(path)));
  }
  if (options.kind == ClientOptions::Kind::kCluster && *database != 0) {
    return Error(Code::kInvalid, "a Redis cluster has no database other than 0");
  }
  options.database = *database;
  return Ok{};
}

}  // namespace

Result<ClientOptions> parse_client_url(const Url& url, std::chrono::milliseconds default_timeout) {
  ClientOptions options = WARREN_TRY(parse_scheme_of_redis(url));
  bool is_sentinel = options.kind == ClientOptions::Kind::kSentinel;
  for (const std::string& host : url.hosts) {
    options.hosts.push_back(WARREN_TRY(parse_host_port(host, is_sentinel ? kSentinelPort : kServerPort)));
  }
  if (options.hosts.empty()) return Error(Code::kInvalid, "the URL has no host", "redis://HOST:PORT/DATABASE");
  if (options.kind == ClientOptions::Kind::kServer && options.hosts.size() > 1) {
    return Error(Code::kInvalid, "the URL has several hosts",
                 "redis+sentinel:// or redis+cluster:// for a service on several machines");
  }
  WARREN_TRY(parse_path_of_redis(url.path, options));
  options.user = url.user;
  options.password = url.password;
  if (!url.user.empty() && !url.password) {
    return Error(Code::kInvalid, "the URL has a user without a password", "redis://USER:PASSWORD@HOST");
  }
  if (const std::string* password = url.find("sentinel_password")) options.sentinel_password = *password;
  if (const std::string* file = url.find("ca")) options.ca_file = *file;
  options.timeout = WARREN_TRY(duration_option(url, "timeout", default_timeout));
  options.connections_max = WARREN_TRY(number_option(url, "connections", options.connections_max, 1, 1000));
  return options;
}

Client::Client(ClientOptions options) : options_(std::move(options)) {}

Client::~Client() = default;

// One of several hosts may not use up the time of the others.
Client::Instant Client::share_of(Instant until) const {
  if (options_.kind == ClientOptions::Kind::kServer) return until;
  return std::min(until, std::chrono::steady_clock::now() + options_.timeout / 4);
}

Result<std::unique_ptr<Connection>> Client::connect_to(const HostPort& to, Instant until) {
  std::optional<TlsOptions> tls;
  if (options_.has_tls) tls = TlsOptions{.host = to.host, .ca_file = options_.ca_file};
  auto connection = WARREN_TRY(Connection::open(to, tls, until));
  WARREN_TRY(log_in(*connection, until).within([&] { return fmt::format("{}:{}", to.host, to.port); }));
  return connection;
}

// The server's own words are not passed on where they could repeat the password.
Status Client::log_in(Connection& connection, Instant until) {
  if (options_.password) {
    std::vector<std::string_view> words{"AUTH"};
    if (!options_.user.empty()) words.push_back(options_.user);
    words.push_back(*options_.password);
    Reply reply = WARREN_TRY(connection.call(words, until));
    if (reply.view().is_error()) {
      const Refusal* refusal = find_refusal(reply.view().text());
      if (refusal != nullptr && refusal->passes) return error_of_server(reply.view().text());
      return Error(Code::kDenied, "Redis refuses the user or the password");
    }
  }
  if (options_.database == 0) return Ok{};
  std::string number = std::to_string(options_.database);
  std::string_view words[] = {"SELECT", number};
  Reply reply = WARREN_TRY(connection.call(words, until));
  if (!reply.view().is_error()) return Ok{};
  if (find_refusal(reply.view().text()) != nullptr) return error_of_server(reply.view().text());
  return Error(Code::kInvalid, fmt::format("Redis has no database {}", options_.database));
}

Result<HostPort> Client::ask_sentinel(const HostPort& sentinel, Instant until) {
  std::optional<TlsOptions> tls;
  if (options_.has_tls) tls = TlsOptions{.host = sentinel.host, .ca_file = options_.ca_file};
  auto connection = WARREN_TRY(Connection::open(sentinel, tls, until));
  if (options_.sentinel_password) {
    std::string_view words[] = {"AUTH", *options_.sentinel_password};
    Reply reply = WARREN_TRY(connection->call(words, until));
    if (reply.view().is_error()) return Error(Code::kDenied, "the sentinel refuses its password");
  }
  std::string_view words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.master};
  Reply reply = WARREN_TRY(connection->call(words, until));
  if (reply.view().is_error()) return error_of_server(reply.view().text());
  if (reply.view().size() != 2) {
    return Error(Code::kNotFound, fmt::format("the sentinel at {}:{} knows no master {}", sentinel.host, sentinel.port,
                                              quote(options_.master)));
  }
  return HostPort{.host = std::string(reply.view()[0].text()),
                  .port = static_cast<std::uint16_t>(reply.view()[1].integer())};
}

Result<std::unique_ptr<Connection>> Client::connect_to_master(Instant until) {
  Result<std::unique_ptr<Connection>> connection = Error(Code::kUnavailable, "no sentinel answers");
  for (const HostPort& sentinel : options_.hosts) {
    Result<HostPort> master = ask_sentinel(sentinel, share_of(until));
    if (!master.ok()) {
      connection = std::move(master).take_error();
      continue;
    }
    connection = connect_to(*master, share_of(until));
    if (!connection.ok()) continue;
    // Right after a failover a sentinel may still name the former master.
    std::string_view words[] = {"ROLE"};
    Result<Reply> role = (*connection)->call(words, share_of(until));
    if (role.ok() && (role->view()[0].text() == "master" || role->view().is_error())) return connection;
    connection = Error(Code::kUnavailable, fmt::format("{}:{} is no longer the master", master->host, master->port));
  }
  return connection;
}

Result<std::unique_ptr<Connection>> Client::connect_to_cluster(Instant until) {
  std::optional<HostPort> target;
  std::size_t first = 0;
  {
    std::lock_guard lock(mutex_);
    target = target_;
    first = next_host_;
  }
  Result<std::unique_ptr<Connection>> connection = Error(Code::kUnavailable, "no node of the cluster answers");
  if (target) {
    connection = connect_to(*target, share_of(until));
    if (connection.ok() || connection.error().code() != Code::kUnavailable) return connection;
    follow(std::nullopt);
  }
  for (std::size_t i = 0; i < options_.hosts.size(); ++i) {
    std::size_t index = (first + i) % options_.hosts.size();
    connection = connect_to(options_.hosts[index], share_of(until));
    if (!connection.ok()) continue;
    std::lock_guard lock(mutex_);
    next_host_ = index + 1;  // if it leads to a node that is gone, another may know better
    break;
  }
  return connection;
}

Result<std::unique_ptr<Connection>> Client::connect(Instant until) {
  for (;;) {
    std::uint64_t generation = 0;
    {
      std::lock_guard lock(mutex_);
      generation = generation_;
    }
    Result<std::unique_ptr<Connection>> connection =
        options_.kind == ClientOptions::Kind::kServer     ? connect_to(options_.hosts.front(), until)
        : options_.kind == ClientOptions::Kind::kSentinel ? connect_to_master(until)
                                                          : connect_to_cluster(until);
    if (connection.ok()) {
      (*connection)->generation = generation;
      return connection;
    }
    // Several machines find a new master within seconds.
    bool may_pass = options_.kind != ClientOptions::Kind::kServer && connection.error().code() == Code::kUnavailable;
    if (!may_pass || std::chrono::steady_clock::now() + kPause >= until) return connection;
    std::this_thread::sleep_for(kPause);
  }
}

Result<std::unique_ptr<Connection>> Client::take(Instant until) {
  std::unique_lock lock(mutex_);
  auto is_free = [&] { return !idle_.empty() || in_use_ < options_.connections_max; };
  if (!given_back_.wait_until(lock, until, is_free)) {
    return Error(Code::kUnavailable, fmt::format("Redis: all {} connections are in use", options_.connections_max));
  }
  ++in_use_;
  while (!idle_.empty()) {
    std::unique_ptr<Connection> connection = std::move(idle_.back());
    idle_.pop_back();
    lock.unlock();
    if (connection->is_idle()) return connection;
    connection.reset();  // the server has closed it
    lock.lock();
  }
  lock.unlock();
  Result<std::unique_ptr<Connection>> connection = connect(until);
  if (!connection.ok()) give_back(nullptr);
  return connection;
}

// A null pointer for a connection that is gone.
void Client::give_back(std::unique_ptr<Connection> connection) {
  std::lock_guard lock(mutex_);
  --in_use_;
  if (connection && connection->generation == generation_) idle_.push_back(std::move(connection));
  given_back_.notify_one();
}

// From now on commands go to `target`, or to wherever the next connection leads.
void Client::follow(std::optional<HostPort> target) {
  std::vector<std::unique_ptr<Connection>> old;
  std::lock_guard lock(mutex_);
  bool is_same = target && target_ && target->host == target_->host && target->port == target_->port;
  if (is_same) return;
  target_ = std::move(target);
  ++generation_;
  old.swap(idle_);
}

// In the middle of moving a slot from one node to another: this command alone goes elsewhere.
Result<Reply> Client::ask_elsewhere(const HostPort& to, const Request& request, Instant until) {
  auto connection = WARREN_TRY(connect_to(to, until));
  std::string_view asking[] = {"ASKING"};
  WARREN_TRY(connection->call(asking, until));
  return request(*connection, until);
}

Result<Reply> Client::call_once(const Request& request, Instant until, bool& may_repeat) {
  auto connection = WARREN_TRY(take(until));
  Result<Reply> reply = request(*connection, until);
  if (!reply.ok()) {
    connection->abandon();
    give_back(nullptr);
    if (options_.kind != ClientOptions::Kind::kServer) follow(std::nullopt);
    return std::move(reply).take_error().within(
        fmt::format("Redis at {}:{}", connection->where().host, connection->where().port));
  }
  if (!reply->view().is_error()) {
    give_back(std::move(connection));
    return reply;
  }
  HostPort where = connection->where();
  give_back(std::move(connection));
  std::string kind(first_word(reply->view().text()));
  if (options_.kind == ClientOptions::Kind::kCluster && (kind == "MOVED" || kind == "ASK")) {
    may_repeat = true;
    std::optional<HostPort> target = parse_redirection(reply->view().text(), where);
    if (!target) return error_of_server(reply->view().text());
    if (kind == "MOVED") {
      follow(target);
      return error_of_server(reply->view().text());
    }
    reply = ask_elsewhere(*target, request, until);
    if (!reply.ok()) may_repeat = false;
    if (!reply.ok() || !reply->view().is_error()) return reply;
    kind = first_word(reply->view().text());
    if (kind == "MOVED" || kind == "ASK") return Error(Code::kUnavailable, "Redis: the cluster is moving the keys");
  }
  if (kind == "MOVED" || kind == "CROSSSLOT") {
    return Error(Code::kInvalid, "Redis: the server is a node of a cluster", "redis+cluster://HOST,HOST");
  }
  const Refusal* refusal = find_refusal(reply->view().text());
  may_repeat = refusal != nullptr && refusal->passes;
  if (refusal != nullptr && refusal->code == Code::kReadOnly) {
    if (options_.kind == ClientOptions::Kind::kServer) may_repeat = false;
    else follow(std::nullopt);
  }
  return error_of_server(reply->view().text());
}

Result<Reply> Client::call(Words words) {
  return repeat([words](Connection& connection, Instant until) { return connection.call(words, until); });
}

Result<Reply> Client::call_together(std::span<const Words> commands) {
  Reply reply = WARREN_TRY(
      repeat([commands](Connection& connection, Instant until) { return connection.call_together(commands, until); }));
  for (std::size_t i = 0; i < reply.view().size(); ++i) {
    if (reply.view()[i].is_error()) return error_of_server(reply.view()[i].text());
  }
  return reply;
}

Result<Reply> Client::repeat(const Request& request) {
  Instant until = std::chrono::steady_clock::now() + options_.timeout;
  for (bool is_first = true;; is_first = false) {
    bool may_repeat = false;
    Result<Reply> reply = call_once(request, until, may_repeat);
    if (reply.ok() || !may_repeat || std::chrono::steady_clock::now() + kPause >= until) return reply;
    if (!is_first || reply.error().code() != Code::kIo) std::this_thread::sleep_for(kPause);  // MOVED needs no pause
  }
}

Result<Reply> Client::run(Script& script, Words keys, Words arguments) {
  std::string hash = WARREN_TRY(hash_of(script));
  std::string count = std::to_string(keys.size());
  std::vector<std::string_view> words{"EVALSHA", hash, count};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  Result<Reply> reply = call(words);
  if (reply.ok() || reply.error().message().find("NOSCRIPT") == std::string::npos) return reply;
  words[0] = "EVAL";  // another server, or one that was restarted; it keeps the script from now on
  words[1] = script.text();
  return call(words);
}

Result<std::string> Client::hash_of(Script& script) {
  {
    std::lock_guard lock(script.mutex_);
    if (!script.hash_.empty()) return script.hash_;
  }
  std::string_view words[] = {"SCRIPT", "LOAD", script.text()};
  Reply reply = WARREN_TRY(call(words));
  std::lock_guard lock(script.mutex_);
  script.hash_ = reply.view().text();
  return script.hash_;
}

}  // namespace warren::redis
