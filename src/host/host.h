// A host: many agents served by one process, over a Unix socket.
//
// A client proves to be an agent by signing a challenge with the agent's key, which the host knows from a manifest that
// the operator accepted (trust/trust_state.h). Then it uses that agent's namespace, and what other agents share with
// it. The protocol is in docs/design/trust.md.
//
// Each connection has a thread. What a client can hold is bounded: connections and bytes in flight for each agent, and
// a time for each message, so that a client that stops half-way holds up itself only.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "host/frame.h"
#include "host/requests.h"
#include "host/served_agents.h"
#include "os/fd.h"
#include "trust/trust_file.h"

namespace warren {

struct HostLimits {
  std::size_t connections = 4096;
  std::size_t connections_of_agent = 1024;
  std::size_t unidentified = 1024;               // that have not proven yet who they are
  std::size_t requests_of_agent = 4;             // that are being answered; others wait
  std::size_t sent_bytes = kFrameBodyBytes;      // of bodies that one agent has on their way to the host
  std::size_t all_bytes = std::size_t{1} << 30;  // of bodies of all agents, in both directions
  std::chrono::milliseconds identify{10'000};    // for a client to prove who it is
  std::chrono::milliseconds message{30'000};     // for a message to come, or to be taken, whole
  std::chrono::milliseconds grace{5'000};        // for answers on their way when the host ends
};

struct HostOptions {
  std::string socket;               // absolute
  std::string folder;               // has <id>.db for each agent; absolute
  std::vector<std::string> only{};  // these agents; empty: all of the folder
  std::string trust_folder;         // the operator's decisions (trust/trust_file.h)
  int threshold = kTrustThreshold;  // the score that an agent needs to reach others
  std::vector<uid_t> users{};       // besides this process's user and root
  NamespaceOf namespace_of{};       // null: without mounts and relay
  HostLimits limits{};
};

// What agents have in use. Thread-safe.
class HostUse {
 public:
  explicit HostUse(const HostLimits& limits) : limits_(limits) {}

  Status add_connection(const std::string& agent);  // kLimit
  void remove_connection(const std::string& agent);
  // Bytes on their way to the host. kBusy.
  Status add_sent(const std::string& agent, std::size_t bytes);
  void remove_sent(const std::string& agent, std::size_t bytes);
  // Bytes of an answer. kBusy.
  Status add_answer(std::size_t bytes);
  void remove_answer(std::size_t bytes);
  // Waits until one more request of the agent may be answered; kBusy if that takes too long.
  Status begin_request(const std::string& agent);
  void end_request(const std::string& agent);

 private:
  struct Used {
    std::size_t connections = 0;
    std::size_t sent = 0;
    std::size_t requests = 0;
  };
  const HostLimits& limits_;
  std::mutex mutex_;
  std::condition_variable request_ended_;
  std::map<std::string, Used> agents_;  // that have connections
  std::size_t bytes_ = 0;
};

class Host {
 public:
  // Takes the socket and listens. kBusy if another host has it.
  static Result<std::unique_ptr<Host>> open(HostOptions options, Clock& clock);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // Serves until `stop_fd` is readable; then ends what is being answered, and returns.
  Status serve(int stop_fd);
  // Of each agent that has been used here; the others have nothing in this process. From any thread, also while it
  // serves. Returns lines for people: what is not covered, and which have none.
  std::vector<std::string> take_checkpoints();
  const std::string& socket() const { return options_.socket; }

 private:
  struct Connection {
    explicit Connection(Fd fd) : socket(std::move(fd)) {}
    FrameSocket socket;
    std::thread thread;
    std::atomic<bool> is_identified = false;
    std::atomic<bool> is_done = false;
    bool is_dropped = false;  // by the thread that serves
  };

  Host(HostOptions options, Clock& clock);
  Status take_socket();
  void accept_one();
  bool is_allowed_user(uid_t uid) const;
  void make_room_for_unidentified();
  void pause_without_descriptors();
  void remove_done();
  void end_connections();
  void answer_control();
  Json status();

  void serve_connection(Connection& connection);
  Status greet(Connection& connection, HostClientIdentity& client);
  Status serve_requests(Connection& connection, const HostClientIdentity& client);
  Status answer_one(Connection& connection, const HostClientIdentity& client, const Frame& request);
  Status send_answer(Connection& connection, const Result<Frame>& answer);

  HostOptions options_;
  Clock& clock_;
  LiveTrust trust_;
  ServedAgents agents_;
  Requests requests_;
  HostUse use_;
  Fd lock_;
  Fd listener_;
  Fd control_;
  std::string control_path_;
  std::int64_t started_at_ = 0;
  std::list<std::unique_ptr<Connection>> connections_;  // of the thread that serves
  std::atomic<bool> is_ending_ = false;
  std::atomic<std::uint64_t> served_requests_ = 0;
  std::atomic<std::uint64_t> refused_clients_ = 0;
};

// The socket by which the operator asks a host's process how it is: in the operator's private folder, so no agent can.
Result<std::string> host_control_path(std::int64_t pid);

}  // namespace warren
