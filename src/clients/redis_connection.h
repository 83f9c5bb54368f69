// One connection to one Redis server.
//
// Internal to this module.
#pragma once

#include <memory>

#include "clients/redis.h"
#include "clients/stream.h"

struct redisReader;

namespace warren::redis {

// For one thread.
class Connection {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  static Result<std::unique_ptr<Connection>> open(const HostPort& to, const std::optional<TlsOptions>& tls,
                                                  Instant until);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The answer may be an error of the server. After a failure the connection is of no use.
  Result<Reply> call(Words words, Instant until);
  // Between MULTI and EXEC, in one message. The answer to EXEC, or the first refusal.
  Result<Reply> call_together(std::span<const Words> commands, Instant until);

  bool is_idle() const;
  void abandon() { stream_->abandon(); }
  const HostPort& where() const { return where_; }

  std::uint64_t generation = 0;  // of the pool

 private:
  Connection(const Hiredis& library, HostPort where, std::unique_ptr<Stream> stream);
  Status append(Words words);
  Status send(Instant until);
  Result<Reply> receive(Instant until);

  const Hiredis& library_;
  HostPort where_;
  std::unique_ptr<Stream> stream_;
  redisReader* reader_;
  std::vector<const char*> pointers_;
  std::vector<std::size_t> sizes_;
  std::string to_send_;
  std::string buffer_;
  Instant used_;
};

}  // namespace warren::redis
