// An HTTP server on loopback whose answers a test writes byte by byte: also wrong, half and missing ones.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "os/fd.h"

namespace warren::testing {

struct ScriptedRequest {
  std::string head;  // request line and headers
  std::string body;
  int connection = 0;  // counted from 1

  bool begins(std::string_view text) const { return head.starts_with(text); }
};

struct ScriptedAnswer {
  enum class After { kKeep, kClose, kHang };

  std::string bytes;
  After after = After::kKeep;
};

// "HTTP/1.1 200 OK" with a Content-Length and whatever headers are given, each with its "\r\n".
ScriptedAnswer answer_with(int status, std::string_view body, std::string_view headers = "");

// The script runs in one thread per connection.
class ScriptedServer {
 public:
  using Script = std::function<ScriptedAnswer(const ScriptedRequest&)>;

  explicit ScriptedServer(Script script);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::string url() const;  // "http://127.0.0.1:PORT"
  int connections() const { return connections_; }
  int requests() const { return requests_; }

 private:
  void accept_all();
  void serve(Fd connection, int number);

  Script script_;
  Fd listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_ = 0;
  std::atomic<int> requests_ = 0;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_stopping_ = false;
  std::vector<int> open_;  // connections, for shutdown()
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace warren::testing
