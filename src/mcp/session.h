// One client: its messages in, answers and notifications out, whatever the transport.
//
// Thread-safe. Requests run where the transport lets them (Options::run), so answers may come in another order.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mcp/call_threads.h"
#include "mcp/request.h"
#include "mcp/revision.h"
#include "mcp/rpc.h"
#include "mcp/service.h"
#include "mcp/subscriptions.h"

namespace warren::mcp {

// What is wrong with the _meta of a request that names its revision there; nullopt: nothing.
std::optional<RpcError> find_stateless_problem(const Json& params);

// What a subscription is about; both empty: the list of resources.
struct WatchedResource {
  std::string uri;
  std::string path;
};

class Session {
 public:
  struct Options {
    // Runs a job now or later, on any thread; false: it cannot. Empty: at once, in the caller's thread. Long jobs must
    // not keep others waiting; there are at most Service::kLongCallsMax.
    std::function<bool(CallKind, std::function<void()>)> run = {};
    // Where notices that belong to no request go; may be empty.
    std::shared_ptr<Outlet> notices = {};
  };
  // Both outlive it.
  Session(Service& service, Subscriptions& subscriptions, Options options);
  ~Session();  // ends subscriptions; no request may run any more
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // One message, or a batch of them, as text. Whatever it is, it is answered as JSON-RPC wants, through `outlet`.
  void receive(std::string_view text, const std::shared_ptr<Outlet>& outlet);
  // Takes a message that was parsed already; it had this size as text.
  void receive_value(const Json& value, const std::shared_ptr<Outlet>& outlet, std::size_t size_bytes = 0);

  // How many requests are being served, without subscriptions.
  std::size_t in_flight() const;
  // The size of their messages as text.
  std::size_t in_flight_bytes() const;
  bool is_listening() const;  // a subscriptions/listen is open
  // False if there are as many after this time.
  bool wait_until_fewer_than(std::size_t count, std::chrono::milliseconds at_most);
  // Until fewer requests are being served and their messages are smaller than this. One message may be larger.
  void wait_for_room(std::size_t count, std::size_t size_bytes);
  // Subscriptions of the stateless era are answered. The client is asked nothing any more.
  void end_subscriptions();
  void cancel_all();
  void cancel_commands();  // calls of the tool `run`, which may take an hour

  std::optional<Revision> revision() const;  // nullopt: not initialised
  std::optional<int> log_level() const;
  Json client_capabilities() const;  // as 'initialize' has given them

  // Asks the client something on behalf of a request and waits for its answer, for minutes: only in sessions.
  // kUnavailable: it does not answer, answers with an error, or the request was cancelled. kBusy: too much is asked.
  Result<Json> ask_client(const Request& request, std::string_view method, Json params);

 private:
  friend struct Request;
  using Reply = std::function<void(Json)>;
  class Batch;
  struct Running {
    std::shared_ptr<std::atomic<bool>> is_cancelled;
    bool is_command = false;                   // a call of the tool `run`
    std::size_t size_bytes = 0;                // of its message; 0 of subscriptions/listen, which keeps nothing of it
    std::vector<std::uint64_t> subscriptions;  // of subscriptions/listen
    Reply end;                                 // answers it; only of subscriptions/listen
  };

  struct Question {
    bool is_answered = false;
    std::optional<Json> result;
  };

  // How a message came.
  struct Arrival {
    std::shared_ptr<Outlet> outlet;  // shared with the request that it becomes
    std::size_t size_bytes = 0;
    bool is_in_batch = false;
  };

  void receive_batch(const Json& list, const Arrival& arrival);
  void receive_one(const Json& value, const Arrival& arrival, const Reply& reply);
  void handle_notification(const RpcMessage& message);
  void handle_response(const RpcMessage& message);
  void handle_request(RpcMessage message, const Arrival& arrival, const Reply& reply);
  std::variant<Revision, RpcError> revision_of(const RpcMessage& message) const;
  Answer initialize(const Json& params, bool is_in_batch);
  void start(std::shared_ptr<Request> request, const Reply& reply);
  void serve(const std::shared_ptr<Request>& request, const Reply& reply);
  void finish(const Request& request, const Reply& reply, Answer answer);
  bool begin(const Request& request, std::size_t size_bytes);
  void forget(const Json& id);
  void cancel(const Json& id);
  void watch_list();
  void listen(const std::shared_ptr<Request>& request, const Reply& reply);
  std::variant<std::vector<std::uint64_t>, RpcError> add_listened(const std::shared_ptr<Request>& request,
                                                                  const std::vector<WatchedResource>& wanted,
                                                                  const std::function<void(Json)>& notice);
  void keep_listening(const std::shared_ptr<Request>& request, const Reply& reply, std::vector<std::uint64_t> added);
  std::size_t count_subscriptions() const;
  Answer subscribe(Request& request);
  Answer unsubscribe(Request& request);
  Answer set_log_level(const Json& params);
  Answer decorated(const Request& request, Answer answer) const;

  Service& service_;
  Subscriptions& subscriptions_;
  Options options_;

  mutable std::mutex mutex_;
  std::condition_variable finished_;
  std::optional<Revision> revision_;  // under mutex_, as what follows
  std::optional<int> log_level_;
  std::map<std::string, Running> running_;           // by the JSON of the id
  std::size_t listening_ = 0;                        // of these, subscriptions/listen
  std::map<std::string, std::uint64_t> subscribed_;  // by URI, in a session
  std::optional<std::uint64_t> watched_list_;        // of resources, in a session
  Json client_capabilities_ = Json::object();
  std::map<std::string, Question> questions_;  // to the client, by the JSON of their ids
  std::uint64_t last_question_ = 0;
  bool may_ask_ = true;
};

}  // namespace warren::mcp
