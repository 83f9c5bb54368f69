// One client: its messages in, answers and notifications out, whatever the transport.
//
// Thread-safe. Requests run where the transport lets them (Options::run), so answers may come in another order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mcp/request.h"
#include "mcp/revision.h"
#include "mcp/rpc.h"
#include "mcp/service.h"
#include "mcp/subscriptions.h"

namespace warren::mcp {

class Session {
 public:
  struct Options {
    // Runs a job now or later, on any thread; false: it cannot. Empty: at once, in the caller's thread.
    std::function<bool(std::function<void()>)> run = {};
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
  // The same for a message that was parsed already.
  void receive_value(const Json& value, const std::shared_ptr<Outlet>& outlet);

  // How many requests are being served, without subscriptions.
  std::size_t in_flight() const;
  void wait_until_fewer_than(std::size_t count);
  // Subscriptions of the stateless era are answered; then requests that run are cancelled.
  void end_subscriptions();
  void cancel_all();

  std::optional<Revision> revision() const;  // nullopt: not initialised
  std::optional<int> log_level() const;

 private:
  friend struct Request;
  using Reply = std::function<void(Json)>;
  class Batch;
  struct Running {
    std::shared_ptr<std::atomic<bool>> is_cancelled;
    std::vector<std::uint64_t> subscriptions;  // of subscriptions/listen
    Reply end;                                 // answers it; only of subscriptions/listen
  };

  void receive_batch(const Json& list, const std::shared_ptr<Outlet>& outlet);
  void receive_one(const Json& value, const std::shared_ptr<Outlet>& outlet, const Reply& reply, bool is_in_batch);
  void handle_notification(const RpcMessage& message);
  void handle_request(RpcMessage message, const std::shared_ptr<Outlet>& outlet, const Reply& reply, bool is_in_batch);
  std::variant<Revision, RpcError> revision_of(const RpcMessage& message) const;
  Answer initialize(const Json& params, bool is_in_batch);
  void start(std::shared_ptr<Request> request, const Reply& reply);
  void serve(const std::shared_ptr<Request>& request, const Reply& reply);
  void finish(const Request& request, const Reply& reply, Answer answer);
  bool begin(const Json& id, const std::shared_ptr<std::atomic<bool>>& is_cancelled);
  void forget(const Json& id);
  void cancel(const Json& id);
  void listen(const std::shared_ptr<Request>& request, const Reply& reply);
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
};

}  // namespace warren::mcp
