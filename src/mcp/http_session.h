// A session over HTTP: its streams of events, which a client that was cut off can resume.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mcp/request.h"
#include "mcp/session.h"
#include "net/web_server.h"

namespace warren::mcp {

net::WebHeaders event_stream_headers();

// The HTTP status of a message that answers a request.
int status_of_answer(const Json& message, bool is_stateless);

// Events of a session that were sent, for clients that come back. Thread-safe. The oldest are dropped at a limit.
class EventLog {
 public:
  std::uint64_t begin_stream();
  std::string add(std::uint64_t stream, const Json& message);  // the text of the event
  struct Rest {
    std::uint64_t stream = 0;
    std::vector<std::string> events;  // as text
  };
  // What came after this event in its stream; nullopt if the id is none of ours.
  std::optional<Rest> after(std::string_view event_id) const;

 private:
  struct Event {
    std::uint64_t stream = 0;
    std::uint64_t number = 0;
    std::string text;
  };
  mutable std::mutex mutex_;
  std::deque<Event> events_;  // under mutex_, as what follows; oldest first
  std::size_t bytes_ = 0;
  std::uint64_t last_stream_ = 0;
  std::uint64_t last_number_ = 0;
};

// A stream of messages to a client: the answer to one POST, or the notices of a session. Thread-safe.
//
// An answer that comes first is sent as JSON, and that was it. If a notification comes first, all are events.
class StreamOutlet final : public Outlet {
 public:
  // Without a log its events have no ids. Without a reply messages are only logged, until it is resumed.
  StreamOutlet(std::shared_ptr<net::WebReply> reply, std::shared_ptr<EventLog> log, net::WebHeaders headers = {});
  ~StreamOutlet() override { end(); }  // nobody is left who could answer
  StreamOutlet(const StreamOutlet&) = delete;
  StreamOutlet& operator=(const StreamOutlet&) = delete;

  void send(const Json& message) override;
  bool is_crowded() override;
  // The client has come back, with a new request; it has missed these events.
  void resume(std::shared_ptr<net::WebReply> reply, const std::vector<std::string>& missed);
  void end();         // without an answer
  void keep_alive();  // shows whether the client is still there
  std::uint64_t stream() const { return stream_; }

 private:
  void open_stream();  // under mutex_

  std::shared_ptr<EventLog> log_;  // shared with the session's other streams
  std::uint64_t stream_ = 0;
  net::WebHeaders headers_;
  std::mutex mutex_;
  std::shared_ptr<net::WebReply> reply_;  // under mutex_, as what follows; shared with the server
  bool is_stream_ = false;
  bool is_done_ = false;
};

// Members are set once; `used` and `streams` are under the door's lock.
struct HttpSession {
  std::string id;
  std::shared_ptr<EventLog> log;          // shared with its streams
  std::shared_ptr<StreamOutlet> notices;  // shared with the session
  std::unique_ptr<Session> session;
  std::chrono::steady_clock::time_point used;
  std::map<std::uint64_t, std::weak_ptr<StreamOutlet>> streams;  // of POSTs that may be resumed
};

}  // namespace warren::mcp
