// A TCP proxy in front of a test's server, on a port of its own at 127.0.0.1, that can do to its connections what
// networks do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "os/fd.h"

namespace warren::testing {

// A new mode holds for open connections, too: nothing that a client sends after set() is treated by the old one.
class FaultyProxy {
 public:
  enum class Mode {
    kPass,
    kSlow,   // answers arrive in small pieces with pauses, see set_pace()
    kCut,    // connections are closed at once
    kReset,  // the same with RST
    kHalf,   // requests pass; half of the answer's first bytes arrive, then the connection is closed
    kMute,   // requests pass, answers do not
    kHang,   // connections are accepted and stay open, and nothing passes. What was sent arrives with the next kPass
  };

  explicit FaultyProxy(std::uint16_t target_port);  // of 127.0.0.1; nothing needs to listen there yet
  ~FaultyProxy();
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;

  std::uint16_t port() const { return port_; }
  void set(Mode mode) { mode_ = mode; }
  void set_pace(std::size_t piece_bytes, std::chrono::milliseconds pause);  // 256 bytes each 20 ms unless set
  // On each new connection only so many bytes of answers pass with kPass; what comes then is held back.
  void set_answer_limit(std::size_t bytes) { answer_limit_ = bytes; }
  int connection_count() const { return connection_count_; }  // accepted so far

 private:
  void accept_all();
  void serve(Fd client);
  bool pass_on(int from, int to);
  bool answer(int server, int client, std::size_t& left);
  void send_slowly(int to, const char* data, std::size_t size);
  void pause_for(std::chrono::milliseconds time);

  std::uint16_t target_port_;
  std::uint16_t port_ = 0;
  Fd listener_;
  std::atomic<Mode> mode_{Mode::kPass};
  std::atomic<std::size_t> piece_bytes_{256};
  std::atomic<int> pause_ms_{20};
  std::atomic<std::size_t> answer_limit_{std::numeric_limits<std::size_t>::max()};
  std::atomic<int> connection_count_{0};
  std::atomic<bool> is_ending_{false};
  std::vector<std::thread> servers_;  // used by acceptor_ alone until it has ended
  std::thread acceptor_;
};

}  // namespace warren::testing
