// A client of Redis: one server, the master that sentinels name, or a cluster.
//
// Commands go through a small pool of connections, so that threads do not wait for each other. Every call ends within
// the timeout, connecting included. A connection that is lost is replaced on the next call. A command is sent at most
// once, unless the server refused it (it is loading, no longer the master, the slot has moved).
//
// In a cluster every key of one client must be in the same hash slot: a client follows one slot.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "clients/url.h"

struct redisReply;

namespace warren::redis {

struct Hiredis;
class Connection;
using Words = std::span<const std::string_view>;

// A part of an answer; valid as long as its Reply.
class ReplyView {
 public:
  explicit ReplyView(const redisReply* reply) : reply_(reply) {}

  bool is_nil() const;
  bool is_error() const;
  std::string_view text() const;  // empty unless it is a string, a status or an error
  std::int64_t integer() const;   // 0 unless it is one, or a string of digits
  std::size_t size() const;       // elements of an array; 0 for everything else
  ReplyView operator[](std::size_t index) const;

 private:
  const redisReply* reply_;
};

// A whole answer.
class Reply {
 public:
  Reply(const Hiredis& library, redisReply* reply) : library_(&library), reply_(reply) {}
  Reply(Reply&& other) noexcept;
  Reply& operator=(Reply&& other) noexcept;
  ~Reply();

  ReplyView view() const { return ReplyView(reply_); }

 private:
  const Hiredis* library_;
  redisReply* reply_;
};

struct ClientOptions {
  enum class Kind { kServer, kSentinel, kCluster };
  Kind kind = Kind::kServer;
  std::vector<HostPort> hosts;  // of sentinels or of some nodes of the cluster; one for a plain server
  std::string master;           // for sentinels: the name that they know it by
  std::string user;
  std::optional<std::string> password;
  std::optional<std::string> sentinel_password;
  int database = 0;
  bool has_tls = false;
  std::string ca_file;  // certificates to trust instead of the system's
  std::chrono::milliseconds timeout{10'000};
  std::size_t connections_max = 16;
};

// redis://, rediss:// (with TLS), redis+sentinel://h1,h2/NAME/DB, redis+cluster://h1,h2; rediss+… with TLS. Options in
// the query: timeout, connections, ca, sentinel_password. kInvalid, without secrets. Does not look at options of
// others.
Result<ClientOptions> parse_client_url(const Url& url, std::chrono::milliseconds default_timeout);

// A Lua script, sent once and then named by its hash.
class Script {
 public:
  explicit Script(const char* text) : text_(text) {}
  const char* text() const { return text_; }

 private:
  friend class Client;
  const char* text_;
  std::mutex mutex_;
  std::string hash_;  // as the server named it; guarded by mutex_
};

// Thread-safe.
class Client {
 public:
  explicit Client(ClientOptions options);
  ~Client();

  // The answer, which is never an error: an error of the server is an Error. kDenied: the password, or a right of the
  // user. kUnavailable: no answer in time, or the connection was lost; the command may or may not have been executed.
  // No other error leaves anything behind.
  Result<Reply> call(Words words);
  // All of them or none, in one round trip, by MULTI and EXEC: an array of their answers.
  Result<Reply> call_together(std::span<const Words> commands);
  // `keys` routes it in a cluster; the script sees them as KEYS, and `arguments` as ARGV. It may read other keys of the
  // slot before it has changed anything, and must not change others.
  Result<Reply> run(Script& script, Words keys, Words arguments);

 private:
  using Instant = std::chrono::steady_clock::time_point;

  Result<std::unique_ptr<Connection>> take(Instant until);
  void give_back(std::unique_ptr<Connection> connection);
  Result<std::unique_ptr<Connection>> connect(Instant until);
  Result<std::unique_ptr<Connection>> connect_to(const HostPort& to, Instant until);
  Result<std::unique_ptr<Connection>> connect_to_master(Instant until);
  Result<std::unique_ptr<Connection>> connect_to_cluster(Instant until);
  Result<HostPort> ask_sentinel(const HostPort& sentinel, Instant until);
  Status log_in(Connection& connection, Instant until);
  Instant share_of(Instant until) const;
  using Request = std::function<Result<Reply>(Connection& connection, Instant until)>;
  Result<Reply> repeat(const Request& request);
  Result<Reply> call_once(const Request& request, Instant until, bool& may_repeat);
  Result<Reply> ask_elsewhere(const HostPort& to, const Request& request, Instant until);
  void follow(std::optional<HostPort> target);
  Result<std::string> hash_of(Script& script);

  const ClientOptions options_;

  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<Connection>> idle_;  // this and the rest are guarded by mutex_
  std::size_t in_use_ = 0;
  std::optional<HostPort> target_;  // of a cluster: the node that has the slot, if known
  std::uint64_t generation_ = 0;    // connections of an older one are closed when they come back
  std::size_t next_host_ = 0;       // that answered last
};

}  // namespace warren::redis
