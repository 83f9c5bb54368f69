// What a client wants to be notified of: resources/subscribe in sessions, subscriptions/listen from 2026-07-28 on.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "mcp/conformance.h"
#include "mcp/session.h"

namespace warren::mcp {
namespace {

constexpr std::size_t kSessionSubscriptionsMax = 1000;  // each subscriptions/listen counts as one at least

RpcError too_many_subscriptions() {
  return {.code = kInternalError,
          .message = fmt::format("too many subscriptions; a client has at most {}", kSessionSubscriptionsMax)};
}

Json subscription_meta(const Request& request) { return {{kMetaSubscription, request.id}}; }

// Holds messages back until it is opened. Shared by the notices of a subscription.
class Gate {
 public:
  explicit Gate(std::function<void(Json)> send) : send_(std::move(send)) {}

  void pass(Json message) {
    {
      std::lock_guard lock(mutex_);
      if (!is_open_) return held_.push_back(std::move(message));
    }
    send_(std::move(message));
  }

  void open() {
    std::vector<Json> held;
    {
      std::lock_guard lock(mutex_);
      is_open_ = true;
      held = std::exchange(held_, {});
    }
    for (Json& message : held) send_(std::move(message));
  }

 private:
  std::function<void(Json)> send_;
  std::mutex mutex_;
  bool is_open_ = false;  // under mutex_, as what follows
  std::vector<Json> held_;
};

}  // namespace

// Once a session has begun, the client is notified when the list of its resources changes.
void Session::watch_list() {
  if (!service_.serves_files() || !options_.notices) return;
  std::lock_guard lock(mutex_);
  if (watched_list_) return;
  Result<std::uint64_t> id = subscriptions_.add_list(
      [to = options_.notices] { to->send(notification_message("notifications/resources/list_changed", {})); });
  if (id.ok()) watched_list_ = *id;  // a notification is never answered
}

Answer Session::subscribe(Request& request) {
  if (Status rights = service_.refresh_view(); !rights.ok()) return rpc_error(rights.error());
  std::optional<std::string> uri = find_text(request.params, "uri");
  if (!uri) return invalid_params("'uri' must be a string");
  if (service_.options().is_conformance && conformance::is_resource(*uri)) return Json::object();  // it never changes
  Result<std::string> path = watched_path(request, *uri);
  if (!path.ok()) return rpc_error(path.error());
  {
    std::lock_guard lock(mutex_);
    if (subscribed_.contains(*uri)) return Json::object();
  }
  if (count_subscriptions() >= kSessionSubscriptionsMax) return too_many_subscriptions();
  std::shared_ptr<Outlet> to = options_.notices ? options_.notices : request.outlet;
  Result<std::uint64_t> id = subscriptions_.add(*path, [to, uri = *uri] {
    to->send(notification_message("notifications/resources/updated", {{"uri", uri}}));
  });
  if (!id.ok()) return rpc_error(id.error());
  std::lock_guard lock(mutex_);
  if (!subscribed_.emplace(*uri, *id).second) subscriptions_.remove(*id);
  return Json::object();
}

Answer Session::unsubscribe(Request& request) {
  std::optional<std::string> uri = find_text(request.params, "uri");
  if (!uri) return invalid_params("'uri' must be a string");
  std::lock_guard lock(mutex_);
  if (auto found = subscribed_.find(*uri); found != subscribed_.end()) {
    subscriptions_.remove(found->second);
    subscribed_.erase(found);
  }
  return Json::object();
}

std::size_t Session::count_subscriptions() const {
  std::lock_guard lock(mutex_);
  std::size_t count = subscribed_.size();
  for (const auto& [id, running] : running_) {
    if (running.end) count += std::max<std::size_t>(running.subscriptions.size(), 1);
  }
  return count;
}

// All of them, or none and the reason.
std::variant<std::vector<std::uint64_t>, RpcError> Session::add_listened(const std::shared_ptr<Request>& request,
                                                                         const std::vector<WatchedResource>& wanted,
                                                                         const std::function<void(Json)>& notice) {
  std::vector<std::uint64_t> added;
  for (const WatchedResource& one : wanted) {
    Json message{{"_meta", subscription_meta(*request)}};
    if (!one.uri.empty()) message["uri"] = one.uri;
    auto notify = [notice, message] { notice(message); };
    Result<std::uint64_t> id =
        one.path.empty() ? subscriptions_.add_list(notify) : subscriptions_.add(one.path, std::move(notify));
    if (!id.ok()) {
      for (std::uint64_t former : added) subscriptions_.remove(former);
      return rpc_error(id.error());
    }
    added.push_back(*id);
  }
  return added;
}

// Answered when it ends. What the client asks for and we do not have is left out of the acknowledgement.
void Session::listen(const std::shared_ptr<Request>& request, const Reply& reply) {
  auto filter = request->params.find("notifications");
  if (filter == request->params.end() || !filter->is_object()) {
    return finish(*request, reply, invalid_params("'notifications' must be an object"));
  }
  if (Status rights = service_.refresh_view(); !rights.ok()) return finish(*request, reply, rpc_error(rights.error()));
  Json agreed = Json::object();
  std::vector<WatchedResource> wanted;
  std::size_t former = count_subscriptions();
  if (former >= kSessionSubscriptionsMax) return finish(*request, reply, too_many_subscriptions());
  if (auto uris = filter->find("resourceSubscriptions"); uris != filter->end() && uris->is_array()) {
    if (uris->size() > kSessionSubscriptionsMax - former) return finish(*request, reply, too_many_subscriptions());
    for (const Json& uri : *uris) {
      Result<std::string> path = uri.is_string() ? watched_path(*request, uri.get<std::string>())
                                                 : Error(Code::kInvalid, "a URI must be a string");
      if (!path.ok()) return finish(*request, reply, invalid_params(path.error().message()));
      wanted.push_back({.uri = uri.get<std::string>(), .path = *path});
    }
    agreed["resourceSubscriptions"] = *uris;
  }
  if (auto list = filter->find("resourcesListChanged");
      list != filter->end() && *list == true && service_.serves_files()) {
    wanted.push_back({.uri = {}, .path = {}});
    agreed["resourcesListChanged"] = true;
  }
  request->params = Json::object();  // a subscription lasts, and this may be large
  // Subscribed first, so that no change after the acknowledgement is missed. It is the first message all the same.
  auto gate = std::make_shared<Gate>([request](Json message) {
    bool is_about_one = message.contains("uri");
    request->notify(is_about_one ? "notifications/resources/updated" : "notifications/resources/list_changed",
                    std::move(message));
  });
  auto added = add_listened(request, wanted, [gate](Json message) { gate->pass(std::move(message)); });
  if (auto* refused = std::get_if<RpcError>(&added)) return finish(*request, reply, std::move(*refused));
  Json acknowledged{{"_meta", subscription_meta(*request)}, {"notifications", std::move(agreed)}};
  request->outlet->send(notification_message("notifications/subscriptions/acknowledged", std::move(acknowledged)));
  gate->open();
  keep_listening(request, reply, std::move(std::get<std::vector<std::uint64_t>>(added)));
}

void Session::keep_listening(const std::shared_ptr<Request>& request, const Reply& reply,
                             std::vector<std::uint64_t> added) {
  std::lock_guard lock(mutex_);
  auto found = running_.find(dump_json(request->id));
  if (*request->is_cancelled) {  // meanwhile
    for (std::uint64_t one : added) subscriptions_.remove(one);
    running_.erase(found);
    finished_.notify_all();
    return;
  }
  ++listening_;
  found->second.size_bytes = 0;
  found->second.subscriptions = std::move(added);
  found->second.end = [this, request, reply](const Json&) {
    Json result{{"resultType", "complete"}, {"_meta", subscription_meta(*request)}};
    result["_meta"][kMetaServer] = service_.server_info(request->revision);
    reply(result_message(request->id, std::move(result)));
  };
  finished_.notify_all();
}

}  // namespace warren::mcp
